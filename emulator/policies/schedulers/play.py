"""A player: any scheduler of the protocol with a list of jobs, in virtual time and without machines.

Theory of operation
-------------------
The player takes the place of the ResourceManager, the nodes and the ApplicationMasters.  A job is rigid: its tasks get
their containers in one answer, and start, stop and end together.  At each instant the scheduler is notified of what is
due, and then of what its own decisions have led to, until nothing else happens; then it decides, if its answer holds no
longer.  What it decides is done at once, but for the times of ``Costs``.  A job that is reclaimed is stopped, or killed
and asks for its containers again.

An ``Execution`` starts in the cycle that decides it.  One that is decided and evicted at one instant is known by its
cycles only: some schedulers then give no container.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import heappop, heappush
from typing import Any

from msgspec.structs import replace

from emulator.policies.schedulers.protocol import (
    ENDLESS,
    VERSION,
    Answer,
    CancelJob,
    ContainerEnded,
    ContainerStarted,
    ContainerStopped,
    Cycle,
    Event,
    GrantContainer,
    JobEnded,
    JobRequests,
    JobSubmitted,
    NodeAdded,
    ReclaimContainer,
    Scheduler,
    SchedulerDecision,
    SchedulerStarted,
    Suspended,
)
from emulator.vocabulary import SECOND_NS, Frozen, Mechanism


class Costs(Frozen):
    """What machines take for what a scheduler decides."""

    launch_ns: int = 0
    """From a decision until the job works."""
    launch_more_ns: int = 0
    """How much longer that takes for each other job that starts in the same pass."""
    gone_ns: int = 0
    """From the order to end a job that has begun to work until it has left its nodes."""
    save_period_ns: int | None = None
    """How often programs save what they have done, so that a restarted job goes on from there; None: never."""


NO_COSTS = Costs()


class PlayedJob(Frozen):
    """A job to play."""

    submitted: JobSubmitted
    """What the scheduler is notified of."""
    length_ns: int | None
    """How long it works, without the time in which it is stopped; None: it does not end by itself."""
    stops: bool = False
    """Whether it is stopped when it is reclaimed; else it is killed."""
    stuck: frozenset[int] = frozenset()
    """The numbers of its executions, from 0, in which it does not get to work, and so does not end by itself."""


class End(StrEnum):
    """How an execution ended."""

    DONE = "done"
    TIMEOUT = "timeout"
    """Its scheduler has cancelled the job: its time limit is over."""
    CANCELLED = "cancelled"
    """It has been cancelled for another job."""
    REQUEUED = "requeued"
    """It was ended for another job, and the job waits again."""


@dataclass(eq=False, slots=True)
class Execution:
    """A job on its nodes, once."""

    start_ns: int
    """When it began to work."""
    nodes: Sequence[str]
    """The node of each task."""
    end_ns: int | None = None
    """When it was done, or was to leave its nodes."""
    end: End | None = None
    by: str | None = None
    """For whom it was to end, as the scheduler names it."""
    gone_ns: int | None = None
    """When it had left its nodes, if it was not done."""
    stopped: list[tuple[int, int]] = field(default_factory=list)
    """When it was stopped, and resumed."""
    saved_ns: int = 0
    """Work that it had saved when it was requeued, and that is not done again."""

    @property
    def was_ended(self) -> bool:
        """Whether it was ended for another job."""
        return self.end in (End.CANCELLED, End.REQUEUED)

    @property
    def lost_ns(self) -> int:
        """Work that was ended, and is done again or never, on each of its nodes."""
        if not self.was_ended or self.end_ns is None:
            return 0
        stopped_ns = sum(until_ns - since_ns for since_ns, until_ns in self.stopped)
        return max(0, self.end_ns - self.start_ns - stopped_ns - self.saved_ns)


def job_row(submit_ns: int | None, executions: Sequence[Execution]) -> dict[str, Any]:
    """What became of a job, as a row for ``emulator.records.measures``: in seconds, lost work times its nodes.

    An execution that was stopped counts as one suspension, however often it was its turn to run and to stop.
    ``submit_ns`` is None for a job that was on its nodes from the beginning, and did not wait.
    """
    submit_s = None if submit_ns is None else submit_ns / SECOND_NS
    end_ns = executions[-1].end_ns if executions and executions[-1].end is End.DONE else None
    return {
        "submit_s": submit_s,
        "start_s": executions[0].start_ns / SECOND_NS if executions else None,
        "completion_s": None if end_ns is None or submit_ns is None else (end_ns - submit_ns) / SECOND_NS,
        "suspensions": sum(bool(each.stopped) for each in executions),
        "kills": sum(each.was_ended for each in executions),
        "lost_work_s": sum(each.lost_ns * len(each.nodes) for each in executions) / SECOND_NS,
    }


@dataclass(eq=False, slots=True)
class _Run:
    """An execution that is under way."""

    execution: Execution
    containers: list[tuple[str, str, str]] = field(default_factory=list)
    """The name, the group and the node of the container of each task."""
    since_ns: int | None = None
    """The time since which it works; None: it does not."""
    stopped_ns: int | None = None
    """The time since which it is stopped."""
    leaves: bool = False


@dataclass(eq=False, slots=True)
class _Job:
    """A job with what is left of it."""

    facts: PlayedJob
    left_ns: int | None
    run: _Run | None = None
    """Its last execution."""
    containers: int = 0
    """How many containers it has been given so far."""


class Player:
    """One play of a scheduler, nodes and jobs; see the module's theory of operation."""

    def __init__(
        self, scheduler: Scheduler, nodes: Iterable[NodeAdded], jobs: Iterable[PlayedJob], costs: Costs = NO_COSTS
    ) -> None:
        """``scheduler``: one that answers at once; a process outside is asked by a driver."""
        self._jobs = {job.submitted.job: job for job in sorted(jobs, key=lambda each: each.submitted.submitted_ns)}
        self.executions: dict[str, list[Execution]] = {name: [] for name in self._jobs}
        """The executions of each job, in the order of their starts."""
        self.running: dict[str, None] = {}
        """Jobs that are on nodes and have not been preempted there."""
        self.changes = 0
        """How many submissions and completions of jobs there have been."""
        self.changed_ns = 0
        """When the last of these was."""
        self.decisions = 0
        """How many decisions the scheduler has made."""
        self.now_ns = min((job.submitted.submitted_ns for job in self._jobs.values()), default=0)
        self._scheduler, self._costs = scheduler, costs
        self._played: dict[str, _Job] = {}
        self._runs: dict[str, tuple[_Job, _Run]] = {}
        """The job and the execution of each container that is there."""
        self._events: list[Event] = [SchedulerStarted(VERSION, 0, (), mechanism=Mechanism.KILL.value), *nodes]
        """What the scheduler is notified of next."""
        self._until_ns: int | None = None
        """The time until which the scheduler's last answer holds."""
        self._pending: list[tuple[int, int, Callable[[], None]]] = []
        self._added = 0
        for number, job in enumerate(self._jobs.values(), start=1):
            self._at(job.submitted.submitted_ns, lambda job=job, number=number: self._submit(job, number))

    def play(self) -> Iterator[Cycle]:
        """Play until nothing is left to happen: the cycles of the scheduler, each when what it decides is known in
        ``executions`` and ``running``.  Raises SchedulerError."""
        while (at_ns := self._next_ns()) is not None:
            self.now_ns = at_ns
            while self._pending and self._pending[0][0] == at_ns:
                heappop(self._pending)[-1]()
            if self._events:
                events, self._events = self._events, []
                answer = self._scheduler.notify(events, at_ns)
            elif self._until_ns is not None and self._until_ns <= at_ns:
                answer = self._scheduler.decide(at_ns)
            else:
                continue  # it was to end by itself, and has been reclaimed
            assert isinstance(answer, Answer), "a process outside is asked by a driver"
            self._until_ns = answer.valid_until_ns
            evicted = list[tuple[_Job, _Run]]()
            for cycle in answer.cycles:
                self.decisions += len(cycle.decisions)
                if cycle.starts or cycle.victims:
                    evicted += self._record(cycle)
                yield cycle
            for decision in answer.decisions:
                self._carry_out(decision)
            for job, run in evicted:
                if not run.containers:
                    self._record_end(job, run, End.REQUEUED)

    def finish(self) -> Mapping[str, Sequence[Execution]]:
        """Play to the end: the executions of each job."""
        for _ in self.play():
            pass
        return self.executions

    # ---- what happens ----

    def _next_ns(self) -> int | None:
        """The next instant at which something is due; None: nothing is."""
        if self._events:
            return self.now_ns
        times_ns = [self._pending[0][0]] if self._pending else []
        if self._until_ns is not None:
            times_ns.append(max(self.now_ns, self._until_ns))
        return min(times_ns, default=None)

    def _at(self, at_ns: int, happens: Callable[[], None]) -> None:
        self._added += 1
        heappush(self._pending, (at_ns, self._added, happens))

    def _submit(self, facts: PlayedJob, number: int) -> None:
        self._changed()
        job = self._played[facts.submitted.job] = _Job(facts, facts.length_ns)
        is_last = number == len(self._jobs)
        self._events.append(replace(facts.submitted, is_last=True) if is_last else facts.submitted)
        self._wait(job)

    def _changed(self) -> None:
        self.changes += 1
        self.changed_ns = self.now_ns

    def _wait(self, job: _Job, suspended: tuple[Suspended, ...] = ()) -> None:
        """It waits for all of its containers."""
        submitted = job.facts.submitted
        new = {} if suspended else {group.group: group.tasks for group in submitted.groups}
        self._events.append(JobRequests(submitted.job, 0, new, suspended, (), len(suspended) or sum(new.values())))

    def _set_due(self, job: _Job, run: _Run) -> None:
        """Plan the end of its work."""
        is_stuck = len(self.executions[job.facts.submitted.job]) - 1 in job.facts.stuck
        if run.since_ns is not None and job.left_ns is not None and not is_stuck:
            due_ns = run.since_ns + job.left_ns
            self._at(due_ns, lambda: self._end(job, run, due_ns))

    def _end(self, job: _Job, run: _Run, due_ns: int) -> None:
        """Its work is done, unless it was stopped or ended before."""
        execution, name = run.execution, job.facts.submitted.job
        if execution.end is not None or run.since_ns is None or run.since_ns + (job.left_ns or 0) != due_ns:
            return
        self._changed()
        execution.end, execution.end_ns = End.DONE, due_ns
        self.running.pop(name, None)
        self._free(name, run)
        self._events.append(JobEnded(name))

    def _free(self, job: str, run: _Run) -> None:
        for container, _, node in run.containers:
            del self._runs[container]
            self._events.append(ContainerEnded(container, job, node))

    # ---- what is decided ----

    def _record(self, cycle: Cycle) -> Iterator[tuple[_Job, _Run]]:
        """Record what a cycle says of executions; yields those that it ends before they had a container."""
        for name, nodes in cycle.starts.items():
            self._start(self._played[name], nodes)
        for name, by in cycle.victims.items():
            job = self._played[name]
            assert job.run is not None, "only a job that was started is preempted"
            job.run.execution.by = by
            self.running.pop(name, None)
            if not job.run.containers:
                yield job, job.run

    def _start(self, job: _Job, nodes: Sequence[str]) -> _Run:
        name = job.facts.submitted.job
        job.run = _Run(Execution(self.now_ns, nodes))
        self.executions[name].append(job.run.execution)
        self.running[name] = None
        return job.run

    def _carry_out(self, decision: SchedulerDecision) -> None:
        match decision:
            case GrantContainer(task=None):
                self._give(self._played[decision.job], decision)
            case GrantContainer():
                self._resume(self._played[decision.job], decision)
            case ReclaimContainer(container=container) if container in self._runs:
                job, run = self._runs[container]
                if not job.facts.stops:
                    self._leave(job, run, End.REQUEUED, decision)
                elif run.stopped_ns is None:
                    self._stop(job, run)
            case CancelJob() if decision.why != ENDLESS:
                job = self._played[decision.job]
                if job.run is not None and job.run.execution.end is None:
                    self._leave(job, job.run, End.CANCELLED if decision.loses else End.TIMEOUT)
            case _:
                pass

    def _give(self, job: _Job, give: GrantContainer) -> None:
        """A container for one of its tasks; with the first it begins to work."""
        group = give.group or job.facts.submitted.groups[0].group
        run = self._start(job, (give.node,)) if job.run is None or job.run.leaves else job.run
        container = f"{give.job}/{job.containers}"
        job.containers += 1
        if not run.containers:
            if job.facts.stops:  # it may have been stopped before it got its first container
                run.execution.start_ns = self.now_ns
            run.execution.start_ns += self._costs.launch_ns + give.beside * self._costs.launch_more_ns
            run.since_ns = run.execution.start_ns
            self._set_due(job, run)
        run.containers.append((container, group, give.node))
        self._runs[container] = job, run
        self._events.append(ContainerStarted(container, give.job, group, give.node, None))

    def _stop(self, job: _Job, run: _Run) -> None:
        if run.since_ns is not None and job.left_ns is not None:
            job.left_ns -= max(0, self.now_ns - run.since_ns)
        run.since_ns, run.stopped_ns = None, self.now_ns
        name = job.facts.submitted.job
        self._events += [ContainerStopped(container, name, node) for container, _, node in run.containers]
        tasks = enumerate(run.containers)
        self._wait(job, tuple(Suspended(group, number, node, only_there=True) for number, (_, group, node) in tasks))

    def _resume(self, job: _Job, give: GrantContainer) -> None:
        """The process of one of its tasks goes on; with the first the job works again."""
        run = job.run
        assert run is not None, "it was stopped"
        assert give.task is not None, "its process was stopped"
        if run.stopped_ns is not None:
            run.execution.stopped.append((run.stopped_ns, self.now_ns))
            run.stopped_ns, run.since_ns = None, self.now_ns
            self._set_due(job, run)
        container, group, node = run.containers[give.task]
        self._events.append(ContainerStarted(container, give.job, group, node, give.task))

    def _leave(self, job: _Job, run: _Run, end: End, reclaimed: ReclaimContainer | None = None) -> None:
        """It has to leave its nodes; if it was reclaimed, it waits again."""
        if run.leaves:
            return
        run.leaves = True
        if reclaimed is not None and run.execution.by is None:
            run.execution.by = reclaimed.requester
        gone_ns = self._record_end(job, run, end, 0 if reclaimed is None else reclaimed.stays_ns)
        self._at(gone_ns, lambda: self._free(job.facts.submitted.job, run))
        if reclaimed is None:
            self._events.append(JobEnded(job.facts.submitted.job))
        else:
            self._wait(job)

    def _record_end(self, job: _Job, run: _Run, end: End, release_delay_ns: int = 0) -> int:
        """Its execution ends before its time; returns when it has left its nodes."""
        execution, period_ns = run.execution, self._costs.save_period_ns
        has_begun = execution.start_ns < self.now_ns
        self.running.pop(job.facts.submitted.job, None)
        execution.end, execution.end_ns = end, self.now_ns
        grace_ns = job.facts.submitted.grace_ns
        execution.gone_ns = self.now_ns + grace_ns + release_delay_ns + self._costs.gone_ns * has_begun
        if period_ns and end is End.REQUEUED and job.left_ns is not None:
            execution.saved_ns = execution.lost_ns // period_ns * period_ns
            job.left_ns -= execution.saved_ns
        return execution.gone_ns

"""Plays jobs through whole days in virtual time: every decision, and what becomes of each job.

A victim without grace is gone at once, and its preemptor starts after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from functools import partial

from msgspec.structs import replace

from emulator.policies.agenda import Agenda
from emulator.policies.slurm.controller import Controller
from emulator.policies.slurm.decisions import Decision, Outcome
from emulator.policies.slurm.snapshot import Running
from emulator.sites.slurm import FOREVER_NS, Cluster, Job, Mode
from emulator.vocabulary import Frozen


class Costs(Frozen):
    """What the machine takes for what Slurm decides."""

    launch_ns: int = 0
    """From a decision until the job works."""
    launch_more_ns: int = 0
    """How much longer that takes for each other job that starts in the same pass."""
    gone_ns: int = 0
    """From the order to end a job that has begun to work until it has left its nodes."""
    save_period_ns: int | None = None
    """How often programs save what they have done, so that a requeued job goes on from there; None: never."""


NO_COSTS = Costs()


class End(StrEnum):
    """How a stay of a job on its nodes ended."""

    DONE = "done"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    REQUEUED = "requeued"


@dataclass(slots=True)
class Stay:
    """A job on its nodes, once."""

    start_ns: int
    """When it began to work."""
    nodes: tuple[str, ...]
    end_ns: int | None = None
    end: End | None = None
    by: str | None = None
    """For whom it was preempted."""
    stopped: list[tuple[int, int]] = field(default_factory=list)
    """When it was stopped, and went on."""
    saved_ns: int = 0
    """Work that it had saved when it was requeued, and that is not done again."""

    @property
    def is_done(self) -> bool:
        """Whether the job ran to its end."""
        return self.end is End.DONE

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


@dataclass(eq=False, slots=True)
class _Work:
    """A running job's work."""

    running: Running
    stay: Stay
    left_ns: int
    since_ns: int | None
    """Since when it works; None: it is stopped."""
    due_ns: int = FOREVER_NS
    """When it ends by what is known."""


class _Kind(IntEnum):
    """The order of what happens at one instant."""

    END = 0
    ARRIVE = 1
    SLICE = 2
    TICK = 3


OnDecision = Callable[[int, Decision], None]
"""Called with the time and what a scheduler decided."""


class Player:
    """One play of a cluster and its jobs."""

    def __init__(
        self,
        cluster: Cluster,
        jobs: Iterable[Job],
        costs: Costs = NO_COSTS,
        boot_ns: int = 0,
        on_decision: OnDecision | None = None,
    ) -> None:
        """``boot_ns``: when the controller started, in the jobs' time.  Jobs that fit nowhere are refused, and have no
        stays.

        Raises:
            KeyError: a job names a partition that is not there.
        """
        self._controller = Controller(cluster, boot_ns)
        self._costs, self._on_decision = costs, on_decision
        self._work: dict[str, _Work] = {}
        self._started: list[_Work] = []
        """In the pass that is under way."""
        self._agenda = Agenda()
        self.stays: dict[str, list[Stay]] = {}
        """Of each job, in the order of their starts."""
        for job in sorted(jobs, key=lambda each: each.submit_ns):
            self.stays[job.name] = []
            if cluster.can_hold(job.partition, job.nodes, job.cpus):
                self._agenda.add(job.submit_ns, _Kind.ARRIVE, partial(self._controller.submit, job))

    def play(self) -> dict[str, list[Stay]]:
        """Play until nothing is left to happen: the stays of each job."""
        while self._agenda:
            self._agenda.go_on()
            self._share()
            self._arm()
        return self.stays

    # ---- what happens ----

    def _finish(self, work: _Work) -> None:
        name = work.running.waiting.job.name
        if self._work.get(name) is not work or work.due_ns != self._agenda.now_ns:
            return  # it was stopped, or has gone, in between
        is_over = work.left_ns > self._agenda.now_ns - (work.since_ns or 0)
        if not is_over:
            work.stay.end_ns, work.stay.end = self._agenda.now_ns, End.DONE
            self._leave(work)
        elif work.running.preempted:
            self._evict(work)
        else:
            self._end(work, End.TIMEOUT)

    def _tick(self, at_ns: int) -> None:
        if self._controller.tick_ns == at_ns:
            for decision in self._controller.tick(at_ns):
                self._carry_out(decision)
            self._launch()

    def _arm(self) -> None:
        """Set the next tick that something is to be done at."""
        known_ns, at_ns = self._controller.tick_ns, self._controller.arm(self._agenda.now_ns)
        if at_ns < known_ns:
            self._agenda.add(at_ns, _Kind.TICK, lambda: self._tick(at_ns))

    # ---- what is decided ----

    def _carry_out(self, decision: Decision) -> None:
        if self._on_decision is not None:
            self._on_decision(self._agenda.now_ns, decision)
        if decision.outcome is Outcome.STARTS:
            running = self._controller.start(decision, self._agenda.now_ns)
            stay = Stay(self._agenda.now_ns, decision.nodes)
            self.stays[decision.job].append(stay)
            work = _Work(running, stay, running.waiting.job.length_ns, stay.start_ns)
            self._work[decision.job] = work
            self._started.append(work)
        elif decision.outcome is Outcome.PREEMPTS:
            for work in map(self._work.__getitem__, decision.victims):
                self._preempt(work, decision.job)

    def _launch(self) -> None:
        """Those that a pass has started begin to work."""
        others = len(self._started) - 1
        for work in self._started:
            work.stay.start_ns += self._costs.launch_ns + others * self._costs.launch_more_ns
            work.since_ns = work.stay.start_ns
            if work.stay.end is None:
                self._set_due(work)
        self._started.clear()

    def _preempt(self, work: _Work, by: str) -> None:
        work.stay.by = by
        if self._controller.snapshot.begin_grace(work.running, self._agenda.now_ns):
            self._set_due(work)
        else:
            self._evict(work)

    def _evict(self, work: _Work) -> None:
        """End it for others, if its time limit has not ended it."""
        self._controller.snapshot.send_off(work.running, self._agenda.now_ns)
        if work.stay.end is None:
            is_cancelled = work.running.waiting.terms.mode is Mode.CANCEL
            self._end(work, End.CANCELLED if is_cancelled else End.REQUEUED)

    def _end(self, work: _Work, end: End) -> None:
        """The order to end it; if it has begun to work, it is on its nodes a little longer."""
        now_ns = self._agenda.now_ns
        has_begun = work.stay.start_ns < now_ns
        work.stay.end_ns, work.stay.end, work.due_ns = now_ns, end, FOREVER_NS
        self._agenda.add(now_ns + self._costs.gone_ns * has_begun, _Kind.END, lambda: self._gone(work))

    def _gone(self, work: _Work) -> None:
        self._leave(work)
        if work.stay.end is End.REQUEUED:
            waiting, period_ns = work.running.waiting, self._costs.save_period_ns
            if period_ns:
                work.stay.saved_ns = work.stay.lost_ns // period_ns * period_ns
            job = replace(waiting.job, length_ns=waiting.job.length_ns - work.stay.saved_ns)
            self._controller.requeue(waiting, job, self._agenda.now_ns)

    def _leave(self, work: _Work) -> None:
        self._controller.leave(work.running)
        del self._work[work.running.waiting.job.name]

    def _set_due(self, work: _Work) -> None:
        """Set when it ends: its work, its limit, or its grace."""
        done_ns = FOREVER_NS if work.since_ns is None else work.since_ns + work.left_ns
        work.due_ns = min(done_ns, max(self._controller.ends_ns(work.running), self._agenda.now_ns))
        if work.due_ns < FOREVER_NS:
            self._agenda.add(work.due_ns, _Kind.END, lambda: self._finish(work))

    def _share(self) -> None:
        """Stop and resume jobs that share CPUs, so that each has its own while it runs."""
        now_ns, known_ns = self._agenda.now_ns, self._controller.slice_ns
        stops, goes_on = self._controller.share(now_ns)
        for name, stopped_ns in goes_on.items():
            work = self._work[name]
            work.stay.stopped.append((stopped_ns, now_ns))
            work.since_ns = now_ns
            self._set_due(work)
        for work in map(self._work.__getitem__, stops):
            work.left_ns -= max(0, now_ns - (work.since_ns or 0))
            work.since_ns, work.due_ns = None, FOREVER_NS
        if self._controller.slice_ns < known_ns:
            self._agenda.add(self._controller.slice_ns, _Kind.SLICE, self._controller.change_turns)

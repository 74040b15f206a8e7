"""YARN as the scheduler of whole machines: the CapacityScheduler and its preemption policy decide.

Theory of operation
-------------------
A node is given containers when it reports, so the scheduler asks to be notified of that as long as anything waits.  A
container that it grants is known by its name when it has started; what was granted and is not known then has come and
gone.  A killed container is gone for its queue at once, and for its node when the node has reported that: at the
second heartbeat after the kill, because it hears of the kill at the first.  (The recorded runs of Hadoop's own
ResourceManager: tests/data/PROVENANCE.md.)

The preemption policy has a round once per interval, from a phase that is drawn.  It may take containers even if
nothing is requested: a queue's ideal assignment may be less of one resource than it holds, although nobody else wants
that.  So rounds are left out only if nothing is requested and nothing has changed since one that obtained nothing.

The groups of a job are requests of falling priority, in their order, unless its details say otherwise.  A suspended
task is requested before the new ones of its group.  Under ``mechanism: checkpoint`` or ``suspend`` a container that is
to be killed is asked of its job instead, which saves or stops it.

Where containers have one size, an amount has one number: 1/1024 of a container, as Hadoop counts the megabytes of
containers of 1 GB.  Else amounts are whole megabytes, whole cores and whole numbers of other resources, because YARN
rounds what it computes to these.  Requests and what is held are rounded up, what a node has is rounded down.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from random import Random
from typing import TypeAlias, cast

from emulator.policies.resources import PARTS, least, written
from emulator.policies.schedulers.protocol import (
    Amounts,
    Answer,
    Capacity,
    ContainerEnded,
    ContainerStarted,
    ContainerStopped,
    Event,
    ExplainWait,
    GrantContainer,
    JobEnded,
    JobRequests,
    JobSubmitted,
    NodeAdded,
    NodeHeartbeat,
    NodeRemoved,
    ReclaimContainer,
    Scheduler,
    SchedulerDecision,
    SchedulerStarted,
)
from emulator.policies.yarn.capacity import CapacityScheduler, Request, RunningApplication, Step, StepKind
from emulator.policies.yarn.monitor import PreemptionMonitor
from emulator.policies.yarn.options import MEMORY, ROOT, YarnOptions
from emulator.policies.yarn.reasons import Shortage
from emulator.policies.yarn.tree import tree_of
from emulator.sites.yarn import YarnDetails
from emulator.vocabulary import MASTER, Resources

UNIT = 1024
"""Parts of a container, where all have one size; megabytes of a gigabyte."""
_NEVER_NS = 1 << 62
_LATER = 1 << 40
"""By how much the number of a request for a suspended task is smaller than those of new ones, which come later."""

_Key: TypeAlias = tuple[str, int | None, str, str]
"""What a job waits for: a group; a suspended task of it by its number, or None for a new task, which the job chooses;
the node and the container of its stopped process, or blanks."""


@dataclass(eq=False, slots=True)
class _TaskRequest(Request):
    """A request for a task, or for an ApplicationMaster."""

    group: str = MASTER
    task: int | None = None
    """The number of the suspended task that resumes."""
    id: str = ""
    """The container's name in the cluster, once it is known."""
    stopped_in: str = ""
    """The container of its stopped process."""

    @property
    def key(self) -> _Key:
        """What it is for."""
        return self.group, self.task, self.only_on, self.stopped_in


@dataclass(eq=False, slots=True)
class _Job:
    """A job, and what of it is known."""

    application: RunningApplication
    amounts: dict[str, Resources]
    """What a task of each group asks for."""
    priorities: dict[str, int]
    """Of the requests of each group."""
    exempt: set[str]
    """The groups of which no task may be a victim."""
    minimum_runtime_ns: int
    has_ended: bool = False
    asked: int = 0
    waits: JobRequests | None = None
    """What it was last known to wait for."""
    waiting: Counter[_Key] = field(default_factory=Counter)
    """How many requests wait."""


class YarnScheduler(Scheduler):
    """YARN decides, for the queues of an experiment: who gets a container of a node that reports, and who is killed.

    See the module's theory of operation.
    """

    def __init__(self, options: YarnOptions) -> None:
        self._options = options
        self._names: Sequence[str] = ()
        """The resources of the nodes, memory first; none where containers have one size."""
        self._jobs: dict[str, _Job] = {}
        self._containers: dict[str, _TaskRequest] = {}
        """Those that are known, by name."""
        self._granted: dict[tuple[str, str, str, int | None], deque[_TaskRequest]] = {}
        """Those that are not known yet, by job, node, group and task."""
        self._stopped: dict[str, tuple[str, Resources]] = {}
        """The node of each container whose process is stopped, and what that goes on holding."""
        self._limit: int | None = None
        """How many containers jobs may hold; None: any number."""
        self._monitor: PreemptionMonitor | None = None
        self._phase_ns = 0
        """Of the rounds of the preemption policy."""
        self._round_ns: int | None = None
        """When the next one is."""
        self._may_obtain = False
        """Whether anything has changed since a round that obtained nothing."""
        self._waits: dict[str, object] = {}
        """What was last explained, of the jobs whose queues lack something."""

    def notify(self, events: Sequence[Event], now_ns: int) -> Answer:
        """See ``Scheduler``."""
        for event in events:
            self._take_in(event, now_ns)
        self._forget_granted()
        match events[-1]:
            case NodeHeartbeat(node=node):
                left = None if self._limit is None else max(0, self._limit - len(self._containers))
                before = self._capacity.changes
                steps = self._capacity.heartbeat(node, left)
                is_no_op = len(events) == 1 and self._capacity.changes == before
                self._may_obtain |= not is_no_op
                return self._answer([*self._grants(steps)], now_ns, is_no_op)
            case _:
                self._may_obtain = True
                return self._answer((), now_ns)

    def decide(self, now_ns: int) -> Answer:
        """See ``Scheduler``."""
        self._forget_granted()
        planned_ns, self._round_ns = self._round_ns, None
        if planned_ns is None or planned_ns > now_ns or self._monitor is None or not self._capacity.nodes:
            return self._answer((), now_ns)
        found = self._monitor.round(planned_ns)
        reasons, decided = found.reasons, list[SchedulerDecision]()
        self._may_obtain = any(map(self._capacity.amounts.some, (leaf.to_obtain for leaf in reasons.root.leaves)))
        for request in found.killed:
            of_round = "" if decided else f"\n{reasons.in_words(self._in_words)}"
            why = f"{reasons.of(request, self._in_words)}{of_round}"
            decided.append(ReclaimContainer(cast(_TaskRequest, request).id, why=why))
        return self._answer([*decided, *self._explain_waits(reasons.shortages(self._in_words))], now_ns)

    def _answer(self, decided: Sequence[SchedulerDecision], now_ns: int, is_no_op: bool = False) -> Answer:
        """What was decided, and when it is to be notified or asked again."""
        preemption, capacity = self._options.preemption, self._capacity
        if self._waits and not capacity.pending:
            decided, is_no_op = [*decided, *self._explain_waits(())], False
        has_rounds = capacity.pending or (self._may_obtain and any(capacity.root.used))
        if self._monitor is None or preemption is None or not has_rounds:
            self._round_ns = None
        elif self._round_ns is None:
            rounds = (now_ns - self._phase_ns) // preemption.interval_ns + 1
            self._round_ns = self._phase_ns + rounds * preemption.interval_ns
        heartbeats = capacity.awaited if capacity.pending or capacity.reserved else None
        return Answer(decided, self._round_ns, heartbeats=heartbeats, is_no_op=is_no_op)

    # ---- what has happened ----

    def _take_in(self, event: Event, now_ns: int) -> None:
        match event:
            case SchedulerStarted():
                self._start(event)
            case NodeAdded():
                self._capacity.add_node(event.node, self._amount(event.resources, event.containers, up=False))
            case NodeRemoved():
                self._capacity.remove_node(event.node)
            case Capacity():
                self._limit = event.containers
            case JobSubmitted():
                self._submitted(event)
            case JobRequests():
                self._ask(self._jobs[event.job], event)
            case JobEnded():
                self._job_ended(event.job)
            case ContainerStarted():
                self._container_started(event, now_ns)
            case ContainerStopped():
                self._container_stopped(event)
            case ContainerEnded():
                self._container_ended(event)
            case _:
                pass

    def _amount(self, of: Amounts, containers: int = 1, up: bool = True) -> Resources:
        """The amount in YARN's units (see the module's theory of operation)."""
        sign = -1 if up else 1
        parts = (sign * of.get(name, 0) * (UNIT if name == MEMORY else 1) for name in self._names)
        return tuple(sign * (each // PARTS) for each in parts) or (containers * UNIT,)

    def _start(self, event: SchedulerStarted) -> None:
        options = self._options
        self._names = sorted(event.resources, key=lambda name: name != MEMORY)
        smallest = self._amount({name: round(PARTS * each) for name, each in options.minimum_allocation.items()})
        self._queues = tree_of(options)
        self._capacity = CapacityScheduler(self._queues[ROOT], smallest, options.offswitch_per_heartbeat)
        self._master = self._amount(event.master_resources)
        preemption = options.preemption
        if preemption is not None and not preemption.observe_only and event.mechanism != "wait":
            self._monitor = PreemptionMonitor(self._capacity, preemption)
            self._phase_ns = Random(f"{event.seed}:rm:preemptor").randrange(preemption.interval_ns)

    def _submitted(self, event: JobSubmitted) -> None:
        details = event.details if isinstance(event.details, YarnDetails) else YarnDetails()
        application = self._capacity.submit(event.job, self._queues[event.queue], event.priority, details.user)
        priorities = {each.group: place for place, each in enumerate(event.groups, start=1)}
        master = self._amount(event.master_resources) if event.master_resources else self._master
        amounts = {MASTER: master, **{each.group: self._amount(each.resources) for each in event.groups}}
        self._capacity.least = least((self._capacity.least, *amounts.values()))  # natjam rounds no request
        self._jobs[event.job] = _Job(
            application,
            amounts,
            {MASTER: 0, **priorities, **details.priorities},
            {MASTER, *(each.group for each in event.groups if not each.may_be_victim)},
            event.minimum_runtime_ns,
        )

    def _ask(self, job: _Job, event: JobRequests) -> None:
        """A job waits for these from now on: what is new is requested, and what it waits for no longer withdrawn."""
        application = job.application
        application.avoids, job.waits = event.avoids, event
        wanted = Counter[_Key]({(MASTER, None, "", ""): event.am})
        wanted.update({(name, None, "", ""): count for name, count in event.new.items()})
        wanted.update(
            [(each.group, each.task, each.node * each.only_there, each.container) for each in event.suspended]
        )
        for key in [*job.waiting, *(key for key in wanted if key not in job.waiting)]:
            surplus = job.waiting[key] - wanted[key]
            if surplus > 0:
                waiting = (each for each in reversed(application.requests) if cast(_TaskRequest, each).key == key)
                for request in [*islice(waiting, surplus)]:
                    self._capacity.withdraw(request)
            for _ in range(-surplus):
                self._capacity.ask(self._request(job, key))
        job.waiting = +wanted

    def _request(self, job: _Job, key: _Key) -> _TaskRequest:
        group, task, _, stopped_in = key
        job.asked += 1
        number = 0 if group == MASTER else job.asked if task is None else job.asked - _LATER
        request = _TaskRequest(
            job.application, f"{group}.{job.asked}", job.amounts[group], job.priorities[group], number
        )
        request.group, request.task, request.only_on, request.stopped_in = key
        if stopped_in in self._stopped:
            request.holds = self._stopped[stopped_in][1]
        return request

    def _job_ended(self, name: str) -> None:
        job, capacity = self._jobs[name], self._capacity
        job.has_ended = True
        for node in [node for node, each in capacity.reserved.items() if each.application is job.application]:
            capacity.unreserve(capacity.reserved[node], node)
        for request in [*job.application.requests]:
            capacity.withdraw(request)
        for request in [each for each in job.application.held.values() if not each.is_master]:
            capacity.kill(request)
        self._forget_ended(name)

    def _forget_ended(self, name: str) -> None:
        job = self._jobs[name]
        if job.has_ended and not (job.application.held or job.application.leaving):
            self._capacity.end(job.application)
            del self._jobs[name]

    def _container_started(self, event: ContainerStarted, now_ns: int) -> None:
        if (granted := self._granted.get((event.job, event.node, event.group, event.task))) is None:
            return  # an ApplicationMaster that the ResourceManager starts without asking
        request = self._containers[event.container] = granted.popleft()
        self._stopped.pop(event.container, None)
        request.id = event.container
        job = self._jobs[event.job]
        request.exempt_until_ns = _NEVER_NS if event.group in job.exempt else now_ns + job.minimum_runtime_ns

    def _container_stopped(self, event: ContainerStopped) -> None:
        request, holds = self._containers.pop(event.container), self._amount(event.holds, 0)
        self._stopped[event.container] = event.node, holds
        self._capacity.free(request, holds)
        for waiting in request.application.requests:
            if cast(_TaskRequest, waiting).stopped_in == event.container:
                waiting.holds = holds
        self._forget_ended(event.job)

    def _container_ended(self, event: ContainerEnded) -> None:
        if event.container in self._stopped:
            self._capacity.give_back(*self._stopped.pop(event.container))
        elif (request := self._containers.pop(event.container, None)) is not None:
            self._capacity.free(request)
            self._forget_ended(event.job)

    def _forget_granted(self) -> None:
        """What was granted and is not known by now has come and gone; its job waits for what it was last known to."""
        given, self._granted = self._granted, {}
        for (name, *_), granted in given.items():
            for request in granted:
                self._capacity.free(request)
            job = self._jobs[name]
            if job.waits is not None and not job.has_ended:
                self._ask(job, job.waits)
        for name in {name for name, *_ in given}:
            self._forget_ended(name)

    # ---- what is decided ----

    def _grants(self, steps: Iterable[Step]) -> Iterator[GrantContainer]:
        for kind, request, node in steps:
            if kind in (StepKind.ALLOCATE, StepKind.FULFIL):
                request, job = cast(_TaskRequest, request), request.application.name
                self._jobs[job].waiting[request.key] -= 1
                self._granted.setdefault((job, node, request.group, request.task), deque()).append(request)
                yield GrantContainer(job, node, request.group, request.task)

    def _explain_waits(self, shortages: Iterable[Shortage]) -> Iterator[ExplainWait]:
        """Why the first application of each queue that lacks something waits, if that is another reason than before."""
        before, self._waits = self._waits, {}
        for found in shortages:
            first = next(
                (each for each in self._queues[found.queue].in_order(self._capacity.amounts) if each.requests), None
            )
            if first is not None:
                self._waits[first.name] = found.verdicts
                if before.get(first.name) != found.verdicts:
                    yield ExplainWait(first.name, found.why)
        for name in before:
            if name not in self._waits and name in self._jobs and not self._jobs[name].has_ended:
                yield ExplainWait(name)

    def _in_words(self, amount: Resources) -> str:
        if self._names:
            units = (UNIT if name == MEMORY else 1 for name in self._names)
            parts = (round(each * PARTS / unit) for each, unit in zip(amount, units, strict=True))
            return written(tuple(parts), self._names)
        return f"{amount[0] / UNIT:.4g} container{'s' * (amount[0] != UNIT)}"

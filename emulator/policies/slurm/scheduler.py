"""Slurm as the scheduler of whole machines: its controller decides, and this carries it out in the cluster's machines.

Theory of operation
-------------------
In the controller's snapshot a job is on its nodes from the decision on, and a victim until all of its containers are
known to be back.  A rigid job gets all of its containers when there is room for all; to reclaim one reclaims all.

``REQUEUE`` is ``mechanism: kill``; with ``checkpoint`` or ``image`` the job goes on from what was saved.  ``SUSPEND``
is ``mechanism: suspend``, of all jobs, of a queue or of a job.  A job that waits for a container again, or has lost a
node, is requeued, as Slurm does when a node fails; what of it is stopped elsewhere goes on there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from emulator.policies.schedulers.cluster import JobPlacement, KnownCluster
from emulator.policies.schedulers.play import NO_COSTS, Costs, PlayedJob, Player
from emulator.policies.schedulers.protocol import (
    Answer,
    CancelJob,
    Cycle,
    Event,
    GroupFacts,
    JobEnded,
    JobRequests,
    JobSubmitted,
    NodeAdded,
    NodeRemoved,
    ReclaimContainer,
    Scheduler,
    SchedulerDecision,
    SchedulerError,
    details_of,
)
from emulator.policies.slurm.controller import MAIN_AFTER_NS, Controller
from emulator.policies.slurm.limits import LimitUsage
from emulator.policies.slurm.main_scheduler import Decision, Outcome
from emulator.policies.slurm.snapshot import Running, Waiting
from emulator.sites.slurm import CPU, FOREVER_NS, SECOND_NS, Cluster, Job, Mode, Node, SlurmDetails
from emulator.vocabulary import Frozen

_MEMORY_GB = "memory_gb"
"""Slurm's memory as natjam calls it; a gigabyte has 1,000 of Slurm's megabytes, so that none is rounded."""
CANCELLED = "preempted (PreemptMode=CANCEL)"
"""Why a job has ended that was ended for another."""


def resources_of(of: Node | Job) -> dict[str, float]:
    """What a node has, or a job takes of each of its nodes, as natjam's machines count it."""
    memory = {_MEMORY_GB: of.memory_mb / 1000} if of.memory_mb else {}
    gres = {name.replace(":", "/"): float(amount) for name, amount in of.gres.items()}  # no ``:`` in an experiment
    return {CPU: float(of.cpus), **memory, **gres}


def resources_of_node(cluster: Cluster, node: Node) -> dict[str, float]:
    """What a node has for containers: its CPUs as often as jobs run on them at one time, without turns."""
    has = resources_of(node)
    return has if cluster.settings.gang else {**has, CPU: has[CPU] * node.sharing}


def thousandths(resources: Mapping[str, float]) -> dict[str, int]:
    """The same as schedulers have it."""
    return {name: round(1000 * amount) for name, amount in resources.items()}


def _job_of(event: JobSubmitted, group: GroupFacts, details: SlurmDetails) -> Job:
    """A job whose length Slurm does not know."""
    gres = {name.replace("/", ":"): -(-amount // 1000) for name, amount in group.resources.items()}
    cpus, memory_mb = gres.pop(CPU, 0), group.resources.get(_MEMORY_GB, 0)
    gres.pop(_MEMORY_GB, None)
    given = {name: getattr(details, name) for name in details.__struct_fields__}
    shape = group.tasks, cpus, 0, event.submitted_ns
    return Job(event.job, event.queue, *shape, priority=event.priority, memory_mb=memory_mb, gres=gres, **given)


_REMEMBERED = 10
"""Most reasons of a job that are told, without the last one."""


class SlurmRules(Frozen):
    """What Slurm decides by; ``natjam import slurm`` writes it."""

    cluster: Cluster
    controller_started_s: float = 0.0
    """When the controller started, in the jobs' time; its schedulers run at whole seconds from then on."""
    main_after_s: float = MAIN_AFTER_NS / SECOND_NS
    """How long after that its main loop begins, of which a turn lasts a second."""
    wall_clock_s: float = 0.0
    """What the wall's clock says at time 0: what backfill keeps ends at full minutes (``bf_resolution``)."""
    main_late_s: float = 0.0
    """How much longer a turn of the main loop takes, because of what is done in it."""
    backfill_late_s: float = 0.0
    """How much longer than ``bf_interval`` the time from one run of backfill to the next is."""


@dataclass(eq=False, slots=True, kw_only=True)
class _JobPlacement(JobPlacement):
    """A job on its nodes, once; see the module's theory of operation."""

    running: Running
    goes: bool = False
    """Whether it leaves its nodes for good; else it is stopped, if it leaves them."""
    is_over: bool = False
    """Whether the job has been ended: its time limit is over, or it was preempted under ``PreemptMode=CANCEL``."""
    reclaimed_for: tuple[str | None, str] = (None, "")
    """The job for which it was last to go or to stop, and why in words."""

    @property
    def is_limited(self) -> bool:
        """Whether its time counts, and it has not been ended."""
        return not self.leaves and not self.is_over


class SlurmScheduler(Scheduler):
    """Slurm decides, for the nodes, partitions and jobs of an imported site: who starts where, and who makes room.

    See the module's theory of operation.
    """

    def __init__(self, options: SlurmRules) -> None:
        clocks_s = options.controller_started_s, options.main_after_s, options.wall_clock_s
        clocks_s = *clocks_s, options.main_late_s, options.backfill_late_s
        self._controller = Controller(options.cluster, *(round(at_s * SECOND_NS) for at_s in clocks_s))
        self._snapshot = self._controller.snapshot
        self._cluster = KnownCluster()
        self._groups: dict[str, str] = {}
        """The group of each job's tasks."""
        self._placements: dict[str, _JobPlacement] = {}
        """The executions of the jobs that are on nodes in the snapshot."""
        self._going: list[_JobPlacement] = []
        """Those that leave their nodes for good."""
        self._waits: dict[str, list[tuple[int, str, str]]] = {}
        """Of each job that waits: since when for which reason, and in whose pass that was seen."""
        self._started: list[_JobPlacement] = []
        """In the pass that is under way."""
        self._is_shared = True
        """Whether it is known who of those that share CPUs runs."""

    def notify(self, events: Sequence[Event], now_ns: int) -> Answer:
        """See ``Scheduler``."""
        self._cluster.begin()
        for event in events:
            self._cluster.take(event)
            self._take_in(event, now_ns)
        if events:
            self._is_shared = False
        return Answer(self._carried_out(now_ns), now_ns if self._is_due(now_ns) else self._until_ns(now_ns))

    def decide(self, now_ns: int) -> Answer:
        """See ``Scheduler``."""
        if self._next_end_ns() <= now_ns:  # the schedulers see those gone who leave at once
            return Answer([*self._over(now_ns), *self._carried_out(now_ns)], now_ns)
        if self._controller.slice_ns <= now_ns:
            self._controller.change_slices()
        decided: list[SchedulerDecision] = []
        cycles, decisions = list[Cycle](), list[object]()
        if self._controller.tick_ns <= now_ns:
            for decision in self._controller.tick(now_ns):
                decisions.append(decision)
                self._remember(decision, now_ns)
                if decision.outcome is Outcome.STARTS or decision.victims:
                    starts = {decision.job: decision.nodes} if decision.outcome is Outcome.STARTS else {}
                    cycles.append(Cycle(decisions, starts, dict.fromkeys(decision.victims, decision.job)))
                    decisions = []
                decided += self._carry_out(decision, now_ns)
            for stay in self._started:
                stay.beside = len(self._started) - 1
            self._started.clear()
        self._share(now_ns)
        return Answer(
            [*decided, *self._carried_out(now_ns)], self._until_ns(now_ns), cycles=[*cycles, Cycle(decisions)]
        )

    def _remember(self, decision: Decision, now_ns: int) -> None:
        """Remember why a job waits, if that is another reason than before, and for whom it is."""
        if decision.outcome is Outcome.STARTS:
            return
        words = f"preempts {', '.join(decision.victims)}" if decision.victims else decision.why
        known = self._waits.setdefault(decision.job, [])
        if not known or known[-1][1].partition(":")[0] != words.partition(":")[0]:
            known.append((now_ns, words, self._controller.passing))
            del known[_REMEMBERED:-1]

    def _story(self, decision: Decision) -> str:
        """Why a job that starts has waited, which pass starts it, and who went for it; blank: it has not waited."""
        if not (known := self._waits.pop(decision.job, None)):
            return ""
        lines = [f"at {at_ns / SECOND_NS:.3f} s, {by}: {words}" for at_ns, words, by in known]
        return "\n".join((f"{self._controller.passing} starts {decision.job} on {', '.join(decision.nodes)}", *lines))

    # ---- what has happened ----

    def _take_in(self, event: Event, now_ns: int) -> None:
        match event:
            case NodeAdded(node=node):
                self._snapshot.node_up(node)
            case NodeRemoved(node=node):
                self._snapshot.node_gone(node)
                for stay in [stay for stay in self._placements.values() if node in stay.running.nodes]:
                    self._send_off(stay, now_ns)
            case JobSubmitted():
                self._submitted(event)
            case JobRequests():
                self._wait(event, now_ns)
            case JobEnded(job=job):
                self._ended(job)
            case _:
                pass

    def _submitted(self, event: JobSubmitted) -> None:
        """Raises SchedulerError: the job has no details of Slurm, several groups of tasks, or an unknown partition."""
        details = details_of(event, SlurmDetails, "Slurm job")
        if len(event.groups) > 1:
            raise SchedulerError(
                f"job {event.job} must have one group of tasks, of which one runs on each of its nodes"
            )
        (group,) = event.groups
        job = _job_of(event, group, details)
        self._groups[event.job] = group.group
        try:
            self._controller.submit(job)
        except KeyError as error:
            raise SchedulerError(f"job {event.job}: Slurm has no partition, or QOS, {error}") from None

    def _wait(self, event: JobRequests, now_ns: int) -> None:
        """A job waits for containers; if it has been on its nodes, it has lost some of them."""
        self._record_stopped(event)
        stay = self._placements.get(event.job)
        if stay is not None and stay.has_started and not stay.leaves and not stay.is_given and event.new:
            self._send_off(stay, now_ns)

    def _record_stopped(self, waits: JobRequests) -> None:
        """Where a pending job must be, because of what it waits for."""
        if waiting := self._snapshot.waiting.get(waits.job):
            waiting.stopped_on = frozenset(each.node for each in waits.suspended if each.only_there)

    def _ended(self, job: str) -> None:
        del self._groups[job]
        if job in self._placements:
            self._go(self._placements[job])
        elif job in self._snapshot.waiting:
            self._controller.withdraw(job)

    def _over(self, now_ns: int) -> Iterator[SchedulerDecision]:
        """The time limit, or the grace, of running jobs is over."""
        limited = [each for each in self._placements.values() if each.is_limited]
        for stay in [each for each in limited if self._controller.limit_ns(each.running.end_ns) <= now_ns]:
            if stay.running.preempted:
                yield from self._evict(stay, now_ns)
            else:
                stay.is_over = True
                yield CancelJob(stay.job, "its time limit is over", fails=False)

    # ---- what is decided ----

    def _carry_out(self, decision: Decision, now_ns: int) -> Iterator[SchedulerDecision]:
        for name in decision.victims:
            stay = self._placements[name]
            mode = f"PreemptMode={stay.running.waiting.terms.mode}"
            self._record_reason(stay, self._snapshot.waiting[decision.job], mode)
            if not self._snapshot.begin_grace(stay.running, now_ns):
                yield from self._evict(stay, now_ns)
        if decision.outcome is Outcome.STARTS:
            stay = self._placements[decision.job] = self._on_nodes(self._controller.start(decision, now_ns))
            stay.why = self._story(decision)
            self._cluster.start(stay)
            self._started.append(stay)

    def _on_nodes(self, running: Running) -> _JobPlacement:
        """One that starts; it gets all of its containers or none."""
        job = running.waiting.job.name
        places = [(self._groups[job], node) for node in running.nodes]
        return _JobPlacement(job, places, least=len(places), running=running)

    def _evict(self, stay: _JobPlacement, now_ns: int) -> Iterator[SchedulerDecision]:
        self._send_off(stay, now_ns)
        if stay.running.waiting.terms.mode is Mode.CANCEL:
            stay.is_over = True
            self._cluster.leave(stay)  # its containers end with the job
            yield CancelJob(stay.job, CANCELLED, fails=False, loses=True)

    def _send_off(self, stay: _JobPlacement, now_ns: int) -> None:
        """It has to leave its nodes."""
        self._snapshot.send_off(stay.running, now_ns)
        self._go(stay)

    def _go(self, stay: _JobPlacement) -> None:
        self._controller.stopped.pop(stay.job, None)  # it does not go on
        self._reclaim(stay)
        if not stay.goes:
            stay.goes = True
            self._going.append(stay)

    def _reclaim(self, stay: _JobPlacement) -> None:
        """Its containers are reclaimed; those of a job that has ended come back without that."""
        requester, words = stay.reclaimed_for
        take = partial(ReclaimContainer, requester=requester, why=words)
        self._cluster.leave(stay, take if stay.job in self._groups else None)

    def _leave(self, stay: _JobPlacement, now_ns: int) -> None:
        """It has left its nodes."""
        del self._placements[stay.job]
        waiting, was_sent_off = stay.running.waiting, stay.job in self._snapshot.going
        self._controller.leave(stay.running, now_ns)
        if was_sent_off and stay.job in self._groups and not stay.is_over:
            self._controller.requeue(waiting, waiting.job, now_ns)
            if (waits := self._cluster.waits(stay.job)) is not None:
                self._record_stopped(waits)

    def _share(self, now_ns: int) -> None:
        stops, goes_on = self._controller.share(now_ns)
        for name in stops:
            self._record_reason(self._placements[name], self._on_top_of(self._placements[name]), "they share CPUs")
            self._reclaim(self._placements[name])
        for name in goes_on:
            self._cluster.start(self._placements[name])
        self._is_shared = True

    def _on_top_of(self, stay: _JobPlacement) -> Waiting | None:
        """A running job on nodes of a stopped one, of the highest tier that there is."""
        nodes = set(stay.running.nodes)
        others = (each for each in self._placements.values() if not each.leaves and each is not stay)
        there = [each for each in others if not nodes.isdisjoint(each.running.nodes)]
        return max((each.running.waiting for each in there), key=lambda each: each.partition.tier, default=None)

    def _record_reason(self, stay: _JobPlacement, requester: Waiting | None, how: str) -> None:
        stay.reclaimed_for = None, ""
        if requester is not None:
            job, of = requester.job, (requester.qos or requester.partition).name
            stay.reclaimed_for = job.name, f"makes room for {job.name} of {of} ({how})"

    def _is_due(self, now_ns: int) -> bool:
        """Whether there is something to decide, after all that happens at this instant by itself."""
        may_share = self._snapshot.cluster.settings.gang and not self._is_shared
        return may_share or min(self._controller.tick_ns, self._controller.slice_ns, self._next_end_ns()) <= now_ns

    def _until_ns(self, now_ns: int) -> int | None:
        again_ns = min(self._controller.arm(now_ns), self._controller.slice_ns, self._next_end_ns())
        return again_ns if again_ns < FOREVER_NS else None

    def _next_end_ns(self) -> int:
        """When the next job is ended because its time limit, or its grace, is over."""
        by_end = (self._placements[running.waiting.job.name] for running in self._snapshot.by_end)
        first = next((each.running.end_ns for each in by_end if each.is_limited), FOREVER_NS)
        return self._controller.limit_ns(first)

    def _carried_out(self, now_ns: int) -> list[SchedulerDecision]:
        """What can be done now of what was decided; who has left its nodes leaves the snapshot."""
        decided = [*self._cluster.carry_out()]
        for stay in [stay for stay in self._going if stay.has_left]:
            self._going.remove(stay)
            self._leave(stay, now_ns)
        return decided


def startable(cluster: Cluster) -> Callable[[Job], bool]:
    """Whether a job would ever start: it fits on the empty nodes of its partition, and alone is over no limit.

    What is returned raises KeyError: there is no such partition.
    """
    fits, nobody_runs = cluster.fitting(), LimitUsage(cluster)
    return lambda job: fits(job) and not nobody_runs.why_waits(job)


def jobs_player(cluster: Cluster, jobs: Iterable[Job], costs: Costs = NO_COSTS, **clocks_s: float) -> Player:
    """A play of the jobs of a site; ``clocks_s``: the clocks of ``SlurmRules``.  Jobs that fit nowhere are refused, and
    have no executions.

    Raises:
        KeyError: a job names a partition that is not there.
    """
    jobs, scheduler = [*jobs], SlurmScheduler(SlurmRules(cluster, **clocks_s))
    nodes = (
        NodeAdded(name, "", 1, thousandths(resources_of_node(cluster, node))) for name, node in cluster.nodes.items()
    )
    fitting = [*filter(startable(cluster), jobs)]
    modes = {each.name: each.mode for each in (cluster.qos if cluster.by_qos else cluster.partitions)}
    stop = {name for name, mode in modes.items() if mode is Mode.SUSPEND}
    in_turns = {each.name for each in cluster.partitions if cluster.takes_turns(each)}
    own = (job.qos if cluster.by_qos else job.partition for job in fitting)
    played = (_played(job, name in stop or job.partition in in_turns) for job, name in zip(fitting, own, strict=True))
    player = Player(scheduler, nodes, played, costs)
    for job in jobs:
        player.executions.setdefault(job.name, [])
    return player


def _played(job: Job, stops: bool) -> PlayedJob:
    group = GroupFacts("task", job.nodes, True, thousandths(resources_of(job)))
    submitted = JobSubmitted(job.name, job.partition, job.priority, (group,), None, job.submit_ns, details=job.details)
    return PlayedJob(submitted, job.length_ns, stops=stops)

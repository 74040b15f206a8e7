"""kube-scheduler as the scheduler of whole machines: each job is a pod with one task.

Theory of operation
-------------------
What happens is taken in at each instant in this order: those leave whose grace is over, then some finish,
then some arrive, then kube-scheduler looks at those who wait for long; then one cycle follows another until no pod is
ready.  So it only decides when all that happens at an instant has been notified.

There are two views.  In that of ``run_cycle`` a pod exists from the submission of its job, holds its room from the
cycle that binds it, and a new pod comes in the place of an evicted one.  The machines' is a little behind: a container
is given when its job asks for one and the room on its node has become free.  A pod that ended by itself is gone when
that is told, one that was evicted when its container has ended, after its grace.

When nothing more can happen by itself, and whoever is bound has started, the pods that are left are ended: those that
run without an end, and those that fit nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from msgspec.structs import replace

from emulator.policies.kubernetes.controller import Controller
from emulator.policies.kubernetes.cycle import Decision
from emulator.policies.kubernetes.gangs import GangDecision
from emulator.policies.kubernetes.terms import Terms, Ties, Victims, first_of_best
from emulator.policies.kubernetes.why import text_of
from emulator.policies.schedulers.cluster import JobPlacement, KnownCluster
from emulator.policies.schedulers.play import Execution, PlayedJob, Player
from emulator.policies.schedulers.protocol import (
    ENDLESS,
    Answer,
    CancelJob,
    ContainerEnded,
    ContainerStopped,
    Cycle,
    Event,
    GroupFacts,
    JobEnded,
    JobRequests,
    JobSubmitted,
    NodeAdded,
    ReclaimContainer,
    Scheduler,
    SchedulerError,
    SchedulerStarted,
    details_of,
)
from emulator.sites.kubernetes import Arrival, Bound, BudgetSpec, Group, Kubernetes, Node, Pod, PodDetails, Replacement
from emulator.vocabulary import Frozen, Mechanism

UNPLACED = "it fits on no node, and nothing more is to happen"
ORPHANED = "it was evicted, and has no owner that makes it anew"
_GONE = ""
"""Name of a pod that is no more, as its job has ended."""


@dataclass(eq=False, slots=True, kw_only=True)
class _PodPlacement(JobPlacement):
    """A pod on its node."""

    pod: str


@dataclass(slots=True)
class _Job:
    """A pod, with those that come in its place one after the other."""

    first: Pod
    """The first of them."""
    details: PodDetails
    group: str
    """The group of its task."""
    grace_ns: int
    """How long its process goes on when it has been evicted; the pod's own grace may be longer."""
    pod: str = ""
    """The present pod."""
    made: int = 0
    """How many pods there were."""
    stay: _PodPlacement | None = None
    """The execution of the present pod, if it is bound."""
    stopped: str | None = None
    """Node of its stopped process."""
    has_ended: bool = False
    """Whether the present pod has left its node by itself."""


@dataclass(slots=True)
class _Instant:
    """What has happened and was not taken in yet, by its kind."""

    gone: list[str] = field(default_factory=list)
    """Pods whose grace is over."""
    finished: list[str] = field(default_factory=list)
    arrived: list[str] = field(default_factory=list)
    """Jobs."""
    flushes: bool = False


class KubeRules(Frozen):
    """What kube-scheduler decides by; ``natjam import kubernetes`` writes it."""

    nodes: tuple[Node, ...]
    budgets: tuple[BudgetSpec, ...] = ()
    victims: Victims = Victims.IMPORTANCE
    groups: tuple[Group, ...] = ()
    too_large: Mapping[str, str] = {}
    """Pods that are left out because no node is large enough, and what they lack."""


class KubeScheduler(Scheduler):
    """kube-scheduler decides, for the nodes and pods of an imported cluster: who goes where, and who is evicted.

    See the module's theory of operation.
    """

    def __init__(self, options: KubeRules, ties: Ties = first_of_best) -> None:
        self._ties = ties
        self._rules = options
        self._begin(Terms(options.victims))
        self._kills = True
        """Whether who is evicted is deleted; else it is stopped or saved, and goes on when there is room again."""
        self._all_came = False
        """Whether no other job is to be submitted."""
        self._jobs: dict[str, _Job] = {}
        self._job_of: dict[str, str] = {}
        """The job of each pod."""
        self._cluster = KnownCluster()
        self._held: dict[str, int] = {}
        """When evicted pods are gone that had no container yet: they hold their room for their grace like others."""
        self._ends: set[str] = set()
        """Pods on nodes that will leave by themselves."""
        self._turns: dict[str, int] = {}
        """When each pod on a node was bound or evicted: in this order those leave that leave at one instant."""
        self._instant = _Instant()
        self._cancels: list[CancelJob] = []
        self._decisions: list[object] = []
        """Of cycles since the last one that changed anything."""
        self._cycles: list[Cycle] = []

    def _begin(self, terms: Terms) -> None:
        """With the cluster without a pod."""
        rules = self._rules
        self._controller = Controller(rules.nodes, rules.budgets, rules.groups, self._ties, terms)
        self._snapshot = self._controller.snapshot

    def notify(self, events: Sequence[Event], now_ns: int) -> Answer:
        """See ``Scheduler``."""
        self._cluster.begin()
        for event in events:
            self._take_in_event(event, self._cluster.take(event))
        decides = self._instant != _Instant() or self._is_over
        return Answer([*self._cluster.carry_out()], now_ns if decides else self._until_ns())

    def decide(self, now_ns: int) -> Answer:
        """See ``Scheduler``."""
        look_ns = self._controller.flush_ns
        self._instant.flushes = look_ns is not None and look_ns <= now_ns
        for pod in [pod for pod, gone_ns in self._held.items() if gone_ns <= now_ns]:
            del self._held[pod]
            self._instant.gone.append(pod)
        self._take_in(now_ns)
        cancels, self._cancels = self._cancels, []
        cycles, self._cycles, self._decisions = [*self._cycles, Cycle(self._decisions)], [], []
        return Answer([*self._cluster.carry_out(), *cancels], self._until_ns(), cycles=cycles)

    @property
    def _is_over(self) -> bool:
        """Whether nothing more happens by itself: no pod ends or comes, none that is bound is still to start, and every
        job whose pod has ended has ended, too."""
        if not (self._all_came and self._jobs) or self._ends:
            return False
        starts = any(self._cluster.is_up(node) for stay in self._cluster.to_start for _, node in stay.places)
        return not starts and not any(job.has_ended for job in self._jobs.values())

    def _until_ns(self) -> int | None:
        times_ns = (self._controller.flush_ns, *self._held.values())
        return min((each for each in times_ns if each is not None), default=None)

    # ---- what has happened ----

    def _take_in_event(self, event: Event, stay: JobPlacement | None) -> None:
        """``stay``: that which the event is about."""
        match event:
            case SchedulerStarted(mechanism=mechanism, suspended_hold=holds):
                self._kills = mechanism == Mechanism.KILL
                names = tuple(name.removesuffix("_gb") for name in holds)
                self._begin(Terms(self._rules.victims, names))
            case JobSubmitted(job=job):
                self._jobs[job] = self._submitted(event)
                self._all_came |= event.is_last
                self._instant.arrived.append(job)
            case JobRequests(job=job):
                self._wait(job)
            case ContainerStopped() | ContainerEnded() if (
                isinstance(stay, _PodPlacement) and stay.pod in self._snapshot
            ):
                self._left(event, stay)
            case JobEnded(job=job):
                self._forget(job)
            case _:
                pass

    def _submitted(self, event: JobSubmitted) -> _Job:
        """Raises SchedulerError: the job has no details of a pod, or is several."""
        tasks = sum(group.tasks for group in event.groups)
        if tasks != 1:
            raise SchedulerError(f"job {event.job} has {tasks} tasks, and a pod is one; pods of one group are a gang")
        details = details_of(event, PodDetails, "pod")
        pod = details.pod(event.job, event.priority, event.checkpoint_period_ns)
        return _Job(pod, details, event.groups[0].group, event.grace_ns)

    def _wait(self, name: str) -> None:
        job = self._jobs[name]
        if job.has_ended and self._cluster.waits(name):  # its process has failed, or its node was lost
            job.has_ended = False
            self._instant.arrived.append(name)

    def _left(self, event: ContainerStopped | ContainerEnded, stay: _PodPlacement) -> None:
        """The process of a pod has been stopped, or has ended."""
        job = self._jobs.get(stay.job)
        if isinstance(event, ContainerStopped):
            if job is not None:
                job.stopped = event.node
            self._instant.gone.append(stay.pod)
        elif self._snapshot[stay.pod].terminating:
            self._instant.gone.append(stay.pod)
        else:
            self._instant.finished.append(stay.pod)
            if job is not None:
                job.has_ended = True

    def _forget(self, name: str) -> None:
        job = self._jobs.pop(name)
        self._controller.queue.discard(job.pod)
        self._held.pop(job.pod, None)
        if job.stopped is not None:
            self._snapshot.release_stopped(job.pod)
        if job.stay is None or not job.stay.has_started:
            if job.pod in self._snapshot:
                self._instant.finished.append(job.pod)
            if job.stay is not None:
                job.stay.pod = _GONE  # its container, if it was given one, is only known later

    # ---- what follows ----

    def _take_in(self, now_ns: int) -> None:
        """All that has happened at this instant, and the cycles that follow."""
        instant, self._instant = self._instant, _Instant()
        self._controller.begin(now_ns)
        for pod in sorted(instant.gone, key=self._turns.__getitem__):
            self._gone(pod)
        for pod in sorted(instant.finished, key=self._turns.__getitem__):
            self._leave(pod)
        for job in instant.arrived:
            self._create(job)
        if instant.flushes:
            self._controller.flush()
        for decision in self._controller.cycle_by_cycle():
            self._carry_out(decision)
        if self._is_over:
            self._end_the_rest()
        elif self._ends or not self._all_came:
            self._controller.plan_flush()

    def _create(self, name: str) -> None:
        """A pod comes: the first of its job, or the next one."""
        job, since_ns = self._jobs[name], self._controller.step()
        pod = replace(job.first, name=f"{name}.{job.made}") if job.made else job.first
        if job.stopped is not None:
            pod = self._snapshot.hold_stopped(pod, self._snapshot.node_infos[job.stopped].node)
        job.pod, job.made, job.stay = pod.name, job.made + 1, None
        self._job_of[pod.name] = name
        node = job.details.node
        if job.made == 1 and node is not None:
            self._snapshot.add(Bound(pod, node, min(since_ns, job.details.since_ns)))
            self._bound(job, node, f"{pod.name} ran on {node} before")
            self._cycles.append(Cycle((), {name: (node,)}))
        else:
            self._controller.arrive(pod, since_ns)

    def _resumes(self, job: _Job) -> None:
        """A pod that was stopped on its node goes on, with all that it asks for."""
        self._snapshot.release_stopped(job.pod)
        bound = self._snapshot.remove(job.pod)
        self._snapshot.add(replace(bound, pod=replace(job.first, name=job.pod)))
        job.stopped = None

    def _leave(self, pod: str) -> None:
        self._controller.leave(pod)
        self._ends.discard(pod)
        del self._turns[pod]

    def _gone(self, pod: str) -> None:
        self._leave(pod)
        name = self._job_of[pod]
        job = self._jobs.get(name)
        if job is None or job.pod != pod:
            return
        if self._kills and job.details.replacement is Replacement.NEVER:
            self._cancels.append(CancelJob(name, ORPHANED, fails=False))
        else:
            self._create(name)

    def _carry_out(self, decision: Decision | GangDecision) -> None:
        """What a cycle means for the machines."""
        bound, evicted = decision.bound, decision.evicted
        self._decisions.append(decision)
        if not (bound or evicted):
            return
        starts = {self._job_of[pod]: (node,) for pod, node in bound.items()}
        victims = dict.fromkeys((self._job_of[pod] for pod in evicted), decision.pod.name)
        self._cycles.append(Cycle(self._decisions, starts, victims))
        self._decisions = []
        for pod, node in bound.items():
            job = self._jobs[self._job_of[pod]]
            if job.stopped is not None:
                self._resumes(job)
            self._bound(job, node, text_of(decision))
        for pod in evicted:
            self._evict(pod, decision)

    def _bound(self, job: _Job, node: str, why: str) -> None:
        job.stay = _PodPlacement(job.first.name, [(job.group, node)], why, pod=job.pod)
        self._cluster.start(job.stay)
        self._turns[job.pod] = self._controller.now_ns
        if not job.details.endless:
            self._ends.add(job.pod)

    def _evict(self, pod: str, decision: Decision | GangDecision) -> None:
        name = self._job_of[pod]
        self._controller.count_eviction(name)
        job = self._jobs[name]
        is_there = self._reclaim(job, decision)
        self._ends.add(pod)
        self._turns[pod] = self._controller.step()
        if is_there and not self._kills:
            return  # it goes on as soon as it has been stopped or saved
        stays_ns = max(job.details.grace_ns, job.grace_ns) if self._kills else 0
        if not stays_ns:
            self._gone(pod)
        elif not is_there:
            self._held[pod] = self._controller.instant_ns + stays_ns
        if job.details.replacement is Replacement.TERMINATING and job.pod == pod:
            self._create(name)

    def _reclaim(self, job: _Job, decision: Decision | GangDecision) -> bool:
        """Have the container of its present pod reclaimed; False: it has none."""
        assert job.stay is not None
        requester, words = self._job_of[decision.pod.name], text_of(decision)
        stays_ns = max(0, job.details.grace_ns - job.grace_ns) if self._kills else 0
        self._cluster.leave(job.stay, partial(ReclaimContainer, stays_ns=stays_ns, requester=requester, why=words))
        return not job.stay.has_left

    def _end_the_rest(self) -> None:
        for name, job in self._jobs.items():
            self._cancels.append(CancelJob(name, ENDLESS if job.pod in self._snapshot else UNPLACED, fails=False))


def pods_player(cluster: Kubernetes, ties: Ties = first_of_best) -> Player:
    """A play of the pods of a cluster.  It counts nothing itself: kube-scheduler knows what each node has."""
    rules = KubeRules(cluster.state.nodes, cluster.budgets, groups=cluster.state.groups)
    nodes = (NodeAdded(node.name, "", 1) for node in cluster.state.nodes)
    return Player(KubeScheduler(rules, ties), nodes, map(_played, cluster.arrivals))


def _played(arrival: Arrival) -> PlayedJob:
    pod, group = arrival.pod, GroupFacts("pod", 1, True)
    times = {"submitted_ns": arrival.submit_ns, "grace_ns": arrival.grace_ns, "deadline_ns": None}
    submitted = JobSubmitted(pod.name, "", pod.priority, (group,), **times, details=arrival.details)
    return PlayedJob(submitted, arrival.duration_ns)


def pods_of(
    arrivals: Iterable[Arrival], executions: Mapping[str, Sequence[Execution]]
) -> list[tuple[str, int, Execution | None]]:
    """The pods of a play, in the order in which they were created: the name of each, when it was created, and its
    execution; None: it was never on a node."""
    first, later = list[tuple[str, int, Execution | None]](), list[tuple[str, int, Execution | None]]()
    for each in sorted(arrivals, key=lambda each: each.submit_ns):
        created_ns: int | None = each.submit_ns
        for number, one in enumerate([*executions[each.pod.name], None]):
            if created_ns is None:
                break
            name = f"{each.pod.name}.{number}" if number else each.pod.name
            (later if number else first).append((name, created_ns, one))
            created_ns = None if one is None else _replaced_ns(each.replacement, one)
    return sorted([*first, *later], key=lambda pod: pod[1])


def _replaced_ns(replacement: Replacement, execution: Execution) -> int | None:
    """When a new pod comes in the place of one with this execution; None: never."""
    if replacement is Replacement.NEVER or not execution.was_ended:
        return None
    return execution.end_ns if replacement is Replacement.TERMINATING else execution.gone_ns

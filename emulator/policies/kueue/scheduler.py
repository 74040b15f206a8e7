"""Kueue as the scheduler of whole machines: which workloads start, and which must go.

Theory of operation
-------------------
A job is a workload, its groups of tasks are the podsets, in their order.  It waits in its queue from its submission;
when it has its quota, it gets all containers in one answer, as soon as it has asked for them.  A flavor is a node: the
one with the label ``flavor``, or, where a podset has resources of several flavors, the one without that label.  An
eviction reclaims one container of the job, a gang, which so goes whole; its quota is free when the last of its
containers is gone.

Kueue ends what it evicts.  Here the experiment's mechanism decides, and a stopped process goes on holding some of its
resources.  Kueue's quota of these stays taken: an eviction gives only the others back, and nobody is chosen for what
would not come free.  A stopped workload waits for the others, in its own flavors.

Where nodes are known, kube-scheduler binds the pods of admitted workloads (``binding``): a workload gets its containers
when all of its pods have their nodes, and the journal has why it waits until then.

What happens to workloads beside preemption is in ``phases``: admission checks, stopped queues, pods that are not ready.

Cycles come after all else that happens at one instant, as Kueue's cycles see whatever its watches have delivered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from typing import Annotated

import msgspec
from msgspec.structs import replace

from emulator.policies.kueue.binding import Binder
from emulator.policies.kueue.controller import Controller
from emulator.policies.kueue.cycle import Decision, Outcome
from emulator.policies.kueue.model import Counts, Flavors, first_name
from emulator.policies.kueue.phases import Act, EvictedBy, Life, Phase, Phases, Step
from emulator.policies.kueue.snapshot import Held
from emulator.policies.kueue.why import why
from emulator.policies.schedulers.cluster import JobPlacement, KnownCluster
from emulator.policies.schedulers.play import PlayedJob, Player
from emulator.policies.schedulers.protocol import (
    ENDLESS,
    Answer,
    CancelJob,
    ContainerEnded,
    ContainerStopped,
    Cycle,
    Event,
    ExplainWait,
    GroupFacts,
    JobEnded,
    JobSubmitted,
    NodeAdded,
    NodeRemoved,
    ReclaimContainer,
    Scheduler,
    SchedulerDecision,
    SchedulerError,
    SchedulerStarted,
    details_of,
)
from emulator.sites.kubernetes import Node
from emulator.sites.kueue import Arrival, Cluster, PodSet, StopChange, Workload, WorkloadDetails
from emulator.vocabulary import SECOND_NS, Frozen, Mechanism

FLAVOR = "flavor"
"""The label of a node that says which flavor it is."""
UNADMITTED = "Kueue does not admit it, and nothing that could change this is to happen"
_NEXT_CYCLE_NS = 1
"""From a cycle that evicts to the next one, which so sees those gone who leave at once."""


MAX_EVICTIONS, MAX_WITHOUT_PROGRESS = 1000, 100
"""Of one workload, while nobody arrives or ends; the second if its work is lost each time."""
_MAX_ADMITTED_IN_VAIN = 3
"""Admissions of a workload of which no node fits some pod, before it is cancelled if nothing else is to happen."""
_MAX_NAMED = 5


class _EvictionCounter:
    """Counts the evictions of each workload: too many of one are endless preemption."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def forget(self) -> None:
        """Count from 0 again, because a workload arrived or ended."""
        self._counts.clear()

    def count(self, workload: Workload, loses_work: bool) -> bool:
        """Count one; whether it is one too many.  ``loses_work``: the workload restarts each time."""
        key = workload.name, workload.queue
        self._counts[key] += 1
        return self._counts[key] > (MAX_WITHOUT_PROGRESS if loses_work else MAX_EVICTIONS)

    def most_evicted(self) -> str:
        """Those that were evicted about as often as the one that was most often, and how often."""
        counts = self._counts.most_common()
        found = [(key, count) for key, count in counts if 2 * count >= counts[0][1]]
        named = [f"{name} of queue {queue} {count} times" for (name, queue), count in found[:_MAX_NAMED]]
        return ", ".join(named) + (f", and {len(found) - _MAX_NAMED} more" if len(found) > _MAX_NAMED else "")


@dataclass(slots=True)
class _Job:
    """A workload."""

    workload: Workload
    """All that it asks for."""
    is_endless: bool
    """Whether it does not end by itself."""
    minimum_runtime_ns: int
    starts_anew: bool
    """Whether all its work is lost when it is evicted, or it has no end that its work could bring nearer."""
    groups: tuple[str, ...]
    """The groups of tasks: the podsets, in their order."""
    life: Life
    is_queued: bool = False
    held: Held | None = None
    """Its quota, but for what stopped processes would keep."""
    flavors: Flavors = ()
    counts: Counts = ()
    """How many pods of each podset it was given, if not all."""
    kept: Counter[tuple[int, str]] = field(default_factory=Counter)
    """By podset and resource: what its stopped processes keep, or would."""
    stay: JobPlacement | None = None
    """On the nodes of its flavors, while it has its quota."""
    why: str = ""
    """Why it was admitted."""
    waits_for: str = ""
    """Why it has its quota but no nodes; empty: it does not wait for nodes."""
    in_vain: int = 0
    """How often it was admitted and evicted again without having had nodes, since anybody arrived or ended."""
    is_evicted: bool = False
    """Whether it was evicted, and its quota is not free yet."""
    free_ns: int | None = None
    """When the quota of an evicted job will be free, whose last container is gone."""
    is_given_up: bool = False
    """Whether it can never be admitted: it waits on, as in Kueue, but without its job."""
    has_ended: bool = False


class Eviction(Frozen):
    """A workload was evicted, or deactivated, and not for another."""

    workload: Workload
    reason: EvictedBy


class KueueRules(Frozen):
    """Options of ``kueue``."""

    cluster: Cluster
    """Queues, cohorts, and how shares are compared."""
    resources: Mapping[str, str] = msgspec.field(default_factory=dict)
    """By Kueue's name of a resource, the cluster's; those of the same name are left out."""
    release_s: Annotated[float, msgspec.Meta(ge=0, le=86_400)] = 0.0
    """Time from when an evicted workload is gone until its quota is free."""
    nodes: tuple[Node, ...] = ()
    """With them kube-scheduler binds the pods of admitted workloads; without them a flavor is a node."""


class KueueScheduler(Scheduler):
    """Kueue admits whole workloads to the quotas of its queues, and evicts admitted ones to make room.

    See the module's theory of operation.
    """

    def __init__(self, options: KueueRules) -> None:
        self._binder = Binder(options.nodes, options.cluster.flavors) if options.nodes else None
        self._phases = Phases(options.cluster, round(options.release_s * SECOND_NS), self._binder is not None)
        pods_ready = options.cluster.pods_ready
        may_admit = self._phases.all_ready if pods_ready is not None and pods_ready.blocks else None
        self._controller = Controller(options.cluster, first_name, may_admit=may_admit)
        self._all_came = False
        """Whether no other job is to be submitted."""
        self._names = options.resources
        self._release_ns = round(options.release_s * 10**9)
        self._kept: frozenset[str] = frozenset()
        """The cluster's resources that a stopped process holds."""
        self._nodes: dict[str, str] = {}
        """By flavor, "" for the node without one."""
        self._jobs: dict[str, _Job] = {}
        self._cluster = KnownCluster()
        self._changed: dict[str, None] = {}
        """Jobs to look at."""
        self._cycle_ns: int | None = None
        """When the next cycle is due; None: it would find nothing new."""
        self._spared: list[tuple[int, int, str, Held]] = []
        """When each may be preempted that has not run for its minimum, as a heap."""
        self._evictions = _EvictionCounter()
        self._kills = True
        """Whether what is evicted is killed."""
        self._decided: list[Cycle] = []
        """The cycles of this decision."""

    def notify(self, events: Sequence[Event], now_ns: int) -> Answer:
        """See ``Scheduler``."""
        self._cluster.begin()
        for event in events:
            self._cluster.take(event)
            self._take_in(event)
        self._look_at_changed(now_ns)
        return Answer([*self._cluster.carry_out()], self._until_ns(now_ns))

    def decide(self, now_ns: int) -> Answer:
        """See ``Scheduler``."""
        self._look_at_changed(now_ns)
        decided, controller = [*self._cluster.carry_out()], self._controller
        while self._spared and self._spared[0][0] <= now_ns:
            held = heappop(self._spared)[-1]
            controller.unspare(held)
            self._cycle_ns = now_ns
        if controller.wake_ns is not None and controller.wake_ns <= now_ns:
            controller.wake()
            self._cycle_ns = now_ns
        decided += self._act(self._phases.due(now_ns), now_ns)
        if (self._cycle_ns is not None and self._cycle_ns <= now_ns) or controller.waits:
            self._cycle_ns = None
            decided += self._cycles(now_ns)
            decided += self._bind(now_ns)
            decided += self._end_the_rest()
        cycles, self._decided = self._decided, []
        return Answer(decided, self._until_ns(now_ns), cycles=cycles)

    def _until_ns(self, now_ns: int) -> int | None:
        times_ns = [at_ns for at_ns, *_ in self._spared[:1]]
        times_ns += [
            each for each in (self._controller.wake_ns, self._cycle_ns, self._phases.next_ns) if each is not None
        ]
        going = (self._jobs[name] for name in self._changed)
        times_ns += [job.free_ns or 0 for job in going if job.is_evicted]
        return max(now_ns, min(times_ns)) if times_ns else None

    # ---- what has happened ----

    def _take_in(self, event: Event) -> None:
        match event:
            case SchedulerStarted():
                self._kept = frozenset(event.suspended_hold)
                self._kills = event.mechanism == Mechanism.KILL
                self._phases.seed = event.seed
            case NodeAdded():
                self._nodes[event.labels.get(FLAVOR, "")] = event.node
                self._changed.update((name, None) for name, job in self._jobs.items() if job.held and not job.stay)
            case NodeRemoved():
                self._nodes = {flavor: node for flavor, node in self._nodes.items() if node != event.node}
            case JobSubmitted():
                self._forget_evictions()
                self._jobs[event.job] = self._submitted(event)
                self._all_came |= event.is_last
                self._changed[event.job] = None
            case JobEnded():
                self._forget_evictions()
                self._jobs[event.job].has_ended = True
                self._changed[event.job] = None
            case ContainerStopped() | ContainerEnded():
                self._changed[event.job] = None
            case _:
                pass

    def _forget_evictions(self) -> None:
        """Count evictions from 0 again, because a workload arrived or ended."""
        self._evictions.forget()
        for job in self._jobs.values():
            job.in_vain = 0

    def _submitted(self, event: JobSubmitted) -> _Job:
        """Raises SchedulerError: the job has no details of a workload, or its queue is none of Kueue's."""
        details = details_of(event, WorkloadDetails, "workload")
        if event.queue not in self._controller.snapshot.queues:
            raise SchedulerError(f"job {event.job}: Kueue has no ClusterQueue '{event.queue}'")
        tasks = {group.group: group.tasks for group in event.groups}
        workload = details.workload(event.job, event.queue, event.priority, tasks)
        starts_anew = details.endless or (self._kills and event.checkpoint_period_ns is None)
        life = self._phases.submitted(workload, details.ready_ns)
        return _Job(workload, details.endless, event.minimum_runtime_ns, starts_anew, tuple(tasks), life)

    def _look_at_changed(self, now_ns: int) -> None:
        changed, self._changed = self._changed, {}
        for name in changed:
            self._look_at(name, self._jobs[name], now_ns)

    def _look_at(self, name: str, job: _Job, now_ns: int) -> None:
        """What follows for a job of what has happened."""
        has_containers = job.stay is not None and bool(job.stay.containers)
        is_over = job.has_ended or job.life.phase is Phase.DEACTIVATED
        if job.is_evicted and not has_containers and (job.free_ns is None or is_over):
            # It may have come to its end within its grace; then that is told after its containers have gone.
            frees_at_once = is_over or job.life.admitted_ns is None
            job.free_ns = now_ns if frees_at_once else now_ns + self._release_ns
        is_free = job.free_ns is not None and job.free_ns <= now_ns if job.is_evicted else job.has_ended
        if job.held is not None and not has_containers and is_free:
            self._free(job, job.held, now_ns)
        stopped = self._cluster.stopped(name)
        if job.held is None:
            self._keep(job, self._kept_by(job, stopped), now_ns)
        if job.has_ended:
            if not job.is_given_up:
                self._controller.queues.remove(job.workload)
            if not has_containers and not stopped:
                self._phases.ended(job.life)
                del self._jobs[name]
        elif job.held is None and not job.is_queued and job.life.phase is Phase.WAITING:
            self._enqueue(job)
            self._cycle_ns = now_ns
        elif job.is_evicted:
            self._wait_until_gone(job)
        elif job.stay is None and job.life.phase is Phase.ADMITTED:
            self._place(job)

    def _free(self, job: _Job, held: Held, now_ns: int) -> None:
        """Its quota is free."""
        if self._binder is not None:
            self._binder.remove(job.workload.name, now_ns)
        self._controller.free(held, now_ns, wakes=not self._phases.is_stopped_locally(job.life))
        self._phases.freed(job.life, now_ns)
        job.held, job.stay, job.free_ns, job.is_evicted = None, None, None, False
        self._cycle_ns = now_ns

    def _enqueue(self, job: _Job, may_be_aside: bool = True) -> None:
        """It waits for its quota, but for what its stopped processes still have."""
        job.is_queued = True
        if not job.kept:
            self._controller.queues.add(job.workload, (), job.life.since_ns, may_be_aside)
            return
        podsets = tuple(
            PodSet(
                podset.name,
                1,
                {
                    resource: rest
                    for resource, amount in podset.requests.items()
                    if (rest := podset.count * amount - job.kept[number, resource]) > 0
                },
            )
            for number, podset in enumerate(job.workload.podsets)
        )
        self._controller.queues.add(replace(job.workload, podsets=podsets), job.flavors, job.life.since_ns)

    # ---- what stopped processes keep ----

    def _kept_by(self, job: _Job, tasks: Mapping[str, int]) -> Counter[tuple[int, str]]:
        """What so many stopped tasks of each group keep."""
        return Counter(
            {
                (number, resource): tasks[group] * amount
                for number, (group, podset) in enumerate(zip(job.groups, job.workload.podsets, strict=True))
                for resource, amount in podset.requests.items()
                if tasks.get(group) and amount and self._names.get(resource, resource) in self._kept
            }
        )

    def _keep(self, job: _Job, kept: Counter[tuple[int, str]], now_ns: int) -> None:
        """It keeps only this of what it kept, from now on."""
        freed, job.kept = job.kept - kept, job.kept & kept
        if freed:
            self._controller.release(job.workload.queue, self._in_cells(job, freed), now_ns)
            self._cycle_ns = now_ns
            if job.is_queued:
                self._controller.queues.remove(job.workload)
                job.is_queued = False

    def _in_cells(self, job: _Job, amounts: Mapping[tuple[int, str], int]) -> dict[int, int]:
        found: Counter[int] = Counter()
        for (number, resource), amount in amounts.items():
            found[self._controller.snapshot.cells[job.flavors[number][resource], resource]] += amount
        return found

    # ---- what is decided ----

    def _cycles(self, now_ns: int) -> Iterable[SchedulerDecision]:
        for decisions in self._controller.cycle_by_cycle(now_ns):
            victims = {
                victim: each.workload.name
                for each in decisions
                for victim in each.evicted
                if self._jobs[victim].life.phase is Phase.ADMITTED and self._jobs[victim].stay is not None
            }
            starts = dict[str, Sequence[str]]()
            self._decided.append(Cycle(decisions, starts, victims))
            for decision in decisions:
                if decision.outcome is Outcome.ADMITTED:
                    yield from self._act(self._reserve(decision, now_ns), now_ns, starts)
                for victim in decision.evicted:
                    job = self._jobs[victim]
                    if self._evictions.count(job.workload, job.starts_anew):
                        raise SchedulerError(self._loop_message(now_ns))
                    self._phases.evicted(job.life, now_ns)
                    words = "\n".join(why(decision))
                    yield from self._evict(job, decision.workload.name, words)
            yield from self._act(self._phases.due(now_ns), now_ns)
            if self._cycle_ns is not None:
                return
            evicted = [self._jobs[name] for each in decisions for name in each.evicted]
            if any(not self._release_ns or job.life.admitted_ns is None for job in evicted):
                self._cycle_ns = now_ns + _NEXT_CYCLE_NS
                return

    def _loop_message(self, now_ns: int) -> str:
        return (
            f"at {now_ns / 1e9:.0f} s evictions go round in a circle: since anybody arrived or ended,"
            f" {self._evictions.most_evicted()}; natjam loops tells why, and what ends it"
        )

    def _end_the_rest(self) -> Iterable[SchedulerDecision]:
        """Whoever waits while nothing is admitted, or about to be looked at, waits for ever.  So do they, once all have
        arrived, while only those are admitted who never end."""
        to_come = (self._cycle_ns, self._controller.wake_ns, self._phases.next_ns)
        if self._controller.waits or any(each is not None for each in to_come):
            return
        for name, job in self._jobs.items():
            has_place = job.held is not None and not job.waits_for
            stays = not (self._all_came and job.is_endless) and (has_place or self._cluster.stopped(name))
            if stays or job.is_evicted:
                return
        for name, job in self._jobs.items():
            if not job.is_given_up:
                job.is_given_up = job.is_queued or job.life.phase is Phase.AWAY
                why = UNADMITTED if job.is_given_up else job.waits_for or ENDLESS
                yield from self._explain_wait(job, "")
                yield CancelJob(name, why, fails=False)

    def _act(
        self, acts: Iterable[Act | StopChange], now_ns: int, starts: dict[str, Sequence[str]] | None = None
    ) -> Iterator[SchedulerDecision]:
        """Carry out what happens to workloads.  ``starts``: where those of a cycle are to be noted who start."""
        for act in acts:
            if isinstance(act, StopChange):
                self._forget_evictions()
                if act.queue:
                    self._controller.stop(self._controller.snapshot.queues[act.queue], act.stop, now_ns)
                self._cycle_ns = now_ns
                continue
            if act.step is Step.WAKE:
                self._controller.record_freed(self._controller.snapshot.queues[act.life.workload.queue].root, now_ns)
                continue
            job = self._jobs[act.life.workload.name]
            match act.step:
                case Step.ADMIT if self._binder is not None:
                    self._binder.create(job.workload, job.flavors, job.counts, now_ns)
                    self._cycle_ns = now_ns
                case Step.ADMIT:
                    self._place(job)
                    nodes = () if job.stay is None else [node for _, node in job.stay.places]
                    if starts is None:
                        self._decided.append(Cycle((), {job.workload.name: nodes}))
                    else:
                        starts[job.workload.name] = nodes
                    yield from self._cluster.carry_out()
                case Step.WITHDRAW:
                    self._controller.queues.remove(job.workload)
                    job.is_queued = False
                case Step.RETURN:
                    self._enqueue(job, not act.at_once)
                    self._cycle_ns = now_ns
                case Step.LOSE:
                    assert job.held is not None, "it has reserved its quota"
                    self._free(job, job.held, now_ns)
                case _:
                    yield from self._take_away(job, act, now_ns)

    def _take_away(self, job: _Job, act: Act, now_ns: int) -> Iterator[SchedulerDecision]:
        """It has to leave its nodes for another reason than a preemptor, and may not come back."""
        name, reason = job.workload.name, act.reason
        if reason is not None:
            running = {} if job.stay is None else {name: ""}
            self._decided.append(Cycle((Eviction(job.workload, reason),), {}, running))
            if job.held is not None:
                self._controller.snapshot.evict(job.held)
        job.in_vain += bool(job.waits_for)
        if act.step is Step.DEACTIVATE:
            yield from self._give_up(job, f"{reason or EvictedBy.MAX_EXECUTION}: Kueue has deactivated it")
        elif job.in_vain >= _MAX_ADMITTED_IN_VAIN and self._all_came and not any(map(_will_end, self._jobs.values())):
            yield from self._give_up(job, job.waits_for)
        else:
            yield from self._evict(job, None, f"{name} goes: {reason}")
        if not self._release_ns or act.step is Step.DEACTIVATE:
            self._cycle_ns = now_ns + _NEXT_CYCLE_NS

    def _give_up(self, job: _Job, why: str) -> Iterator[SchedulerDecision]:
        """Cancel a job that would wait for ever."""
        job.is_given_up = True
        self._changed[job.workload.name] = None
        yield from self._explain_wait(job, "")
        yield CancelJob(job.workload.name, why, fails=False)

    def _bind(self, now_ns: int) -> Iterator[SchedulerDecision]:
        """Let kube-scheduler look at the pods of admitted workloads."""
        if self._binder is None or not self._binder.has_ready:
            return
        for found in self._binder.bind(now_ns):
            job = self._jobs[found.workload]
            if found.places:
                yield from self._explain_wait(job, "")
                places = [(job.groups[podset], node) for podset, node in found.places]
                job.stay = JobPlacement(found.workload, places, job.why, renews=True)
                self._cluster.start(job.stay)
                self._phases.placed(job.life, now_ns)
                self._decided.append(Cycle((), {found.workload: [node for _, node in places]}))
            elif not job.waits_for:
                yield from self._explain_wait(job, found.why)
        yield from self._cluster.carry_out()

    @staticmethod
    def _explain_wait(job: _Job, why: str) -> Iterator[SchedulerDecision]:
        if job.waits_for or why:
            job.waits_for = why
            yield ExplainWait(job.workload.name, why)

    def _reserve(self, decision: Decision, now_ns: int) -> Iterator[Act]:
        """The job gets its quota; from now on its eviction would not give back what stopped processes keep."""
        name, queue = decision.workload.name, decision.workload.queue
        job, snapshot = self._jobs[name], self._controller.snapshot
        job.held, job.is_queued = snapshot.held[queue][name], False
        kept_in = job.flavors if job.kept else ({},) * len(job.groups)
        job.flavors = tuple({**old, **new} for old, new in zip(kept_in, decision.assignment.flavors, strict=True))
        job.counts = decision.assignment.counts
        counts = job.counts or [podset.count for podset in job.workload.podsets]
        would_keep = self._kept_by(job, dict(zip(job.groups, counts, strict=True)))
        snapshot.reserve(job.held, self._in_cells(job, would_keep - job.kept))
        job.kept, job.why = would_keep, "\n".join(why(decision))
        if job.minimum_runtime_ns:
            job.held.spared_until_ns = job.held.reserved_ns + job.minimum_runtime_ns
            heappush(self._spared, (job.held.spared_until_ns, self._controller.cycles, name, job.held))
        return self._phases.reserved(job.life, job.flavors, now_ns)

    def _place(self, job: _Job) -> None:
        """It is to be on the nodes of its flavors, when all of these are known."""
        if self._binder is not None:
            return
        nodes = [self._node_of(flavors) for flavors in job.flavors]
        counts = job.counts or [podset.count for podset in job.workload.podsets]
        podsets = zip(job.groups, nodes, counts, strict=True)
        places = [(group, node) for group, node, count in podsets if node is not None for _ in range(count)]
        if None not in nodes:
            job.stay = JobPlacement(job.workload.name, places, job.why, renews=True)
            self._cluster.start(job.stay)

    def _node_of(self, flavors: Mapping[str, str]) -> str | None:
        names = {*flavors.values()}
        only = names.pop() if len(names) == 1 else ""
        return self._nodes.get(only, self._nodes.get(""))

    def _evict(self, job: _Job, requester: str | None, words: str) -> Iterable[SchedulerDecision]:
        """Its containers are reclaimed, for another workload or for nobody."""
        job.is_evicted = True
        yield from self._explain_wait(job, "")
        if job.stay is not None:
            self._cluster.leave(job.stay, partial(ReclaimContainer, requester=requester, why=words))
        self._wait_until_gone(job)
        yield from self._cluster.carry_out()

    def _wait_until_gone(self, job: _Job) -> None:
        """Without containers that are known it is looked at again: they become known, or its quota is free."""
        if job.stay is None or not job.stay.containers:
            self._changed[job.workload.name] = None


def _will_end(job: _Job) -> bool:
    """Whether it runs, and ends by itself."""
    return job.stay is not None and not job.is_endless and not job.is_evicted


def workloads_player(
    cluster: Cluster,
    arrivals: Iterable[Arrival],
    release_ns: int = 0,
    minimum_runtime_ns: int = 0,
    nodes: tuple[Node, ...] = (),
) -> Player:
    """A play of workloads.

    Args:
        cluster: queues and quotas.
        arrivals: the workloads.
        release_ns: from an eviction until the quota is free.
        minimum_runtime_ns: how long each runs before it may be preempted.
        nodes: where kube-scheduler binds their pods; none: on one node for all flavors, since Kueue counts quotas.
    """
    scheduler = KueueScheduler(KueueRules(cluster, release_s=release_ns / SECOND_NS, nodes=nodes))
    played = (_played(arrival, minimum_runtime_ns) for arrival in arrivals)
    return Player(scheduler, [NodeAdded(name, "", 1) for name in [each.name for each in nodes] or ["cluster"]], played)


def _played(arrival: Arrival, minimum_runtime_ns: int) -> PlayedJob:
    workload = arrival.workload
    groups = tuple(GroupFacts(podset.name, podset.count, True) for podset in workload.podsets)
    submitted = JobSubmitted(
        workload.name,
        workload.queue,
        workload.priority,
        groups,
        None,
        workload.created_ns,
        minimum_runtime_ns=minimum_runtime_ns,
        details=arrival.details,
    )
    stuck = frozenset(number for number, ready_ns in enumerate(arrival.ready_ns) if ready_ns is None)
    return PlayedJob(submitted, arrival.duration_ns, stuck=stuck)

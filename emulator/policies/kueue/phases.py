"""The two phases of admission, and what takes a workload's quota beside preemption: stopped queues, limits, slow pods.

Theory of operation
-------------------
A workload reserves its quota in a cycle of the scheduler, and is admitted when the admission checks of its queue have
passed.  Reserved quota is quota: it counts, and it can be preempted.  Each check takes some time from the reservation
on.  After an eviction all begin anew; where the reservation is only lost, because the queue was stopped, those that
have passed stay so.

With ``blockAdmission`` a cycle waits before each admission until all that hold quota have ready pods.  So a workload
may be admitted that has left its queue, or whose queue was stopped, since the cycle began.

An admitted workload leaves when it is preempted, when a queue of it is drained, when its pods are not ready in time, or
when it has run for as long as it may over all its runs.  It is then *leaving*, until its quota is free.  After that it
waits in its queue again, or it is *away* from it: while its LocalQueue is stopped, while the queue is stopped for which
it was evicted, or until its back-off is over.  Who has used up its time, or its returns, is deactivated for good.

https://kueue.sigs.k8s.io/docs/concepts/workload/, https://kueue.sigs.k8s.io/docs/concepts/admission_check/ and
https://kueue.sigs.k8s.io/docs/tasks/manage/setup_wait_for_pods_ready/; the order at one instant, and two behaviours
that look like faults of Kueue, are those of its recorded days.  A workload whose LocalQueue is stopped is not found
when its ClusterQueue is drained: it goes when the LocalQueue is started.  And nobody who is set aside looks again when
one of a stopped LocalQueue frees its quota.

Kueue writes times in whole seconds, so the time that a workload has run is counted in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import heappop, heappush
from random import Random
from typing import NamedTuple

from emulator.policies.kueue.model import Flavors
from emulator.sites.kueue import Cluster, RequeuingTimestamp, StopChange, StopPolicy, Workload
from emulator.vocabulary import SECOND_NS


class Phase(StrEnum):
    """Where a workload is."""

    WAITING = "waiting"
    """In its queue, or set aside there."""
    AWAY = "away"
    """Out of its queue for a while."""
    RESERVED = "reserved"
    """It has its quota, and its checks have not passed."""
    ADMITTED = "admitted"
    LEAVING = "leaving"
    """It was evicted, and its quota is not free yet."""
    DEACTIVATED = "deactivated"


class Step(StrEnum):
    """What happens to a workload."""

    RETURN = "return"
    """It comes back to its queue."""
    WITHDRAW = "withdraw"
    """It leaves its queue: its LocalQueue was stopped."""
    RESERVE = "reserve"
    ADMIT = "admit"
    """All of its checks have passed."""
    LOSE = "lose"
    """It loses the quota that it has reserved, without an eviction."""
    EVICT = "evict"
    DEACTIVATE = "deactivate"
    WAKE = "wake"
    """The pods of one that was deactivated have gone: who is set aside looks again, once more."""


TRANSITIONS: Mapping[tuple[Phase, Step], Phase] = {
    (Phase.AWAY, Step.RETURN): Phase.WAITING,
    (Phase.LEAVING, Step.RETURN): Phase.WAITING,
    (Phase.WAITING, Step.WITHDRAW): Phase.AWAY,
    (Phase.LEAVING, Step.WITHDRAW): Phase.AWAY,
    (Phase.WAITING, Step.RESERVE): Phase.RESERVED,
    (Phase.AWAY, Step.RESERVE): Phase.RESERVED,
    (Phase.RESERVED, Step.ADMIT): Phase.ADMITTED,
    (Phase.RESERVED, Step.LOSE): Phase.LEAVING,
    (Phase.RESERVED, Step.EVICT): Phase.LEAVING,
    (Phase.ADMITTED, Step.EVICT): Phase.LEAVING,
    (Phase.ADMITTED, Step.DEACTIVATE): Phase.DEACTIVATED,
    (Phase.LEAVING, Step.DEACTIVATE): Phase.DEACTIVATED,
    (Phase.DEACTIVATED, Step.WAKE): Phase.DEACTIVATED,
}
"""All that can happen; anything else is an error."""


class EvictedBy(StrEnum):
    """Kueue's reasons for an eviction that is not a preemption."""

    LOCAL_QUEUE = "LocalQueueStopped"
    CLUSTER_QUEUE = "ClusterQueueStopped"
    PODS_READY = "PodsReadyTimeout"
    MAX_EXECUTION = "DeactivatedDueToMaximumExecutionTimeExceeded"
    REQUEUING_LIMIT = "DeactivatedDueToRequeuingLimitExceeded"


@dataclass(eq=False, slots=True)
class Life:
    """A workload with what it has been through."""

    workload: Workload
    ready_ns: tuple[int | None, ...] = ()
    phase: Phase = Phase.WAITING
    reservations: int = 0
    starts: int = 0
    admitted_ns: int | None = None
    """Since when it is admitted, until its quota is free; None: it is not."""
    is_ready: bool = False
    """Whether its pods are."""
    checked: set[str] = field(default_factory=set)
    """The checks that have passed."""
    evicted_by: EvictedBy | None = None
    """Why it was evicted last, until it reserves quota again; None: it was not, or was preempted."""
    evicted_ns: int = 0
    timeouts: int = 0
    """How often its pods were not ready in time."""
    back_ns: int = 0
    """When its back-off is over."""
    since_ns: int | None = None
    """What counts as its age, if not its creation."""
    used_ns: int = 0
    """How long it was admitted, before this time."""

    def step(self, step: Step) -> None:
        """Do a step.  Raises ValueError, and changes nothing: it cannot happen now."""
        phase = TRANSITIONS.get((self.phase, step))
        if phase is None:
            raise ValueError(f"{self.workload.name}: {step} while {self.phase}")
        self.phase = phase


class Act(NamedTuple):
    """A step of a workload, to be carried out before the next is asked for."""

    life: Life
    step: Step
    reason: EvictedBy | None = None
    at_once: bool = False
    """Of one that returns: to the queue proper, even if its like are set aside."""


class Phases:
    """The phases of all workloads of a cluster; see the module's theory of operation."""

    def __init__(self, cluster: Cluster, release_ns: int = 0, has_nodes: bool = False) -> None:
        """
        Args:
            cluster: queues, checks, and whether pods must be ready.
            release_ns: from an eviction until the pods have gone.
            has_nodes: whether ``placed`` says when all pods of a workload have their nodes; else they have at once.
        """
        self._cluster = cluster
        self._has_nodes = has_nodes
        self._release_ns = release_ns
        self._queues = {each.name: each for each in cluster.queues}
        self._delays_ns = {each.name: each.delays_ns for each in cluster.checks}
        self._stop = {each.name: each.stop for each in cluster.queues}
        self._local_stop = {(each.namespace, each.name): each.stop for each in cluster.local_queues}
        self._lives: dict[str, Life] = {}
        self._timers: list[tuple[int, int, _Timer | StopChange]] = []
        self._pushed = 0
        self.seed = 0
        for change in cluster.stops:
            self._at(change.at_ns, change)

    @property
    def next_ns(self) -> int | None:
        """When something may be due next; None: nothing is to come."""
        return self._timers[0][0] if self._timers else None

    def all_ready(self) -> bool:
        """Whether all workloads that hold quota have ready pods."""
        unready = (Phase.RESERVED, Phase.LEAVING)
        return not any(
            life.phase in unready or (life.phase is Phase.ADMITTED and not life.is_ready)
            for life in self._lives.values()
        )

    def is_stopped_locally(self, life: Life) -> bool:
        """Whether its LocalQueue is stopped."""
        return self._local_stop.get(life.workload.local, StopPolicy.NONE) is not StopPolicy.NONE

    def submitted(self, workload: Workload, ready_ns: tuple[int | None, ...]) -> Life:
        """A workload has come: it waits, or it is away."""
        life = self._lives[workload.name] = Life(workload, ready_ns)
        if self.is_stopped_locally(life):
            life.step(Step.WITHDRAW)
        return life

    def ended(self, life: Life) -> None:
        """It is done."""
        self._lives.pop(life.workload.name, None)

    def reserved(self, life: Life, flavors: Flavors, now_ns: int) -> Iterator[Act]:
        """A cycle has given it its quota, in these flavors."""
        life.step(Step.RESERVE)
        life.reservations += 1
        life.evicted_by, life.since_ns = None, None
        used = {flavor for chosen in flavors for flavor in chosen.values()}
        checks = self._queues[life.workload.queue].checks
        needed = {name for name, only in checks.items() if not only or not used.isdisjoint(only)}
        for name in sorted(needed - life.checked):
            if delay_ns := self._delay_ns(life, name):
                self._at(now_ns + delay_ns, _Timer(life, _Check(name, frozenset(needed))))
            else:
                life.checked.add(name)
        if needed <= life.checked:
            yield from self._admit(life, now_ns)
        yield from self._settle(life, now_ns)

    def _delay_ns(self, life: Life, check: str) -> int:
        delays_ns = self._delays_ns.get(check, (0,))
        return Random(f"{self.seed}/{life.workload.name}/{life.reservations}/{check}").choice(delays_ns)

    def _admit(self, life: Life, now_ns: int) -> Iterator[Act]:
        life.step(Step.ADMIT)
        life.admitted_ns, life.is_ready = now_ns, False
        life.starts += 1
        yield Act(life, Step.ADMIT)
        if not self._has_nodes:
            self.placed(life, now_ns)
        if self._cluster.pods_ready is not None and not life.is_ready:
            self._at(now_ns + self._cluster.pods_ready.timeout_ns, _Timer(life, _Due.TIMEOUT))
        most_ns = life.workload.max_execution_ns
        if most_ns is not None:
            self._at(max(now_ns, now_ns + most_ns - life.used_ns), _Timer(life, _Due.MAX_EXECUTION))

    def placed(self, life: Life, now_ns: int) -> None:
        """All of its pods have their nodes."""
        rule = self._cluster.pods_ready
        if rule is None or life.admitted_ns is None:
            return
        delay_ns = life.ready_ns[min(life.starts, len(life.ready_ns)) - 1] if life.ready_ns else 0
        if delay_ns is None:
            return
        if rule.blocks or now_ns + delay_ns > life.admitted_ns + rule.timeout_ns:
            self._at(now_ns + delay_ns, _Timer(life, _Due.READY))
        else:
            life.is_ready = True  # in time; nobody asks when

    def evicted(self, life: Life, now_ns: int, reason: EvictedBy | None = None) -> None:
        """It has to leave; without a reason it was preempted."""
        life.step(Step.EVICT)
        life.evicted_by, life.evicted_ns = reason, now_ns
        life.checked.clear()

    def freed(self, life: Life, now_ns: int) -> None:
        """Its quota is free: it waits again, or it is away."""
        if life.admitted_ns is not None:
            life.used_ns += (now_ns // SECOND_NS - life.admitted_ns // SECOND_NS) * SECOND_NS
            life.admitted_ns = None
        if life.phase is Phase.LEAVING:
            life.step(Step.WITHDRAW if self._is_away(life, now_ns) else Step.RETURN)

    def _is_away(self, life: Life, now_ns: int) -> bool:
        is_stopped = self._stop[life.workload.queue] is not StopPolicy.NONE
        return (
            self.is_stopped_locally(life)
            or (life.evicted_by is EvictedBy.CLUSTER_QUEUE and is_stopped)
            or (life.evicted_by is EvictedBy.PODS_READY and now_ns < life.back_ns)
        )

    # ---- what is due ----

    def _at(self, at_ns: int, timer: _Timer | StopChange) -> None:
        heappush(self._timers, (at_ns, self._pushed, timer))
        self._pushed += 1

    def due(self, now_ns: int) -> Iterator[Act | StopChange]:
        """What happens by itself until now: steps of workloads, and changes of queues before what follows of them."""
        while self._timers and self._timers[0][0] <= now_ns:
            _, _, timer = heappop(self._timers)
            if isinstance(timer, StopChange):
                yield timer
                yield from self._changed(timer, now_ns)
            elif timer.life.reservations == timer.reservation:
                yield from self._due(timer.life, timer.due, now_ns)

    def _due(self, life: Life, due: _Due | _Check, now_ns: int) -> Iterator[Act]:
        match due:
            case _Check(name, needed) if life.phase is Phase.RESERVED:
                life.checked.add(name)
                if needed <= life.checked:
                    yield from self._admit(life, now_ns)
            case _Due.READY if life.phase is Phase.ADMITTED:
                life.is_ready = True
            case _Due.TIMEOUT if life.phase is Phase.ADMITTED and not life.is_ready:
                yield from self._time_out(life, now_ns)
            case _Due.BACK if life.phase is Phase.AWAY and not self._is_away(life, now_ns):
                life.step(Step.RETURN)
                yield Act(life, Step.RETURN)
            case _Due.GONE if not self.is_stopped_locally(life):
                life.step(Step.WAKE)
                yield Act(life, Step.WAKE)
            case _Due.MAX_EXECUTION if life.admitted_ns is not None and life.phase is not Phase.DEACTIVATED:
                waits = life.evicted_by is EvictedBy.PODS_READY and life.evicted_ns != now_ns
                if waits and now_ns < life.back_ns:
                    self._at(life.back_ns, _Timer(life, due))
                else:
                    yield from self._deactivate(life, EvictedBy.MAX_EXECUTION, now_ns)
            case _:
                pass

    def _time_out(self, life: Life, now_ns: int) -> Iterator[Act]:
        """Its pods were not ready in time."""
        rule = self._cluster.pods_ready
        assert rule is not None, "only then there is a timeout"
        if rule.limit is not None and life.timeouts >= rule.limit:
            yield from self._deactivate(life, EvictedBy.REQUEUING_LIMIT, now_ns)
            return
        life.timeouts += 1
        life.back_ns = now_ns + rule.backoff_ns(life.timeouts)
        self.evicted(life, now_ns, EvictedBy.PODS_READY)
        if rule.timestamp is RequeuingTimestamp.EVICTION:
            life.since_ns = now_ns
        self._at(life.back_ns, _Timer(life, _Due.BACK))
        yield Act(life, Step.EVICT, EvictedBy.PODS_READY)

    def _deactivate(self, life: Life, reason: EvictedBy, now_ns: int) -> Iterator[Act]:
        is_leaving = life.phase is Phase.LEAVING
        life.step(Step.DEACTIVATE)
        self._at((life.evicted_ns if is_leaving else now_ns) + self._release_ns, _Timer(life, _Due.GONE))
        yield Act(life, Step.DEACTIVATE, None if is_leaving else reason)

    def _changed(self, change: StopChange, now_ns: int) -> Iterator[Act]:
        """The policy of a queue has changed: its workloads are looked at in the order of their names."""
        if change.queue:
            self._stop[change.queue] = change.stop
            lives = [life for _, life in sorted(self._lives.items()) if life.workload.queue == change.queue]
        else:
            was_stopped = self._local_stop.get(change.local_queue, StopPolicy.NONE) is not StopPolicy.NONE
            self._local_stop[change.local_queue] = change.stop
            lives = [life for _, life in sorted(self._lives.items()) if life.workload.local == change.local_queue]
            for life in lives:
                if life.phase is Phase.WAITING and change.stop is not StopPolicy.NONE:
                    life.step(Step.WITHDRAW)
                    yield Act(life, Step.WITHDRAW)
                elif life.phase is Phase.AWAY and was_stopped and change.stop is StopPolicy.NONE:
                    life.step(Step.RETURN)
                    yield Act(life, Step.RETURN, at_once=True)
        for life in lives:
            yield from self._settle(life, now_ns)

    def _settle(self, life: Life, now_ns: int) -> Iterator[Act]:
        """What follows for it of the policies of its queues."""
        queue = self._stop[life.workload.queue]
        local = self._local_stop.get(life.workload.local, StopPolicy.NONE)
        if life.phase is Phase.ADMITTED:
            reason = None
            if local is StopPolicy.HOLD_AND_DRAIN:
                reason = EvictedBy.LOCAL_QUEUE
            elif local is StopPolicy.NONE and queue is StopPolicy.HOLD_AND_DRAIN:
                reason = EvictedBy.CLUSTER_QUEUE
            if reason is not None:
                self.evicted(life, now_ns, reason)
                yield Act(life, Step.EVICT, reason)
        elif life.phase is Phase.RESERVED and not queue is local is StopPolicy.NONE:
            life.step(Step.LOSE)
            yield Act(life, Step.LOSE)
        elif life.phase is Phase.AWAY and not self._is_away(life, now_ns):
            life.step(Step.RETURN)
            yield Act(life, Step.RETURN)


class _Due(StrEnum):
    """What a timer of an admitted workload is for."""

    READY = "its pods are ready"
    TIMEOUT = "its pods were to be ready"
    BACK = "its back-off is over"
    MAX_EXECUTION = "it has run for as long as it may"
    GONE = "its pods have gone after it was deactivated"


class _Check(NamedTuple):
    """A check passes."""

    name: str
    needed: frozenset[str]
    """All that have to."""


class _Timer:
    """Something that is due for a workload, in its present reservation."""

    __slots__ = ("due", "life", "reservation")

    def __init__(self, life: Life, due: _Due | _Check) -> None:
        self.life = life
        self.reservation = life.reservations
        self.due = due

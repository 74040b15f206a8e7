"""One scheduling cycle: the next pod is bound, or preempts and waits, or is set aside.  A pod of a group is tried
together with all pods of the group that wait.

kube-scheduler 1.36 tries a gang that does not fit again and again, by back-off alone.  Here it is tried again when
something has changed, like any pod, but without back-off: no node is kept for it, and whoever comes in a victim's place
would get that capacity first.

At the end are the questions of ``natjam who`` about a state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from emulator.policies.kubernetes.filters import Filter
from emulator.policies.kubernetes.gangs import Gang, GangDecision, place_gang_in
from emulator.policies.kubernetes.placement import Placement, place_in
from emulator.policies.kubernetes.preemption import Preemption, Verdict, preempt_in
from emulator.policies.kubernetes.queue import Queue, refusing
from emulator.policies.kubernetes.snapshot import Snapshot
from emulator.policies.kubernetes.terms import Ties
from emulator.sites.kubernetes import Bound, BudgetSpec, Group, Pending, Pod, State
from emulator.vocabulary import Frozen


class Decision(Frozen):
    """The decision of one cycle."""

    pod: Pod
    placement: Placement
    preemption: Preemption | None = None
    """If it fits nowhere."""
    evicted: tuple[str, ...] = ()
    """The victims that are deleted now; the others were going already."""

    @property
    def node(self) -> str | None:
        """Where the pod is bound, or waits for its victims to go."""
        return self.placement.node if self.preemption is None else self.preemption.node

    @property
    def victims(self) -> tuple[str, ...]:
        """All that have to go, the most important first."""
        chosen = None if self.preemption is None else self.preemption.chosen
        return () if chosen is None else tuple(each.pod.name for each in chosen.victims)

    @property
    def bound(self) -> Mapping[str, str]:
        """The node of the pod, if it is bound."""
        node = self.placement.node
        return {} if node is None else {self.pod.name: node}


def run_cycle(snapshot: Snapshot, queue: Queue, now_ns: int, ties: Ties) -> Decision | GangDecision | None:
    """Try the next pod, change snapshot and queue; None if no pod is ready.

    Victims are marked and hold their room until the caller takes them out, and tells the queue.
    """
    pending = queue.pop(now_ns)
    if pending is None:
        return None
    pod = pending.pod
    if pod.group in snapshot.groups:
        members = sorted((pending, *queue.pop_group(pod.group)), key=lambda each: -each.pod.priority)
        return _gang_cycle(snapshot, queue, snapshot.groups[pod.group], members, now_ns, ties)
    placement = place_in(snapshot, pod, pending.nominated, ties)
    if not placement.was_nominated:
        snapshot.first = (snapshot.first + placement.looked) % len(snapshot.node_infos)
    if placement.node is not None:
        snapshot.nominate(pod, pending.nominated, None)
        snapshot.add(Bound(pod, placement.node, now_ns))
        queue.pod_bound(pod)
        return Decision(pod, placement)
    preemption = preempt_in(snapshot, pod, pending.nominated, placement.fit_errors, ties, now_ns)
    evicted = _evict(snapshot, () if preemption.chosen is None else preemption.chosen.victims)
    _mark_unschedulable(snapshot, queue, pending, preemption, now_ns, refusing(placement.fit_errors.values()))
    if evicted:
        for name in preemption.cleared:
            snapshot.nominate(snapshot.node_infos[preemption.node or ""].nominated[name], preemption.node, None)
            queue.nomination_lost(queue.denominate(name))
    return Decision(pod, placement, preemption, evicted)


def _gang_cycle(
    snapshot: Snapshot, queue: Queue, group: Group, members: Sequence[Pending], now_ns: int, ties: Ties
) -> GangDecision:
    gang = Gang(group.name, tuple(each.pod for each in members), group.min_count, group.priority)
    nominated = {each.pod.name: each.nominated for each in members if each.nominated is not None}
    decision = place_gang_in(snapshot.copy(), gang, nominated, ties, now_ns)
    for each in members:
        pod, node = each.pod, decision.bound.get(each.pod.name)
        if node is not None:
            snapshot.nominate(pod, each.nominated, None)
            snapshot.add(Bound(pod, node, now_ns))
            queue.pod_bound(pod)
        else:
            _wait(snapshot, queue, each, decision.nominated.get(pod.name), now_ns, (Filter.RESOURCES,))
    return replace(decision, evicted=_evict(snapshot, (each for unit in decision.victims for each in unit.pods)))


def _evict(snapshot: Snapshot, victims: Iterable[Bound]) -> tuple[str, ...]:
    """Mark the victims that are not going yet."""
    going = [each for each in victims if not each.terminating]
    for victim in going:
        snapshot.change(replace(victim, terminating=True, preempted=True))
    return tuple(victim.pod.name for victim in going)


def _mark_unschedulable(
    snapshot: Snapshot, queue: Queue, pending: Pending, preemption: Preemption, now_ns: int, refused: tuple[str, ...]
) -> None:
    """The pod waits; with victims, nominated to their node."""
    stays = preemption.verdict in (Verdict.NEVER, Verdict.WAITS)
    _wait(snapshot, queue, pending, pending.nominated if stays else preemption.node, now_ns, refused)


def _wait(
    snapshot: Snapshot, queue: Queue, pending: Pending, after: str | None, now_ns: int, refused: tuple[str, ...]
) -> None:
    """The pod is set aside, and nominated to ``after``.  A nomination that moves is lost where it was."""
    before = pending.nominated
    snapshot.nominate(pending.pod, before, after)
    failures = 0 if pending.pod.group in snapshot.groups else pending.failures + 1
    queue.add(Pending(pending.pod, after, failures, now_ns, aside=True, refused=refused))
    if before is not None and after != before:
        queue.nomination_lost(pending.pod)


def one_by_one(state: State, pods: Sequence[Pod], ties: Ties) -> Iterator[Decision]:
    """One attempt for each of these pods, each in the cluster that the one before leaves; none is of a PodGroup."""
    snapshot, names = Snapshot(state), {pod.name for pod in pods}
    others = [replace(each, aside=True) for each in state.waiting if each.pod.name not in names]
    specs = [
        BudgetSpec(each.name, each.selector, snapshot.healthy[each.name] - each.allowed, each.namespace)
        for each in state.budgets
    ]
    for pod in pods:
        decision = run_cycle(snapshot, Queue([*others, Pending(pod, nominated(state, pod))]), 0, ties)
        assert isinstance(decision, Decision), "the pod is ready, and in no group"
        if decision.evicted:
            snapshot.restand(specs)
        yield decision


def from_other_starts(state: State, pod: Pod, ties: Ties, starts: int) -> Counter[str]:
    """The nodes that a pod goes to if the scheduler begins to look at others, from so many starts all around."""
    snapshot, node = Snapshot(state), nominated(state, pod)
    found: Counter[str] = Counter()
    for number in range(starts):
        snapshot.first = (state.first + number * len(state.nodes) // starts) % len(state.nodes)
        found[place_in(snapshot, pod, node, ties).node or ""] += 1
    return found


def nominated(state: State, pod: Pod) -> str | None:
    """The node for which a pod waits."""
    return next((each.nominated for each in state.waiting if each.pod.name == pod.name), None)

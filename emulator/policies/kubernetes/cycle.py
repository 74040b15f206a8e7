"""One scheduling cycle: the next pod is bound, or preempts and waits, or is set aside.  A pod of a group is tried
together with all pods of the group that wait.

kube-scheduler 1.36 tries a gang that does not fit again and again, by back-off alone.  Here it is tried again when
something has changed, like any pod, but without back-off: no node is kept for it, and whoever comes in a victim's place
would get that capacity first.

At the end are the questions to kube-scheduler as pure functions of a state: ``place``, ``victims``, ``cycle``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from msgspec.structs import replace

from emulator.policies.kubernetes.filters import Filter
from emulator.policies.kubernetes.gangs import Gang, GangDecision, GangOutcome, place_gang_in
from emulator.policies.kubernetes.placement import Placement, place_in
from emulator.policies.kubernetes.preemption import Preemption, Verdict, preempt_in
from emulator.policies.kubernetes.queue import Queue, refusing
from emulator.policies.kubernetes.snapshot import Snapshot
from emulator.policies.kubernetes.terms import Ties
from emulator.sites.kubernetes import Bound, Group, Pending, Pod, State
from emulator.vocabulary import Frozen


class Outcome(StrEnum):
    """What a cycle does with its pod."""

    BOUND = "bound"
    PREEMPTS = "preempts"
    FAILS = "fails"


_OF_GANG = {GangOutcome.FITS: Outcome.BOUND, GangOutcome.PREEMPTS: Outcome.PREEMPTS}


class Decision(Frozen):
    """The decision of one cycle."""

    pod: Pod
    outcome: Outcome
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


class GangCycle(Frozen):
    """The decision of one cycle with a gang."""

    decision: GangDecision
    evicted: tuple[str, ...] = ()
    """See ``Decision``."""

    @property
    def pod(self) -> Pod:
        """The first of the gang, in whose name others are evicted."""
        return self.decision.gang.pods[0]

    @property
    def outcome(self) -> Outcome:
        """The outcome for the whole gang."""
        return _OF_GANG.get(self.decision.outcome, Outcome.FAILS)

    @property
    def bound(self) -> Mapping[str, str]:
        """The nodes of its pods that are bound."""
        return self.decision.nodes


def run_cycle(snapshot: Snapshot, queue: Queue, now_ns: int, ties: Ties) -> Decision | GangCycle | None:
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
        return Decision(pod, Outcome.BOUND, placement)
    preemption = preempt_in(snapshot, pod, pending.nominated, placement.fit_errors, ties, now_ns)
    evicted = _evict(snapshot, () if preemption.chosen is None else preemption.chosen.victims)
    _mark_unschedulable(snapshot, queue, pending, preemption, now_ns, refusing(placement.fit_errors.values()))
    if evicted:
        for name in preemption.cleared:
            snapshot.nominate(snapshot.node_infos[preemption.node or ""].nominated[name], preemption.node, None)
            queue.nomination_lost(queue.denominate(name))
    outcome = Outcome.FAILS if preemption.node is None else Outcome.PREEMPTS
    return Decision(pod, outcome, placement, preemption, evicted)


def _gang_cycle(
    snapshot: Snapshot, queue: Queue, group: Group, members: Sequence[Pending], now_ns: int, ties: Ties
) -> GangCycle:
    gang = Gang(group.name, tuple(each.pod for each in members), group.min_count, group.priority)
    nominated = {each.pod.name: each.nominated for each in members if each.nominated is not None}
    decision = place_gang_in(snapshot.copy(), gang, nominated, ties, now_ns)
    for each in members:
        pod, node = each.pod, decision.nodes.get(each.pod.name)
        if node is not None:
            snapshot.nominate(pod, each.nominated, None)
            snapshot.add(Bound(pod, node, now_ns))
            queue.pod_bound(pod)
        else:
            _wait(snapshot, queue, each, decision.nominated.get(pod.name), now_ns, (Filter.RESOURCES,))
    return GangCycle(decision, _evict(snapshot, (each for unit in decision.victims for each in unit.pods)))


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


def place(state: State, pod: Pod, ties: Ties) -> Placement:
    """The node for a pod, the scores, and why not the others.  If it waits in the state, it keeps its nomination."""
    return place_in(Snapshot(state), pod, nominated(state, pod), ties)


def victims(state: State, pod: Pod, ties: Ties) -> Preemption:
    """Whom a pod preempts that fits nowhere, on which node, and why not on the others.

    Raises ``ValueError`` if it fits somewhere: then it preempts nobody.
    """
    snapshot, node = Snapshot(state), nominated(state, pod)
    placement = place_in(snapshot, pod, node, ties)
    if placement.node is not None:
        raise ValueError(f"pod {pod.name} fits on {placement.node}: it preempts nobody")
    return preempt_in(snapshot, pod, node, placement.fit_errors, ties)


def nominated(state: State, pod: Pod) -> str | None:
    """The node for which a pod waits."""
    return next((each.nominated for each in state.waiting if each.pod.name == pod.name), None)


def cycle(state: State, now_ns: int, ties: Ties) -> tuple[Decision | GangCycle | None, State]:
    """One scheduling cycle at ``now_ns``: what it does with the next pod that is ready, and the state after it.

    A pod of one of the state's groups is tried with all of it that wait.

    None: no pod is ready.  Victims are marked as terminating and hold their room until the caller takes them out with
    ``leave``.
    """
    snapshot, queue = Snapshot(state), Queue(state.waiting)
    decision = run_cycle(snapshot, queue, now_ns, ties)
    return decision, _state_after(state, snapshot, queue)


def leave(state: State, names: Iterable[str]) -> State:
    """The state when these pods have left their nodes, and those who waited for that are ready."""
    snapshot, queue = Snapshot(state), Queue(state.waiting)
    for name in names:
        queue.pod_left(snapshot.remove(name).pod)
    return _state_after(state, snapshot, queue)


def flush(state: State, now_ns: int) -> State:
    """The state when those are ready whose last attempt is more than five minutes ago."""
    queue = Queue(state.waiting)
    queue.flush(now_ns)
    return replace(state, waiting=queue.pending())


def _state_after(state: State, snapshot: Snapshot, queue: Queue) -> State:
    return replace(state, bound=tuple(snapshot.bound()), waiting=queue.pending(), first=snapshot.first)

"""One scheduling cycle: the next pod is bound, or preempts and waits, or is set aside."""

from __future__ import annotations

from enum import StrEnum

from msgspec.structs import replace

from emulator.policies.kubernetes.model import Bound, Pending, Pod, Ties
from emulator.policies.kubernetes.placement import Placement, place_in
from emulator.policies.kubernetes.preemption import Preemption, Verdict, preempt_in
from emulator.policies.kubernetes.queue import Queue
from emulator.policies.kubernetes.snapshot import Snapshot
from emulator.vocabulary import Frozen


class Outcome(StrEnum):
    """What a cycle does with its pod."""

    BOUND = "bound"
    PREEMPTS = "preempts"
    FAILS = "fails"


class Decision(Frozen):
    """Of one cycle."""

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


def run_cycle(snapshot: Snapshot, queue: Queue, now_ns: int, ties: Ties) -> Decision | None:
    """Try the next pod, change snapshot and queue; None if no pod is ready.

    Victims are marked and hold their room until the caller takes them out, and tells the queue.
    """
    pending = queue.pop(now_ns)
    if pending is None:
        return None
    pod = pending.pod
    placement = place_in(snapshot, pod, pending.nominated, ties)
    if placement.node is not None:
        snapshot.nominate(pod, pending.nominated, None)
        snapshot.add(Bound(pod, placement.node, now_ns))
        return Decision(pod, Outcome.BOUND, placement)
    preemption = preempt_in(snapshot, pod, pending.nominated, placement.misfits, ties, now_ns)
    evicted = _evict(snapshot, preemption)
    may_fit = any(not each.is_hard for each in placement.misfits.values())
    _set_aside(snapshot, queue, pending, preemption, now_ns, may_fit)
    if evicted:
        for name in preemption.cleared:
            snapshot.nominate(snapshot.rooms[preemption.node or ""].nominated[name], preemption.node, None)
            queue.nomination_lost(queue.denominate(name))
    outcome = Outcome.FAILS if preemption.node is None else Outcome.PREEMPTS
    return Decision(pod, outcome, placement, preemption, evicted)


def _evict(snapshot: Snapshot, preemption: Preemption) -> tuple[str, ...]:
    """Mark the victims that are not going yet."""
    chosen = preemption.chosen
    going = [] if chosen is None else [each for each in chosen.victims if not each.terminating]
    for victim in going:
        snapshot.change(replace(victim, terminating=True, preempted=True))
    return tuple(victim.pod.name for victim in going)


def _set_aside(
    snapshot: Snapshot, queue: Queue, pending: Pending, preemption: Preemption, now_ns: int, may_fit: bool
) -> None:
    """The pod waits; with victims, nominated to their node.  A nomination that moves is lost where it was."""
    before = pending.nominated
    stays = preemption.verdict in (Verdict.NEVER, Verdict.WAITS)
    after = before if stays else preemption.node
    snapshot.nominate(pending.pod, before, after)
    queue.add(Pending(pending.pod, after, pending.failures + 1, now_ns, aside=True, may_fit=may_fit))
    if before is not None and after != before:
        queue.nomination_lost(pending.pod.priority)

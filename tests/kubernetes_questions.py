"""Single questions to kube-scheduler's rules: of plain states, each answered in a snapshot made for it alone."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from emulator.policies.kubernetes.cycle import Decision, nominated, run_cycle
from emulator.policies.kubernetes.gangs import GangDecision
from emulator.policies.kubernetes.placement import Placement, place_in
from emulator.policies.kubernetes.preemption import Preemption, preempt_in
from emulator.policies.kubernetes.queue import Queue
from emulator.policies.kubernetes.snapshot import Snapshot
from emulator.policies.kubernetes.terms import Ties
from emulator.sites.kubernetes import Pending, Pod, State


def place(state: State, pod: Pod, ties: Ties) -> Placement:
    """The node for a pod, the scores, and why not the others.  If it waits in the state, it keeps its nomination."""
    return place_in(Snapshot(state), pod, nominated(state, pod), ties)


def victims(state: State, pod: Pod, ties: Ties) -> Preemption:
    """Whom a pod preempts that fits nowhere, on which node, and why not on the others."""
    snapshot, node = Snapshot(state), nominated(state, pod)
    placement = place_in(snapshot, pod, node, ties)
    assert placement.node is None, f"pod {pod.name} fits on {placement.node}: it preempts nobody"
    return preempt_in(snapshot, pod, node, placement.fit_errors, ties)


def cycle(state: State, now_ns: int, ties: Ties) -> tuple[Decision | GangDecision | None, State]:
    """One scheduling cycle: what it does with the next pod that is ready, and the state after it.

    None: no pod is ready.  Victims are marked as terminating, until the caller takes them out with ``leave``.
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
    return replace(state, waiting=_pending(queue))


def _state_after(state: State, snapshot: Snapshot, queue: Queue) -> State:
    return replace(state, bound=tuple(snapshot.bound()), waiting=_pending(queue), first=snapshot.first)


def _pending(queue: Queue) -> tuple[Pending, ...]:
    """All that wait: the ready ones, those that back off, and those that are set aside or held."""
    ready = (key[-1] for heap in (queue._active, queue._backing_off) for key in sorted(heap))
    return tuple(queue._waiting[name] for name in (*ready, *queue._unschedulable, *queue._held))

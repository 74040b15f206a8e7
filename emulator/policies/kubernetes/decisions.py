"""The questions to kube-scheduler as pure functions of a state: ``place``, ``victims``, ``cycle``."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from emulator.policies.kubernetes.cycle import Decision, GangCycle, run_cycle
from emulator.policies.kubernetes.placement import Placement, place_in
from emulator.policies.kubernetes.preemption import Preemption, preempt_in
from emulator.policies.kubernetes.queue import Queue
from emulator.policies.kubernetes.snapshot import Snapshot
from emulator.policies.kubernetes.terms import Ties
from emulator.sites.kubernetes import Pod, State


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
    return preempt_in(snapshot, pod, node, placement.misfits, ties)


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
        snapshot.remove(name)
        queue.pod_left()
    return _state_after(state, snapshot, queue)


def look(state: State, now_ns: int) -> State:
    """The state when those are ready whose last attempt is more than five minutes ago."""
    queue = Queue(state.waiting)
    queue.look(now_ns)
    return replace(state, waiting=queue.pending())


def _state_after(state: State, snapshot: Snapshot, queue: Queue) -> State:
    return replace(state, bound=tuple(snapshot.bound()), waiting=queue.pending())

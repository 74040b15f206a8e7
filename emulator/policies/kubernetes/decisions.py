"""The questions to kube-scheduler as pure functions of a state: ``place``, ``victims``."""

from __future__ import annotations

from emulator.policies.kubernetes.model import Pod, State, Ties
from emulator.policies.kubernetes.placement import Placement, place_in
from emulator.policies.kubernetes.preemption import Preemption, preempt_in
from emulator.policies.kubernetes.snapshot import Snapshot


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

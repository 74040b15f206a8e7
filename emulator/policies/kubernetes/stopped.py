"""Pods whose process is stopped on its node: they go on holding some of what they asked for, and can go on only there.

What such a pod holds is in the snapshot as a pod of its own, which nobody can evict.
"""

from __future__ import annotations

from msgspec.structs import replace

from emulator.policies.kubernetes.snapshot import Snapshot
from emulator.sites.kubernetes import HOSTNAME, Bound, Node, Pod

_HIGHEST = 1 << 31
"""A priority above all others."""


def hold(snapshot: Snapshot, pod: Pod, node: Node) -> Pod:
    """Keep what the stopped pod holds of its node; returns the pod that waits to go on: it fits on no other node, and
    asks for what it does not hold."""
    terms, host = snapshot.terms, node.label(HOSTNAME) or node.name
    snapshot.add(Bound(Pod(_held_name(pod.name), _HIGHEST, requests=terms.held(pod)), node.name))
    return replace(terms.freed(pod), selector={**pod.selector, HOSTNAME: host})


def let_go(snapshot: Snapshot, pod: str) -> None:
    """What the stopped pod of this name holds is free; nothing, if it was not to go on yet."""
    if _held_name(pod) in snapshot:
        snapshot.remove(_held_name(pod))


def _held_name(pod: str) -> str:
    return f"{pod} (stopped)"

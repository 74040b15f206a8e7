"""Placement: where a suspended task resumes."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from emulator.policies.adaptive_checkpointing import resume
from emulator.policies.policy import Axis, PlacementPolicy
from emulator.policies.views import ClusterView, NodeView, PlacementDecision, SuspendedView
from emulator.vocabulary import SECOND_NS, Frozen

_AT_HOME, _ELSEWHERE, _NOT_NOW = PlacementDecision(True), PlacementDecision(True, rank=1), PlacementDecision(False)
_IN_ANOTHER_RACK = PlacementDecision(True, rank=2)
_BEGIN_ANEW = PlacementDecision(False, gives_up=True)
_UNLIMITED = 1 << 62


class PreferLocal(Frozen):
    """Options of ``prefer-local``."""

    delay_s: Annotated[float, msgspec.Meta(ge=0, le=1e8)] = 0.0
    """How long a task waits for its old node when that has no room, emulated seconds."""


_AT_ONCE = PreferLocal()


def prefer_local(
    view: ClusterView, suspended: SuspendedView, node: NodeView, options: PreferLocal = _AT_ONCE
) -> PlacementDecision:
    """A suspended task resumes on its old node if that has room; after ``delay_s`` it may resume on any node.

    It prefers the nodes of its old node's rack: it resumes in another rack only if no node of that one has room.
    """
    if suspended.node == node.name:
        return _AT_HOME
    old = view.node(suspended.node)
    if old is None or not old.alive:
        return _ELSEWHERE
    timeout_ns = suspended.since_ns + round(options.delay_s * SECOND_NS)
    if view.now_ns < timeout_ns:
        return PlacementDecision(False, holds_until_ns=timeout_ns)
    if old.free:
        return _NOT_NOW
    if node.rack == old.rack:
        return _ELSEWHERE
    in_its_rack = (other for other in view.nodes.values() if other.rack == old.rack and other.alive and other.free)
    return _IN_ANOTHER_RACK if suspended.avoids.issuperset(other.name for other in in_its_rack) else _NOT_NOW


class Local(Frozen):
    """Options of ``local``."""

    delay_s: Annotated[float, msgspec.Meta(ge=0, le=1e8)] = 0.0
    """How long a task waits for its old node, emulated seconds."""
    after: Literal["restart", "wait"] = "restart"
    """Afterwards: *restart* goes to another node, where a stopped process starts again; *wait* goes on waiting."""


_RESTART = Local()


def local(view: ClusterView, suspended: SuspendedView, node: NodeView, options: Local = _RESTART) -> PlacementDecision:
    """A suspended task waits for its old node; after ``delay_s`` it goes elsewhere, where a stopped task starts again.

    A saved task resumes elsewhere with its work so far.  With ``after: wait``, both go on waiting.
    """
    if suspended.node == node.name:
        return _AT_HOME
    old = view.node(suspended.node)
    if old is None or not old.alive:
        return _ELSEWHERE
    if options.after == "wait":
        return _NOT_NOW
    timeout_ns = suspended.since_ns + round(options.delay_s * SECOND_NS)
    if view.now_ns < timeout_ns:
        return PlacementDecision(False, holds_until_ns=timeout_ns)
    return _BEGIN_ANEW if suspended.stopped else _ELSEWHERE


def cost(view: ClusterView, suspended: SuspendedView, node: NodeView) -> PlacementDecision:
    """Algorithm 2: a process image is restored on its own node, or on another node if that is sooner.

    Another node must copy the image first, and each node may have a queue at its device.  Nobody knows when a container
    on the image's own node becomes free; the estimate is that the wait lasts as long again as it has lasted so far.
    """
    old, tier = view.node(suspended.node), node.tier
    if suspended.node == node.name or old is None or not old.alive or tier is None or not suspended.image_bytes:
        return prefer_local(view, suspended, node)
    here_ns, there_ns = (max(0, at.restores_until_ns - view.now_ns) for at in (old, node))
    waited_ns = 0 if old.free else view.now_ns - suspended.since_ns
    network_bytes_s = tier.network_bytes_s or _UNLIMITED
    sums = resume(suspended.image_bytes, tier.read_bytes_s, network_bytes_s, here_ns + waited_ns, there_ns)
    if sums.where == "remote":
        return _ELSEWHERE
    behind_ns = sums.remote_ns - sums.local_ns
    until_ns = view.now_ns + (behind_ns // 2 if there_ns else behind_ns) + 1  # the queue there gets shorter meanwhile
    return PlacementDecision(False, holds_until_ns=None if old.free else until_ns)


PLACEMENT: Axis[PlacementPolicy] = Axis(
    "placement",
    (
        PlacementPolicy(
            "prefer-local",
            prefer_local,
            "natjam, sections 3.1 and 9",
            options=PreferLocal,
            strangers_are_alike=True,
            gives_up=False,
        ),
        PlacementPolicy("local", local, "os-assisted-preemption, section V-A", options=Local, strangers_are_alike=True),
        PlacementPolicy("cost", cost, "adaptive-checkpointing, section 4.1, Algorithm 2", gives_up=False),
    ),
    PlacementPolicy,
)

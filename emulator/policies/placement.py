"""Placement: where a suspended task goes on."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from emulator.policies.adaptive_checkpointing import resume
from emulator.policies.policy import Axis, PlacementPolicy
from emulator.policies.views import ClusterView, NodeView, PlacementDecision, SuspendedView
from emulator.vocabulary import Frozen

_AT_HOME, _ELSEWHERE, _NOT_NOW = PlacementDecision(True), PlacementDecision(True, rank=1), PlacementDecision(False)
_BEGIN_ANEW = PlacementDecision(False, gives_up=True)
_NS_A_SECOND = 1_000_000_000
_UNLIMITED = 1 << 62


class PreferLocal(Frozen):
    """Options of ``prefer-local``."""

    delay_s: Annotated[float, msgspec.Meta(ge=0, le=1e8)] = 0.0
    """How long a task holds out for its old node when that has no room, emulated seconds."""


_AT_ONCE = PreferLocal()


def prefer_local(
    view: ClusterView, suspended: SuspendedView, node: NodeView, options: PreferLocal = _AT_ONCE
) -> PlacementDecision:
    """A suspended task goes back to its old node where that has room, else after ``delay_s`` to any."""
    if suspended.node == node.name:
        return _AT_HOME
    old = view.node(suspended.node)
    if old is None or not old.alive:
        return _ELSEWHERE
    patience_ns = suspended.since_ns + round(options.delay_s * _NS_A_SECOND)
    if view.now_ns < patience_ns:
        return PlacementDecision(False, holds_until_ns=patience_ns)
    return _NOT_NOW if old.free else _ELSEWHERE


class Local(Frozen):
    """Options of ``local``."""

    delay_s: Annotated[float, msgspec.Meta(ge=0, le=1e8)] = 0.0
    """How long a task waits for its old node, emulated seconds."""
    after: Literal["restart", "wait"] = "restart"
    """Then: elsewhere, a stopped process being given up for it, or it goes on waiting."""


_RESTART = Local()


def local(view: ClusterView, suspended: SuspendedView, node: NodeView, options: Local = _RESTART) -> PlacementDecision:
    """A suspended task waits for its old node; after ``delay_s`` it goes elsewhere, where a stopped one begins anew.

    A task that was saved goes on elsewhere with what it has done; ``after: wait`` has both wait on.
    """
    if suspended.node == node.name:
        return _AT_HOME
    old = view.node(suspended.node)
    if old is None or not old.alive:
        return _ELSEWHERE
    if options.after == "wait":
        return _NOT_NOW
    patience_ns = suspended.since_ns + round(options.delay_s * _NS_A_SECOND)
    if view.now_ns < patience_ns:
        return PlacementDecision(False, holds_until_ns=patience_ns)
    return _BEGIN_ANEW if suspended.stopped else _ELSEWHERE


def cost(view: ClusterView, suspended: SuspendedView, node: NodeView) -> PlacementDecision:
    """Algorithm 2: a process image is restored where it lies, or on another node where that is sooner.

    Elsewhere it must be brought first, and both wait for the device.  Nobody knows when a container comes free where it
    lies: one that has not for as long as going elsewhere would cost is taken to need as long again.
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
            "natjam, section 3.1",
            options=PreferLocal,
            strangers_are_alike=True,
            gives_up=False,
        ),
        PlacementPolicy("local", local, "os-assisted-preemption, section V-A", options=Local, strangers_are_alike=True),
        PlacementPolicy("cost", cost, "adaptive-checkpointing, section 4.1, Algorithm 2", gives_up=False),
    ),
    PlacementPolicy,
)

"""Calls the policies and checks what they return; an error names the policy."""

from __future__ import annotations

from collections.abc import Collection
from operator import attrgetter
from random import Random
from typing import Any, TypeVar

from msgspec.structs import replace

from emulator.policies.mechanism import TRAITS
from emulator.policies.policy import (
    LEAST_WAIT_NS,
    AllocationPolicy,
    FitPolicy,
    JobEviction,
    JobSelection,
    MechanismPolicy,
    PlacementPolicy,
    Policy,
    ResumeOrder,
    TaskEviction,
)
from emulator.policies.views import (
    AllocationDecision,
    ClusterView,
    JobView,
    MechanismDecision,
    NodeView,
    PlacementDecision,
    ShareDecision,
    SuspendedView,
    TaskView,
)
from emulator.vocabulary import Mechanism, Resources

_SHOWN_CHARACTERS = 200
_name = attrgetter("facts.name")
DecisionT = TypeVar("DecisionT", AllocationDecision, ShareDecision)


class PolicyError(Exception):
    """A policy has returned something that its Protocol does not allow; the message names the policy."""


def allocate(
    policy: AllocationPolicy, view: ClusterView, accepted: AllocationDecision | None = None
) -> AllocationDecision:
    """Which queue is served next, and who may reclaim from whom; ``accepted``: an earlier decision on the same
    queues, which need not be checked again.  Raises PolicyError."""
    decision = policy.function(view)
    if decision == accepted and accepted is not None and accepted.valid_until_ns is None:
        return accepted
    if isinstance(decision, ShareDecision):
        raise PolicyError(f"allocation policy {policy.name} gives shares; name a ShareAllocation of it")
    if not isinstance(decision, AllocationDecision):
        raise _error("allocation", policy, decision, "an AllocationDecision")
    names = {queue.name for queue in view.queues}
    _distinct("allocation", policy, decision.order, names, "as order names of queues")
    pairs = _items(decision.reclaim)
    if pairs is None or not all(_is_reclaim(pair, names) for pair in pairs):
        raise _error("allocation", policy, decision.reclaim, "as reclaim pairs of a queue and its victim queues")
    most = decision.most_reclaims_in_a_run
    if most is not None and (type(most) is not int or most < 1):
        raise _error("allocation", policy, most, "as most_reclaims_in_a_run None or a whole number from 1")
    most = decision.per_heartbeat
    if most is not None and (type(most) is not int or most < 1):
        raise _error("allocation", policy, most, "as per_heartbeat None or a whole number from 1")
    return decision if decision.valid_until_ns is None else _lasting(policy, decision, view)


def share_out(policy: AllocationPolicy, view: ClusterView) -> ShareDecision:
    """How many containers each job is to hold.  Raises PolicyError."""
    decision = policy.function(view)
    if not isinstance(decision, ShareDecision):
        raise _error("allocation", policy, decision, "a ShareDecision")
    shares: Any = decision.shares
    pairs = _items(shares)
    names = [pair[0] for pair in pairs or () if type(pair) is tuple and len(pair) == 2]
    held = [pair[1] for pair in pairs or () if type(pair) is tuple and len(pair) == 2]
    whole = pairs is not None and len(names) == len(pairs) and all(type(share) is int and share >= 0 for share in held)
    if not whole or not _are_distinct(names, view.jobs) or sum(held) > view.containers:
        raise _error(
            "allocation",
            policy,
            shares,
            f"as shares pairs of a job and its containers, {view.containers} or fewer in all",
        )
    return decision if decision.valid_until_ns is None else _lasting(policy, decision, view)


def _lasting(policy: AllocationPolicy, decision: DecisionT, view: ClusterView) -> DecisionT:
    """The decision, valid for at least ``LEAST_WAIT_NS``."""
    until_ns = decision.valid_until_ns
    if type(until_ns) is not int:
        raise _error("allocation", policy, until_ns, "as valid_until_ns None or a whole number of nanoseconds")
    return replace(decision, valid_until_ns=max(until_ns, view.now_ns + LEAST_WAIT_NS))


def _is_reclaim(pair: Any, queues: Collection[str]) -> bool:
    items = _items(pair)
    return (
        items is not None
        and len(items) == 2
        and type(items[0]) is str
        and items[0] in queues
        and _are_distinct(items[1], queues)
    )


def order_jobs(policy: Policy[JobSelection], view: ClusterView, jobs: tuple[JobView, ...]) -> tuple[str, ...]:
    """The jobs of a queue in the order of service; jobs left out are not served.  Raises PolicyError."""
    returned = policy.function(view, jobs)
    return _distinct("job selection", policy, returned, {job.name for job in jobs}, "names of jobs")


def choose_job(policy: Policy[JobEviction], view: ClusterView, jobs: tuple[JobView, ...], random: Random) -> str:
    """The victim job.  Raises PolicyError."""
    victim = policy.function(view, jobs, random)
    if type(victim) is not str or victim not in map(_name, jobs):
        raise _error("job eviction", policy, victim, "the name of one of the jobs")
    return victim


def order_tasks(
    policy: Policy[TaskEviction], view: ClusterView, tasks: tuple[TaskView, ...], random: Random
) -> tuple[str, ...]:
    """The containers of the victim job in the order of eviction; those left out are spared.  Raises PolicyError."""
    containers = {task.container for task in tasks}
    returned = policy.function(view, tasks, random)
    return _distinct("task eviction", policy, returned, containers, "containers of the tasks")


def choose_mechanism(policy: MechanismPolicy, view: ClusterView, task: TaskView, has_device: bool) -> MechanismDecision:
    """What happens to the victim; ``has_device``: there is one to write images to.  Raises PolicyError."""
    decision = policy.function(view, task)
    if not isinstance(decision, MechanismDecision) or type(decision.mechanism) is not Mechanism:
        raise _error("mechanism", policy, decision, "a MechanismDecision")
    if decision.mechanism not in policy.among:
        among = ", ".join(sorted(mechanism.value for mechanism in policy.among))
        raise _error("mechanism", policy, decision.mechanism.value, f"one of what it may choose: {among}")
    if TRAITS[decision.mechanism].makes_image and not has_device:
        raise _error(
            "mechanism", policy, decision.mechanism.value, "another without a device for images: set storage.tier"
        )
    return decision


def place(policy: PlacementPolicy, view: ClusterView, suspended: SuspendedView, node: NodeView) -> PlacementDecision:
    """Whether a suspended task resumes there.  Raises PolicyError."""
    decision = policy.function(view, suspended, node)
    if not isinstance(decision, PlacementDecision):
        raise _error("placement", policy, decision, "a PlacementDecision")
    return decision


def choose_node(
    policy: FitPolicy, view: ClusterView, request: Resources, nodes: tuple[NodeView, ...], offer: NodeView
) -> str:
    """The node of ``nodes`` that a new container gets.  Raises PolicyError."""
    chosen = policy.function(view, request, nodes, offer)
    if chosen not in [node.name for node in nodes]:
        raise _error("fit", policy, chosen, "the name of one of the nodes")
    return chosen


def order_suspended(
    policy: Policy[ResumeOrder], view: ClusterView, suspended: tuple[SuspendedView, ...]
) -> tuple[SuspendedView, ...]:
    """All suspended tasks of a job, in the order in which they resume.  Raises PolicyError."""
    returned = policy.function(view, suspended)
    items = _items(returned)
    if items is None or len(items) != len(suspended) or any(task not in items for task in suspended):
        raise _error("resume order", policy, returned, "the suspended tasks, each once")
    return items


def _distinct(axis: str, policy: Policy[Any], returned: Any, known: Collection[str], what: str) -> tuple[str, ...]:
    if not _are_distinct(returned, known):
        raise _error(axis, policy, returned, f"{what} of its view, none twice")
    return tuple(returned)


def _are_distinct(names: Any, known: Collection[str]) -> bool:
    items = _items(names)
    return (
        items is not None
        and set(map(type, items)) <= {str}
        and all(map(known.__contains__, items))
        and len(set(items)) == len(items)
    )


def _items(value: Any) -> tuple[Any, ...] | None:
    return tuple(value) if isinstance(value, tuple | list) else None


def _error(axis: str, policy: Policy[Any], returned: Any, wanted: str) -> PolicyError:
    shown = repr(returned)
    if len(shown) > _SHOWN_CHARACTERS:
        shown = f"{shown[:_SHOWN_CHARACTERS]}..."
    return PolicyError(f"{axis} policy {policy.name} returned {shown}; it must return {wanted}")

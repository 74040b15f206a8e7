"""Asking the policies: what one returns is checked here, and what is wrong with it is said with the policy's name."""

from __future__ import annotations

from collections.abc import Callable, Collection
from operator import attrgetter
from random import Random
from typing import Any

from emulator.policies.views import (
    AllocationDecision,
    AllocationPolicy,
    JobEvictionPolicy,
    JobEvictionView,
    JobSelectionPolicy,
    JobView,
    QueueView,
    TaskEvictionPolicy,
    TaskEvictionView,
)

_SHOWN_CHARACTERS = 200
_name = attrgetter("name")


class PolicyError(Exception):
    """A policy has returned something else than its Protocol says; the message names it."""


def allocate(policy: AllocationPolicy, queues: tuple[QueueView, ...], total: int) -> AllocationDecision:
    """Which queue is served next, and who may take back from whom.  Raises PolicyError."""
    decision = policy(queues, total)
    if not isinstance(decision, AllocationDecision):
        raise _error("allocation", policy, decision, "an AllocationDecision")
    names = {queue.name for queue in queues}
    _distinct("allocation", policy, decision.order, names, "as order names of queues")
    pairs = _items(decision.reclaim)
    if pairs is None or not all(_is_reclaim(pair, names) for pair in pairs):
        raise _error("allocation", policy, decision.reclaim, "as reclaim pairs of a queue and its victim queues")
    most = decision.reclaims_a_run
    if most is not None and (type(most) is not int or most < 1):
        raise _error("allocation", policy, most, "as reclaims_a_run None or a whole number from 1")
    return decision


def _is_reclaim(pair: Any, queues: Collection[str]) -> bool:
    items = _items(pair)
    return (
        items is not None and len(items) == 2 and _are_distinct(items[:1], queues) and _are_distinct(items[1], queues)
    )


def order_jobs(policy: JobSelectionPolicy, jobs: tuple[JobView, ...], now_ns: int) -> tuple[str, ...]:
    """The jobs of a queue, the first to be served first; those left out are not served.  Raises PolicyError."""
    return _distinct("job selection", policy, policy(jobs, now_ns), {job.name for job in jobs}, "names of jobs")


def choose_job(policy: JobEvictionPolicy, view: JobEvictionView, random: Random) -> str:
    """The victim job.  Raises PolicyError."""
    victim = policy(view, random)
    if type(victim) is not str or victim not in map(_name, view.jobs):
        raise _error("job eviction", policy, victim, "the name of one of the jobs")
    return victim


def order_tasks(policy: TaskEvictionPolicy, view: TaskEvictionView, random: Random) -> tuple[str, ...]:
    """The containers of the victim job, the first to go first; those left out are spared.  Raises PolicyError."""
    containers = {task.container for task in view.tasks}
    return _distinct("task eviction", policy, policy(view, random), containers, "containers of the tasks")


def _distinct(
    axis: str, policy: Callable[..., Any], returned: Any, known: Collection[str], what: str
) -> tuple[str, ...]:
    if not _are_distinct(returned, known):
        raise _error(axis, policy, returned, f"{what} of its view, none twice")
    return tuple(returned)


def _are_distinct(names: Any, known: Collection[str]) -> bool:
    items = _items(names)
    return (
        items is not None
        and all(type(item) is str and item in known for item in items)
        and (len(set(items)) == len(items))
    )


def _items(value: Any) -> tuple[Any, ...] | None:
    return tuple(value) if isinstance(value, tuple | list) else None


def _error(axis: str, policy: Callable[..., Any], returned: Any, wanted: str) -> PolicyError:
    module, name = getattr(policy, "__module__", "?"), getattr(policy, "__qualname__", repr(policy))
    shown = repr(returned)
    if len(shown) > _SHOWN_CHARACTERS:
        shown = f"{shown[:_SHOWN_CHARACTERS]}..."
    return PolicyError(f"{axis} policy {module}:{name} returned {shown}; it must return {wanted}")

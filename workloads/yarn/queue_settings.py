"""What else is set of each queue of the CapacityScheduler: its order, its priority, and limits inside it."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from workloads.yarn.queues import PREFIX
from workloads.yarn.settings import Settings, number, share, whole

_ORDERS = ("fifo", "fair", "utilization", "priority-utilization")
_UNLIMITED = 2**31 - 1
"""So many applications may always run at once: Hadoop's default."""
_USER, _WEIGHT = "user-settings.", ".weight"


def queue_settings(
    settings: Settings, leaves: Iterable[str], parents: Iterable[str], has_users: bool
) -> dict[str, dict[str, Any]]:
    """What is set of leaves and parents, by path; the root is the blank path.

    Limits of users only where users are known.  Raises ConfigError.
    """
    found = {path: {**_of_any(settings, path), **_of_leaf(settings, path, has_users)} for path in leaves}
    found |= {path: _of_any(settings, path) for path in ("", *parents)}
    return {path: each for path, each in found.items() if each}


def _of_any(settings: Settings, path: str) -> dict[str, Any]:
    of = _key(path)
    order = settings.take(f"{of}ordering-policy", "", str)
    priority = settings.take(f"{of}priority", 0, whole)
    most = settings.take(f"{PREFIX}max-parallel-apps", _UNLIMITED, whole)
    most = settings.take(f"{of}max-parallel-apps", most, whole)
    return {
        **({"max_parallel_apps": most} if most < _UNLIMITED else {}),
        **({"ordering_policy": order} if order in _ORDERS else {}),
        **({"priority": priority} if priority else {}),
    }


def _of_leaf(settings: Settings, path: str, has_users: bool) -> dict[str, Any]:
    of = _key(path)
    most = settings.take(f"{PREFIX}maximum-am-resource-percent", 0.1, share)
    limits: dict[str, Any] = {
        "maximum_am_resource_percent": settings.take(f"{of}maximum-am-resource-percent", most, share)
    }
    if not has_users:
        return limits
    factor = user_factor(settings, path)[1]
    least = settings.take(f"{PREFIX}minimum-user-limit-percent", 100.0, number)
    limits["minimum_user_limit_percent"] = settings.take(f"{of}minimum-user-limit-percent", least, number)
    if factor >= 0:
        limits["user_limit_factor"] = float(factor)
    weights = {
        each.name.removeprefix(f"{of}{_USER}").removesuffix(_WEIGHT): settings.take(each.name, 1.0, number)
        for each in settings.properties()
        if each.name.startswith(f"{of}{_USER}") and each.name.endswith(_WEIGHT)
    }
    return {**limits, **({"user_weights": weights} if weights else {})}


def user_factor(settings: Settings, path: str) -> tuple[str, Fraction]:
    """The property that says what one user of a queue may hold, and how many times the queue's capacity that is;
    negative: all that the queue may."""
    key = f"{_key(path)}user-limit-factor"
    key = key if key in settings else f"{PREFIX}user-limit-factor"
    return key, settings.take(key, Fraction(1), _signed)


def _key(path: str) -> str:
    return f"{PREFIX}root.{path}." if path else f"{PREFIX}root."


def _signed(text: str) -> Fraction:
    """A number, which may be negative.  Raises ValueError."""
    return -Fraction(number(text[1:])) if text.startswith("-") else Fraction(str(number(text)))

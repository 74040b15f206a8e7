"""Clusters whose containers have the sizes that their tasks ask for: what ``node_groups`` fills in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MEMORY, CPU = "memory_gb", "cpu"


def usual_containers(resources: Mapping[str, float], container_memory_gb: float) -> int:
    """Containers of the usual size, 1 ``cpu`` and ``container_memory_gb``, that fit on an empty node, at least 1."""
    fitting = [int(resources[CPU])] if CPU in resources else []
    fitting += [int(resources[MEMORY] / container_memory_gb)] if MEMORY in resources else []
    return max(1, min(fitting, default=1))


def filled_in(cluster: dict[Any, Any]) -> dict[Any, Any]:
    """The cluster as written, with the keys that its ``node_groups`` give.  What is no valid group is left alone: its
    own model says so."""
    groups = cluster["node_groups"]
    valid = [group for group in groups if _is_group(group)] if isinstance(groups, list | tuple) else []
    container_memory_gb = cluster.get("container_memory_gb", 1.0)
    if not _is_amount(container_memory_gb) or not container_memory_gb:
        container_memory_gb = 1.0
    nodes = sum(group["count"] for group in valid)
    fitting = [usual_containers(group["resources"], container_memory_gb) for group in valid]
    memories = [group["resources"][MEMORY] for group in valid if group["resources"].get(MEMORY)]
    filled: dict[str, Any] = {"nodes": max(1, nodes), "containers_per_node": min(10_000, max(fitting, default=1))}
    if memories:
        filled["memory_gb"] = float(max(memories))
    return {**filled, **cluster}


def _is_group(group: Any) -> bool:
    resources = group.get("resources") if isinstance(group, dict) else None
    amounts = resources.values() if isinstance(resources, dict) else ()
    return bool(amounts) and type(group.get("count")) is int and group["count"] > 0 and all(map(_is_amount, amounts))


def _is_amount(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= 1e9

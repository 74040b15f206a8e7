"""What an imported cluster says of an experiment, in the words of an experiment file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from emulator.vocabulary import Details, Frozen

LONGEST_NAME = 80
"""Characters of a name in an experiment file (``emulator.files.strict.is_name``)."""
LONGEST_S = 1e7
"""Seconds that a task runs which does not end by itself; its scheduler ends it before."""
MANY = 1_000_000
"""In place of no limit on a number."""
_KEPT = 71
USUAL = {
    "engine": "sim",
    "overheads": "none",
    "protocol": {"news": "at-once"},
    "scheduler": {"mechanism": "kill"},
}
"""The values that keys have on every site, unless they are given beside it."""


class Site(Frozen):
    """The parts of an experiment; what only the rules of its scheduler read, and the details of jobs, are values."""

    nodes: tuple[dict[str, Any], ...]
    """``cluster.node_groups``: one for each node, with its name."""
    jobs: tuple[dict[str, Any], ...]
    """``workload.jobs``"""
    allocation: dict[str, Any]
    """``scheduler.allocation``: name, queues and the data of its rules, as its options."""
    cluster: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Further keys of ``cluster`` that it decides.  ApplicationMasters take no containers, on any site."""
    usual: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Keys that may be given beside ``site``, and their values else; of others see ``USUAL``."""
    mechanisms: tuple[str, ...] = ()
    """The mechanisms that its rules know; none named: any."""


def job(of: Any, queue: str, submit_ns: int, details: Details, groups: tuple[Any, ...], **more: Any) -> dict[str, Any]:
    """A job with the name and the priority of ``of``: a pod, a workload or a job of Slurm."""
    told = {"name": of.name, "queue": queue, "submit_s": submit_ns / 1e9, "priority": of.priority}
    return {**told, "details": details, "groups": groups, **more}


def tasks(name: str, count: int, duration_ns: int | None, resources: dict[str, float]) -> dict[str, Any]:
    """A group of tasks that take so long; None: they do not end by themselves."""
    length_s = LONGEST_S if duration_ns is None else min(max(duration_ns / 1e9, 1e-6), LONGEST_S)
    return {"name": name, "count": count, "length_s": length_s, "resources": resources}


def shortened(value: Any) -> Any:
    """A plain value of a file, with names as an experiment has them."""
    if isinstance(value, dict):
        return {short(key): shortened(below) for key, below in value.items()}
    if isinstance(value, tuple):
        return tuple(map(shortened, value))
    return short(value) if isinstance(value, str) else value


def short(name: str) -> str:
    """A name that may be longer than an experiment file allows, as it is there; different names stay different."""
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[:_KEPT]}~{hashlib.sha256(name.encode()).hexdigest()[:8]}"


# ---- Kubernetes' amounts, in thousandths of our units ----

PODS = "pods"
"""Kubernetes' resource that counts pods."""
_BYTES = ("memory", "ephemeral-storage", "hugepages-")
"""Resources that are counted in bytes; others are in thousandths (cpu), or counted."""


def our_name(name: str) -> str:
    """``memory_gb`` of ``memory``."""
    return f"{name}_gb" if name.startswith(_BYTES) else name


def our_amount(name: str, amount: int, up: bool = False) -> float:
    """In our unit, with three decimals."""
    if name.startswith(_BYTES):
        thousandths = -(-(amount * 1000) >> 30) if up else amount * 1000 >> 30
        return thousandths / 1000
    return amount / 1000 if name == "cpu" else float(amount)


def asked(requests: Mapping[str, int]) -> dict[str, float]:
    """What one pod asks for: its requests, rounded down, and one of ``PODS``."""
    amounts = {our_name(name): our_amount(name, amount) for name, amount in requests.items() if name != PODS}
    return {**amounts, PODS: 1.0}

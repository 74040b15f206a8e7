"""What an imported cluster says of an experiment, in the words of an experiment file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from emulator.vocabulary import Frozen

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
"""Of every site: the values of keys that may be given beside it."""


class Site(Frozen):
    """The parts of an experiment; what only the rules of its scheduler read, and the details of jobs, are values."""

    nodes: tuple[dict[str, Any], ...]
    """``cluster.node_groups``: one for each node, with its name."""
    jobs: tuple[dict[str, Any], ...]
    """``workload.jobs``"""
    allocation: dict[str, Any]
    """``scheduler.allocation``: name, queues and the data of its rules, as its options."""
    words: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Options of the allocation that may be given beside ``site``, with their usual values."""
    cluster: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Further keys of ``cluster`` that it decides.  ApplicationMasters take no containers, on any site."""
    usual: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Keys that may be given beside ``site``, with the values that they have else, where these are not ``USUAL``."""
    mechanisms: tuple[str, ...] = ()
    """The mechanisms that its rules know; none named: any."""


def length_s(duration_ns: int | None) -> float:
    """What a task is to run that takes so long; None: it does not end by itself."""
    return LONGEST_S if duration_ns is None else min(max(duration_ns / 1e9, 1e-6), LONGEST_S)


def short(name: str) -> str:
    """A name that may be longer than an experiment file allows, as it is there; different names stay different."""
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[:_KEPT]}~{hashlib.sha256(name.encode()).hexdigest()[:8]}"

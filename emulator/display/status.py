"""A run at one instant, as engines report it and displays draw it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JobStatus:
    """One job's tasks, maps and reduces together; ``done + running + suspended + waiting == total``."""

    name: str
    queue: str
    state: str
    """``submitted`` (or not yet), ``running``, ``succeeded``, ``failed`` or ``killed``."""
    done: int
    running: int
    suspended: int
    waiting: int
    total: int

    @property
    def ended(self) -> bool:
        return self.state in ("succeeded", "failed", "killed")


@dataclass(frozen=True, slots=True)
class RunStatus:
    """A run at one instant."""

    emulated_ns: int
    real_s: float
    """Since the command was given."""
    time_scale: float
    phase: str
    """What the run is doing, in words: ``starting Ray``, ``running``, ``verifying the output`` ..."""
    jobs: tuple[JobStatus, ...]
    containers_total: int
    containers_used_by_queue: Mapping[str, int]
    containers_suspended: int
    """Stopped processes: they hold memory, but no container."""
    lag_p99_real_ms: float | None
    journal: Sequence[bytes] = ()
    """Encoded records that have come since the status before, under the live engine."""
    repeat: int = 1
    """Which one of the experiment."""

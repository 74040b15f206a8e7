"""The state of a run at one time, which engines report and displays show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from emulator.vocabulary import Frozen


class JobStatus(Frozen):
    """One job's tasks, maps and reduces together; ``done + running + suspended + waiting == total``."""

    name: str
    queue: str
    state: str
    """``submitted`` (also before its submission), ``running``, ``succeeded``, ``failed`` or ``killed``."""
    done: int
    running: int
    suspended: int
    waiting: int
    total: int

    @property
    def ended(self) -> bool:
        return self.state in ("succeeded", "failed", "killed")


class ClusterStatus(Frozen):
    """The cluster as known to the ResourceManager."""

    emulated_ns: int
    used_by_queue: Mapping[str, int]
    suspended: int
    job_states: Mapping[str, str]
    """By submitted job: ``submitted``, or how it ended."""


class RunStatus(Frozen):
    """The state of a run at one time."""

    emulated_ns: int
    real_s: float
    """Time since the start of the command."""
    time_scale: float
    phase: str
    """What the run does now: ``starting Ray``, ``running``, ``verifying the output`` ..."""
    jobs: tuple[JobStatus, ...]
    containers_total: int
    containers_used_by_queue: Mapping[str, int]
    containers_suspended: int
    """Stopped processes, which hold memory but no container."""
    lag_p99_real_ms: float | None
    journal: Sequence[bytes] = ()
    """Encoded records since the status before; live engine only."""
    repeat: int = 1
    """Number of the repeat."""

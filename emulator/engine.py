"""What an engine is given and what it gives back: the seam between ``natjam run`` and the two drivers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from emulator.config import Experiment
from emulator.core.job import JobSpec
from emulator.journal import Record
from emulator.live.clock import LagRecorder
from emulator.progress import RunStatus
from emulator.rundir import RunDirectory

OnStatus = Callable[[RunStatus], None]
OpenRecords = Callable[[], AbstractContextManager[Callable[[Record], None]]]
"""Opens the run's journal and gives the function that takes its records, in the order of time."""


@dataclass(frozen=True, slots=True)
class EngineResult:
    """What an engine gives back, its records apart."""

    machines: list[dict[str, Any]]
    """Computers it ran on: name, clock_offset_ns; none where it ran nothing on any."""
    real_s: float
    lag: LagRecorder | None
    """How late its timers were; None where time is virtual and none ever is."""
    output: dict[str, Any] | None
    """What verification found; None where the engine writes no output."""
    swap_bytes: int
    facts: dict[str, Any]
    """More for the summary."""


class Engine(Protocol):
    """Runs an experiment once and hands its records to what ``open_records`` gives.  Raises RunError, ConfigError."""

    def __call__(
        self,
        experiment: Experiment,
        jobs: tuple[JobSpec, ...],
        directory: RunDirectory,
        on_status: OnStatus,
        open_records: OpenRecords,
    ) -> EngineResult: ...

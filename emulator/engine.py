"""What an engine is given and what it gives back: the seam between ``natjam run`` and the two drivers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from emulator.core.job import JobSpec
from emulator.display.status import RunStatus
from emulator.experiment.model import Experiment
from emulator.records.journal import Record
from emulator.records.lag import LagRecorder
from emulator.records.run_directory import RunDirectory

if TYPE_CHECKING:
    import pyarrow

OnStatus = Callable[[RunStatus], None]


class RecordSink(Protocol):
    """Takes the records of a run, in the order of time.  Raises JournalError when they cannot be written."""

    def write(self, record: Record) -> None:
        """Take the next one."""
        ...

    def flush(self) -> None:
        """What was written so far is to outlive this process."""
        ...


OpenRecords = Callable[[], AbstractContextManager[RecordSink]]
"""Opens the run's journal."""


@dataclass(frozen=True, slots=True)
class EngineResult:
    """What an engine gives back, its records apart."""

    machines: list[dict[str, Any]]
    """Computers it ran on: name, clock_offset_ns; none where it ran nothing on any."""
    real_s: float | None
    lag: LagRecorder | None
    """How late its timers were; None where time is virtual and none ever is."""
    output_path: Path | None
    """Where the jobs' committed files are; None where the engine writes no output."""
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


class Aftermath(Protocol):
    """What is made of a run once its engine is done; ``analysis`` has the one there is."""

    def verify(self, jobs: tuple[JobSpec, ...], seed: int, output_path: Path) -> dict[str, Any]:
        """Recompute every committed file; what ``summary.json`` says of the output."""
        ...

    def why_no_pictures(self, attempts: int) -> str | None:
        """Why a run of so many attempts gets no pictures; None: it gets them."""
        ...

    def write_pictures(
        self,
        directory: Path,
        tables: Mapping[str, pyarrow.Table],
        cluster: Mapping[str, Any],
        summary: Mapping[str, Any],
    ) -> None:
        """Draw a run into its directory.  Raises RunError."""
        ...


class RunExperiment(Protocol):
    """Runs an experiment whole; returns what ``summary.json`` holds.  Raises ConfigError, RunError."""

    def __call__(self, experiment: Experiment, out_dir: Path, on_status: OnStatus) -> dict[str, Any]: ...

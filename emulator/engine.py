"""What an engine is given and what it gives back: the seam between ``natjam run`` and the two drivers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from emulator.core.job import JobSpec
from emulator.display.status import RunStatus
from emulator.experiment.model import Experiment
from emulator.records.gaps import Gap
from emulator.records.journal import Record
from emulator.records.lag import LagRecorder
from emulator.records.run_directory import RunDirectory
from emulator.resolved import Resolved
from emulator.vocabulary import Frozen

if TYPE_CHECKING:
    import pyarrow

OnStatus = Callable[[RunStatus], None]


class RecordSink(Protocol):
    """Takes the records of a run, in the order of time.  Raises JournalError when a record cannot be written."""

    def write(self, records: Sequence[Record]) -> None:
        """Take the next records."""
        ...

    def flush(self) -> None:
        """Write out all records so far, so that they outlive this process."""
        ...


OpenRecords = Callable[[], AbstractContextManager[RecordSink]]
"""Opens the run's journal."""


class EngineResult(Frozen):
    """What an engine returns, apart from its records."""

    machines: list[dict[str, Any]]
    """The computers it ran on (name, clock_offset_ns); empty: the run was simulated."""
    real_s: float | None
    lag: LagRecorder | None
    """How late its timers were; None in virtual time, where no timer is late."""
    output: str | None
    """Path or URL of the jobs' committed files; None where the engine writes no output."""
    facts: dict[str, Any]
    """Further entries of the summary."""
    gaps: Sequence[Gap] = ()
    """The longest times for which its processes have stood still."""
    end: Callable[[], object] = lambda: None
    """Ends what is left of the run, after its results have been written: it may take time, or fail."""


class Engine(Protocol):
    """Does one run, with its records to the sink from ``open_records``.  Raises RunError, ConfigError."""

    def __call__(
        self,
        run: Resolved,
        directory: RunDirectory,
        on_status: OnStatus,
        open_records: OpenRecords,
    ) -> EngineResult: ...


class Aftermath(Protocol):
    """What is made of a run after its engine has ended; implemented in ``analysis``."""

    def verify(
        self,
        jobs: tuple[JobSpec, ...],
        seed: int,
        output: str,
        digests: Mapping[tuple[str, int], str],
        cancelled: Collection[str],
    ) -> dict[str, Any]:
        """Recompute every committed file; returns the output section of ``summary.json``.

        ``digests``: of what programs had written when they were committed, by job and task.  ``cancelled``: the jobs
        that their scheduler has ended.
        """
        ...

    def why_no_pictures(self, attempts: int) -> str | None:
        """Why a run of so many attempts gets no pictures; None: it gets them."""
        ...

    def write_pictures(
        self,
        directory: Path,
        tables: Mapping[str, pyarrow.Table],
        run: Resolved,
        summary: Mapping[str, Any],
    ) -> None:
        """Write the pictures of a run into its directory.  Raises RunError."""
        ...


class RunExperiment(Protocol):
    """Runs all repeats of an experiment; returns the content of ``summary.json``.  Raises ConfigError, RunError."""

    def __call__(self, experiment: Experiment, out_dir: Path, on_status: OnStatus) -> dict[str, Any]: ...

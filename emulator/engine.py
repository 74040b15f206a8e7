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
from emulator.records.journal import JournalWriter, Record
from emulator.records.lag import LagRecorder
from emulator.records.run_directory import RunDirectory
from emulator.resolved import Resolved
from emulator.vocabulary import Frozen

if TYPE_CHECKING:
    import pyarrow

OnStatus = Callable[[RunStatus], None]


class Records:
    """Takes the records of a run, in the order of time, for whoever follows it and for its journal, if it has one."""

    def __init__(self, follow: Callable[[Sequence[Record]], object], journal: JournalWriter | None = None) -> None:
        self._follow = follow
        self._journal = journal

    def write(self, records: Sequence[Record]) -> None:
        """Take the next records.  Raises JournalError if one cannot be written, and what ``follow`` raises."""
        if self._journal is not None:
            self._journal.write(*records)
        self._follow(records)

    def flush(self) -> None:
        """Write out all records so far, so that they outlive this process."""
        if self._journal is not None:
            self._journal.flush()


OpenRecords = Callable[[], AbstractContextManager[Records]]
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


Engine = Callable[[Resolved, RunDirectory, OnStatus, OpenRecords], EngineResult]
"""Does one run, with its records to the one that ``OpenRecords`` opens.  Raises RunError, ConfigError."""


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


RunExperiment = Callable[[Experiment, Path, OnStatus], dict[str, Any]]
"""Runs all repeats of an experiment, into a directory; returns the content of ``summary.json``.  Raises ConfigError,
RunError."""

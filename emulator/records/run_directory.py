"""The run directory: what a run leaves for other tools to read.

Everything is written under a temporary name and renamed when whole, ``summary.json`` last: where it is, everything is.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet

from emulator.errors import ConfigError
from emulator.experiment.jobs_file import JOBS_NAME, encode_jobs
from emulator.experiment.model import Experiment, dump_experiment, dump_settings
from emulator.files.whole_files import held_directory, unfinished_path, write_json, written_whole
from emulator.records.history import History
from emulator.records.journal import JournalError, JournalHeader, JournalWriter
from emulator.records.parquet_tables import attempts_table, decisions_tables, jobs_table, operations_table, tasks_table
from emulator.records.summary import FAILED
from workloads.schema import JobEntry

EXPERIMENT_NAME, SUMMARY_NAME = "experiment.yaml", "summary.json"
MOST_JOBS_IN_YAML = 1000
"""More are written as JSON lines, which take a tenth of the time."""
_ROWS_A_PART = 50_000
"""Of a table: as many are in memory as columns at a time."""


class RunDirectory:
    """The directory of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path) -> RunDirectory:
        """Make the directory, or take an empty one.

        Raises:
            ConfigError: it holds something, is no directory, or cannot be written.
        """
        try:
            path.mkdir(parents=True, exist_ok=True)
            if any(path.iterdir()):
                raise ConfigError(f"{path}: is not empty; results go to a new or an empty directory")
            probe = unfinished_path(path / "probe")
            probe.touch()
            probe.unlink()
        except FileExistsError:
            raise ConfigError(f"{path}: is a file; results go to a new or an empty directory") from None
        except OSError as error:
            raise ConfigError(f"{path}: cannot be written ({error.strerror}); name another directory") from None
        return cls(path)

    @property
    def output_path(self) -> Path:
        """Where the jobs' committed files go, unless the experiment names a storage of its own."""
        return self.path / "output"

    @property
    def journal_path(self) -> Path:
        """The journal, once whole."""
        return self.path / "journal.jsonl.zst"

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """The run is going on; nobody else is to touch the directory.  Raises ConfigError where somebody is at it."""
        with held_directory(self.path, "the run is still going on"):
            yield

    def found_journal(self) -> Path | None:
        """The journal of a run that has ended in whatever way, whole or not; None where there is none."""
        paths = (self.journal_path, unfinished_path(self.journal_path))
        return next((path for path in paths if path.is_file()), None)

    def finished_summary(self) -> dict[str, Any] | None:
        """What ``summary.json`` holds, the last file that a run writes; None where the run did not come to its end."""
        try:
            found = json.loads((self.path / SUMMARY_NAME).read_bytes())
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) and found.get("state") != FAILED else None

    def write_experiment(self, experiment: Experiment) -> str:
        """Write ``experiment.yaml``, resolved; its hash, for the journal's header.

        The jobs of a large workload go into a file of their own, whose hash it has.  Raises RunError.
        """
        jobs = experiment.workload.jobs or ()
        text = dump_experiment(experiment) if len(jobs) <= MOST_JOBS_IN_YAML else self._write_jobs(experiment, jobs)
        with written_whole(self.path / EXPERIMENT_NAME) as unfinished:
            unfinished.write_text(text)
        return hashlib.sha256(text.encode()).hexdigest()

    def _write_jobs(self, experiment: Experiment, jobs: Sequence[JobEntry]) -> str:
        lines = encode_jobs(jobs)
        with written_whole(self.path / JOBS_NAME) as unfinished:
            unfinished.write_bytes(lines)
        return dump_settings(experiment, {"file": JOBS_NAME, "sha256": hashlib.sha256(lines).hexdigest()})

    @contextlib.contextmanager
    def journal(self, header: JournalHeader) -> Iterator[JournalWriter]:
        """The journal to write into.

        When the run fails inside, what was written stays readable as ``journal.jsonl.zst.unfinished``.  Raises
        JournalError when it cannot be written.
        """
        unfinished = unfinished_path(self.journal_path)
        with JournalWriter(unfinished, header) as writer:
            writer.flush()  # whose journal it is can be read from now on
            yield writer
        try:
            unfinished.replace(self.journal_path)
        except OSError as error:  # somebody has removed the directory
            raise JournalError(f"{self.journal_path}: cannot be written: {error.strerror}") from None

    def write_tables(self, history: History, keep: bool) -> dict[str, pyarrow.Table]:
        """Write ``jobs``, ``tasks``, ``attempts``, ``operations`` and ``decisions.parquet``.

        With ``keep``, returns what they hold: a large run has not the memory for all of them at once.  Raises RunError.
        """
        tables: dict[str, Callable[[], Iterator[pyarrow.Table]]] = {
            "jobs": lambda: _in_parts(jobs_table, history.jobs),
            "tasks": lambda: _in_parts(tasks_table, history.tasks),
            "attempts": lambda: _in_parts(attempts_table, history.attempts),
            "operations": lambda: _in_parts(operations_table, history.operations),
            "decisions": lambda: decisions_tables(history.decisions, history.attempts),
        }
        kept = {}
        for name, make in tables.items():
            with written_whole(self.path / f"{name}.parquet") as unfinished:
                parts = _write_parts(unfinished, make(), keep)
            if keep:
                kept[name] = pyarrow.concat_tables(parts)
        return kept

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write ``summary.json``: the last thing a run does.  Raises RunError."""
        write_json(self.path / SUMMARY_NAME, summary)


def _in_parts(make: Callable[[Sequence[Any]], pyarrow.Table], rows: Sequence[Any]) -> Iterator[pyarrow.Table]:
    for start in range(0, max(1, len(rows)), _ROWS_A_PART):
        yield make(rows[start : start + _ROWS_A_PART])


def _write_parts(path: Path, parts: Iterator[pyarrow.Table], keep: bool) -> list[pyarrow.Table]:
    """Write one after another, at least one, to one Parquet file; with ``keep``, all of them."""
    first = next(parts)
    kept = []
    with pyarrow.parquet.ParquetWriter(path, first.schema) as writer:
        for part in itertools.chain([first], parts):
            writer.write_table(part)
            if keep:
                kept.append(part)
    return kept

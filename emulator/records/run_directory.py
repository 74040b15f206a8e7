"""The run directory: the results of a run, for other tools to read.

Every file is written under a temporary name and renamed when complete.  ``summary.json`` comes last: if it exists, all
files do.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from emulator.errors import ConfigError
from emulator.experiment.jobs_file import JOBS_NAME, encode_jobs
from emulator.experiment.model import Experiment, dump_experiment, dump_settings
from emulator.files.whole_files import (
    claimed_directory,
    held_directory,
    unfinished_path,
    write_json,
    writing,
    written_whole,
)
from emulator.files.yaml_positions import read_document
from emulator.records.journal import JournalError, JournalHeader, JournalWriter
from emulator.records.summary import FAILED
from emulator.storage.tree_digest import file_digest
from workloads.schema import JobEntry

EXPERIMENT_NAME, SUMMARY_NAME, JOURNAL_NAME = "experiment.yaml", "summary.json", "journal.jsonl.zst"
LINK_NAME = "live"
"""A link to where a live run takes orders, as long as it runs."""
SUMMARY_DIGEST = "sha256"
"""The key of a summary that has the digest of all its others."""
MAX_JOBS_IN_YAML = 100
"""More jobs than this are written as JSON lines, which take a tenth of the time."""
SHARES_NAME = "shares.parquet"
"""The table of a fluid run: what every job held, and how long."""
_SUMMED = {".parquet", ".html", ".json", ".svg", ".yaml", ".jsonl", ".zst"}


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file.  Raises OSError."""
    return file_digest(path)[0].hex()


def summary_digest(summary: Mapping[str, Any]) -> str:
    """The SHA-256 of the values of a summary as it was read, all but the digest itself; the order of keys is the same
    to it, as are spaces."""
    values = {name: value for name, value in summary.items() if name != SUMMARY_DIGEST}
    return hashlib.sha256(msgspec.json.encode(values, order="sorted")).hexdigest()


def has_sha256(path: Path, sha256: str) -> bool:
    """Whether a regular file with these contents is there; a symbolic link to one is none."""
    try:
        return sha256_of(path) == sha256
    except OSError:
        return False


class RunDirectory:
    """The directory of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    @contextlib.contextmanager
    def claimed(cls, path: Path, name: str | None = None) -> Iterator[RunDirectory]:
        """A new or empty directory, held until the end of the block.

        What a stopped run of an experiment called ``name`` has left there is removed.  Raises ConfigError: the
        directory is not empty, cannot be written, or another process uses it.
        """
        directory = cls(path)
        with claimed_directory(path, is_continued=lambda: directory._was_stopped(name)):
            directory.clear()
            yield directory

    def _was_stopped(self, name: str | None) -> bool:
        """Whether a run of this experiment ended here without results, and nothing else is there."""
        journal = unfinished_path(self.journal_path).name
        files = {EXPERIMENT_NAME, JOBS_NAME, LINK_NAME, self.output_path.name, journal}
        if not {EXPERIMENT_NAME} <= {each.name for each in self.path.iterdir()} <= files:
            return False
        with contextlib.suppress(ConfigError):
            return read_document(self.path / EXPERIMENT_NAME).data.get("name") == name
        return False

    def clear(self) -> None:
        """Remove everything in it.  Raises OSError."""
        for each in self.path.iterdir():
            shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()

    @property
    def output_path(self) -> Path:
        """Where the jobs' committed files go, unless the experiment names a storage."""
        return self.path / "output"

    @property
    def journal_path(self) -> Path:
        """The complete journal."""
        return self.path / JOURNAL_NAME

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep others out of the directory while the run goes on.  Raises ConfigError if another process uses it."""
        with held_directory(self.path, "the run is still going on"):
            yield

    def found_journal(self) -> Path | None:
        """The journal of a run that has ended in any way, complete or not; None if there is none."""
        paths = (self.journal_path, unfinished_path(self.journal_path))
        return next((path for path in paths if path.is_file()), None)

    def finished_summary(self) -> dict[str, Any] | None:
        """The contents of ``summary.json``, the last file of a run; None if the run did not finish."""
        found = self.summary()
        return None if found is None or found.get("state") == FAILED else found

    def summary(self) -> dict[str, Any] | None:
        """The contents of ``summary.json``, also of a run that did not finish; None if there is none."""
        try:
            found = json.loads((self.path / SUMMARY_NAME).read_bytes())
        except (OSError, ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None

    def write_experiment(self, experiment: Experiment) -> str:
        """Write ``experiment.yaml``, resolved.  Returns its hash, for the journal's header.

        The jobs of a large workload go into a separate file, whose hash it has.  Raises RunError.
        """
        jobs = experiment.workload.jobs or ()
        text = dump_experiment(experiment) if len(jobs) <= MAX_JOBS_IN_YAML else self._write_jobs(experiment, jobs)
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

        If the run fails inside, the part written so far stays as ``journal.jsonl.zst.unfinished`` and can be read.
        Raises JournalError if it cannot be written.
        """
        unfinished = unfinished_path(self.journal_path)
        with JournalWriter(unfinished, header) as writer:
            writer.flush()  # from now on the header can be read
            yield writer
        with writing(self.journal_path, JournalError):  # the directory may have been removed by somebody
            unfinished.replace(self.journal_path)

    def digests(self) -> dict[str, str]:
        """The SHA-256 of each finished file but the summary, by its name; without what others have put there and this
        user cannot read."""
        found: dict[str, str] = {}
        for name in sorted(self.summed()):
            with contextlib.suppress(OSError):
                found[name] = sha256_of(self.path / name)
        return found

    def summed(self) -> set[str]:
        """The names of the files that have a digest in the summary."""
        found = (file.name for file in self.path.glob("[!.]*") if file.suffix in _SUMMED and file.is_file())
        return {name for name in found if name != SUMMARY_NAME}

    def write_summary(self, summary: Mapping[str, Any]) -> dict[str, Any]:
        """Write ``summary.json``, the last file of a run; returns its content, which has its own digest at the end.

        Raises RunError.
        """
        read_again = msgspec.json.decode(json.dumps(summary, allow_nan=False))
        whole = {**summary, SUMMARY_DIGEST: summary_digest(read_again)}
        write_json(self.path / SUMMARY_NAME, whole)
        return whole

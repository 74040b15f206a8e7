"""The content of a run directory, for tests of any engine."""

from __future__ import annotations

import glob
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet

from emulator.core.machine import StateMachine
from emulator.experiment.load import load_experiment
from emulator.records.journal import Record
from emulator.records.replay import whole_records
from emulator.resolved import make_machine, resolve


def matching(directory: Path, pattern: str) -> list[Path]:
    """What matches below a directory; unlike ``Path.glob`` it bears that a folder is removed meanwhile."""
    return [directory / found for found in glob.glob(pattern, root_dir=directory)]


class RunResults:
    """The run directory ``out``."""

    def __init__(self, out: Path) -> None:
        self.out = out

    def committed(self, job: str) -> int:
        """Number of the job's output files."""
        return len(matching(self.out / "output" / job, "part-*"))

    @property
    def summary(self) -> dict[str, Any]:
        """The content of ``summary.json``."""
        return json.loads((self.out / "summary.json").read_text())

    def table(self, name: str) -> list[dict[str, Any]]:
        """Rows of a Parquet file."""
        return pyarrow.parquet.read_table(self.out / f"{name}.parquet").to_pylist()

    def records(self) -> list[Record]:
        """The records of the journal."""
        experiment = load_experiment(self.out / "experiment.yaml")
        return list(whole_records(self.out / "journal.jsonl.zst", resolve(experiment)))

    def machine(self, address: str) -> StateMachine:
        """A new machine like the run's, from the resolved experiment."""
        run = resolve(load_experiment(self.out / "experiment.yaml"))
        return make_machine(address, run.settings, run.jobs_by_name)


def job_of(summary: Mapping[str, Any], name: str) -> dict[str, Any]:
    """One job's entry of a summary."""
    return next(job for job in summary["jobs"] if job["name"] == name)

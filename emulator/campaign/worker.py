"""The work of a worker process of a campaign: runs, one after another, each into its own directory."""

from __future__ import annotations

import contextlib
import shutil
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from emulator.campaign.directory import keep_digest
from emulator.engine import OnStatus, RunExperiment
from emulator.errors import NatjamError
from emulator.experiment.model import Experiment
from emulator.records.run_directory import SUMMARY_NAME, sha256_of
from emulator.records.summary import failures

FAILURE_NAME = "failure.txt"
"""A file in the directory of a run that did not finish; it says why."""


@dataclass(frozen=True, slots=True)
class RunTask:
    """A run to be made."""

    name: str
    experiment: Experiment
    directory: Path
    run: RunExperiment
    """Makes the run; a function that every process of a campaign can import."""
    inputs_sha256: str
    """The digest of what the experiment reads."""
    campaign: Path | None = None
    """Where the digest of what was made is kept at once; None: the outcome has it for who keeps it."""


@dataclass(frozen=True, slots=True)
class MadeRun:
    """A run that was made."""

    name: str
    failure: str | None
    """Why it counts as failed: a job failed, its output differs, or it did not finish.  None: it succeeded."""
    real_s: float
    is_broken: bool = False
    """Whether it did not finish."""
    summary_sha256: str | None = None
    """The digest of the ``summary.json`` that it left; None: it left none, or the digest is kept already."""


def run_batch(batch: Sequence[RunTask]) -> list[MadeRun]:
    """Make some runs."""
    return [run_one(task, lambda status: None) for task in batch]


def run_one(task: RunTask, on_status: OnStatus) -> MadeRun:
    """Make one run, after removing what is left of an earlier one.  Raises nothing but interrupts."""
    began_real_s, is_broken = time.monotonic(), True
    shutil.rmtree(task.directory, ignore_errors=True)
    try:
        summary = task.run(task.experiment, task.directory, on_status)
        failure, is_broken = "; ".join(failures(summary)) or None, False
    except NatjamError as error:
        failure = error.message
        _note(task, failure)
    except Exception as error:  # our own fault in one run must not stop the other runs
        failure = f"{type(error).__name__}: {error}"
        _note(task, traceback.format_exc())
    summary_sha256 = None
    with contextlib.suppress(OSError):
        summary_sha256 = sha256_of(task.directory / SUMMARY_NAME)
    if summary_sha256 is not None and task.campaign is not None:
        try:
            keep_digest(task.campaign, task.name, summary_sha256, task.inputs_sha256)
        except NatjamError as error:
            failure = failure or error.message
        summary_sha256 = None
    return MadeRun(task.name, failure, time.monotonic() - began_real_s, is_broken, summary_sha256)


def _note(task: RunTask, text: str) -> None:
    with contextlib.suppress(OSError):
        task.directory.mkdir(parents=True, exist_ok=True)
        (task.directory / FAILURE_NAME).write_text(text.rstrip() + "\n")

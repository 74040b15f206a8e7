"""Runs a campaign: simulated runs on all cores, live runs one at a time; finished runs are not repeated.

Theory of operation
-------------------
A run is done when its ``summary.json`` exists, which is written last and atomically.  Before it is taken it is
compared with the plan and with its digest (``emulator.campaign.directory``); else it is set aside and made again.  So a
campaign can be stopped at any time and in any way: the next call makes the runs that are not done, and repeats
unfinished ones from their start.  Runs are seeded, so the results equal those of a campaign that was never stopped.
A run that fails is kept and reported.  The next call tries it again, unless it finished.  After a run that did not
finish, further runs of its variant would fail too, and are left out unless the campaign is to keep going.

Simulations are spread over workers (``emulator.campaign.spread``): processes on this machine, or a Ray cluster if
``RAY_ADDRESS`` names one.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import pyarrow
import pyarrow.parquet

from emulator.campaign.directory import TABLE_NAME, CampaignDirectory, PlannedRun, keep_digest
from emulator.campaign.spread import ProcessWorkers, Workers, spread
from emulator.campaign.worker import MadeRun, RunTask, run_batch, run_one
from emulator.display.status import RunStatus
from emulator.display.work_display import WorkStatus
from emulator.engine import RunExperiment
from emulator.files.whole_files import written_whole
from emulator.records.measures import figure_of
from emulator.records.parquet_tables import type_of
from emulator.records.run_directory import sha256_of
from emulator.records.summary import JOB_COLUMNS
from emulator.records.summary import failures as failures_of
from emulator.vocabulary import counted

_MANY_RUNS = 1000
"""To check so many that were made before takes seconds."""


GoesOn = Callable[[Sequence[PlannedRun], Mapping[str, str]], bool]
"""Called a few times a second with the runs that are made, and why some failed; whether to make the others, too."""


@dataclass(frozen=True, slots=True)
class CampaignResult:
    """A finished campaign, or one that was stopped."""

    directory: CampaignDirectory
    runs: tuple[PlannedRun, ...]
    """Those that are made."""
    found_done: int
    """Runs that had been made before."""
    set_aside: dict[str, str]
    """By name of a run, why what lay there was not taken; it was made again."""
    failures: dict[str, str]
    """By name of a run, why it counts as failed."""
    left_out: int = 0
    """Runs that were not made because one of their variant did not finish."""

    def summary(self, run: PlannedRun) -> dict[str, Any] | None:
        """The contents of the run's ``summary.json``; None if the run did not finish."""
        return self.directory.summary(run)


def run_campaign(
    name: str,
    runs: Sequence[PlannedRun],
    directory: CampaignDirectory,
    run_experiment: RunExperiment,
    on_status: Callable[[WorkStatus], None],
    slots: int | None = None,
    goes_on: GoesOn = lambda runs, failed: True,
    keep_going: bool = True,
) -> CampaignResult:
    """Make all runs that are not done yet, and the table of all runs.

    Args:
        name: of the campaign.
        runs: with unique names.
        directory: new, or that of the same campaign, which is then continued.  The caller holds it, until what it
            makes of the results is written too.
        run_experiment: makes one run; a function that worker processes can import.
        on_status: called a few times a second.
        slots: simulations at a time; None: one for each core of this machine or of the Ray cluster.
        goes_on: whether to make more simulations; those that were not made are left for another call.
        keep_going: whether to make further runs of a variant when one did not finish.

    Raises:
        ConfigError: the directory holds runs of other experiments.
        RunError: the workers cannot be started or have died.
    """
    progress = _Progress(len(runs), on_status)
    if len(runs) >= _MANY_RUNS:
        progress.show("checking what was made before")
    to_make = directory.take_plan(name, runs)
    progress.found_done = len(runs) - len(to_make)
    progress.time_anew()
    if directory.set_aside:
        progress.show(f"set aside {len(directory.set_aside)} runs that are not as they were made")
    simulated = [run for run in to_make if run.experiment.engine != "live"]
    not_made = {run.name: run for run in to_make}
    broken: set[str] = set()

    def ended(outcome: MadeRun) -> None:
        run = not_made.pop(outcome.name)
        if outcome.is_broken and not keep_going:
            broken.add(run.variant)
        progress.ended(outcome)

    if simulated:
        progress.show("starting workers")
        with _workers(slots, run_experiment.__module__) as workers:
            tasks = [_task(directory, run, run_experiment) for run in simulated]
            for outcomes in spread(tasks, workers, lambda task: not_made[task.name].variant not in broken):
                is_first = len(not_made) == len(to_make)
                for outcome in outcomes:
                    ended(outcome)
                if is_first and outcomes:
                    progress.time_anew()  # the time until now was that of starting the workers
                progress.show("simulating")
                if not goes_on([run for run in runs if run.name not in not_made], progress.failures):
                    break
    progress.time_anew()
    live = [run for run in to_make if run.experiment.engine == "live"]
    with _ray() if len(live) > 1 else contextlib.nullcontext():
        for run in live:
            if run.variant not in broken:
                progress.began(run.name)
                ended(run_one(_task(directory, run, run_experiment), progress.show_live))
    progress.show("writing the table")
    made = tuple(run for run in runs if run.name not in not_made)
    failures = write_table(directory, made, progress.failures)
    left_out = sum(run.variant in broken for run in not_made.values())
    return CampaignResult(directory, made, len(runs) - len(to_make), directory.set_aside, failures, left_out)


def _task(directory: CampaignDirectory, run: PlannedRun, run_experiment: RunExperiment) -> RunTask:
    inputs = directory.inputs.sha256(run.experiment)
    return RunTask(run.name, run.experiment, directory.run_path(run), run_experiment, inputs, directory.path)


@contextlib.contextmanager
def _workers(slots: int | None, needed: str) -> Iterator[Workers[RunTask, MadeRun]]:
    address = os.environ.get("RAY_ADDRESS")
    if address:
        from emulator.campaign.ray_workers import RayWorkers

        with RayWorkers(address) as workers:
            yield workers
    else:
        with ProcessWorkers(
            run_batch, slots, preloaded=[run_batch.__module__, "emulator.sim.session", needed]
        ) as workers:
            yield workers


def _ray() -> AbstractContextManager[None]:
    from emulator.live.session.ray_runtime import ray_for_runs

    return ray_for_runs()


class _Progress:
    """Counts runs, and estimates the time left from the runs so far."""

    def __init__(self, total: int, on_status: Callable[[WorkStatus], None]) -> None:
        self.failures: dict[str, str] = {}
        self.found_done = 0
        """Runs that were made before."""
        self._total = total
        self._on_status = on_status
        self._made = self._made_before = 0
        self._began_real_s = time.monotonic()
        """Start of the runs after the first ``_made_before`` ones; the time left is estimated from them."""
        self._run = ""
        self._run_began_real_s = 0.0

    def time_anew(self) -> None:
        """Start the estimate again: the runs to come take other times than what came before."""
        self._made_before, self._began_real_s = self._made, time.monotonic()

    def began(self, name: str) -> None:
        """A live run begins."""
        self._run, self._run_began_real_s = name, time.monotonic()

    def ended(self, outcome: MadeRun) -> None:
        """A run has ended."""
        self._made += 1
        if outcome.failure is not None:
            self.failures[outcome.name] = outcome.failure

    def show_live(self, status: RunStatus) -> None:
        """Show the state of the current live run."""
        self.show(self._run, live=status)

    def show(self, phase: str, live: RunStatus | None = None) -> None:
        """Show the state of the campaign."""
        done, failed = self.found_done + self._made, len(self.failures)
        counts = f"{done} of {counted(self._total, 'run')}" + (f", {failed} failed" if failed else "")
        share = done / self._total if self._total else 1.0
        self._on_status(WorkStatus(phase, share, self._left_real_s(live is not None), counts, live))

    def _left_real_s(self, in_a_run: bool) -> float | None:
        left = self._total - self.found_done - self._made
        timed = self._made - self._made_before
        if not left or not timed:
            return None if left else 0.0
        now_real_s = time.monotonic()
        until_real_s = self._run_began_real_s if in_a_run else now_real_s
        a_run_real_s = (until_real_s - self._began_real_s) / timed
        under_way_real_s = now_real_s - until_real_s
        return max(0.0, a_run_real_s * left - min(under_way_real_s, a_run_real_s))


_STRING, _COUNT, _NUMBER = pyarrow.string(), pyarrow.int64(), pyarrow.float64()
_OF_EXPERIMENT = {"seed": _COUNT, "engine": _STRING, "time_scale": _NUMBER}
_OF_SUMMARY = {
    **dict.fromkeys(("makespan_s", "useful_s", "lost_s", "overhead_s", "energy_j"), _NUMBER),
    "wasted_fraction": _NUMBER,
    "utilization": _NUMBER,
    "disturbed": pyarrow.bool_(),
    "lag_p99_emulated_s": _NUMBER,
}
_RUN_COLUMNS = {"run": _STRING, "variant": _STRING, **_OF_EXPERIMENT, **_OF_SUMMARY}
_JOB_COLUMNS = [("job" if column.name == "name" else column.name, column) for column in JOB_COLUMNS]


def write_table(directory: CampaignDirectory, runs: Sequence[PlannedRun], failed: Mapping[str, str]) -> dict[str, str]:
    """Write the table.  Returns, by name, why runs count as failed, including runs made before.

    Columns are those above, one for each key of the grid, and ``failure``.  A run that did not finish has one
    row, without a job.

    Args:
        directory: of the campaign.
        runs: all runs of the campaign.
        failed: by name, why runs failed that were made by this call.

    Raises:
        RunError: the table cannot be written.
    """
    failures = dict(failed)
    factors = list(dict.fromkeys(key for run in runs for key in run.factors))
    kinds = dict(_RUN_COLUMNS)
    kinds |= {key: _factor_kind([run.factors.get(key) for run in runs]) for key in factors}
    kinds |= {name: type_of(column) for name, column in _JOB_COLUMNS}
    kinds["failure"] = _STRING
    columns: dict[str, list[Any]] = {name: [] for name in kinds}
    for run in sorted(runs, key=lambda run: (run.variant, run.experiment.seed)):
        summary = directory.summary(run) or {}
        if summary and run.name not in failures and (found := failures_of(summary)):
            failures[run.name] = "; ".join(found)
        cells: dict[str, Any] = {"run": run.name, "variant": run.variant}
        cells |= {name: getattr(run.experiment, name) for name in _OF_EXPERIMENT}
        cells |= {name: figure_of(summary, name) for name in _OF_SUMMARY}
        cells |= {key: _factor(run.factors.get(key), kinds[key]) for key in factors}
        cells["failure"] = failures.get(run.name)
        for job in summary.get("jobs") or [{}]:
            for name, value in {**cells, **{name: job.get(column.name) for name, column in _JOB_COLUMNS}}.items():
                columns[name].append(value)
    schema = pyarrow.schema(list(kinds.items()))
    with written_whole(directory.path / TABLE_NAME) as unfinished:
        pyarrow.parquet.write_table(pyarrow.table(columns, schema=schema), unfinished)
    keep_digest(directory.path, TABLE_NAME, sha256_of(directory.path / TABLE_NAME), "")
    return failures


def _factor_kind(values: Sequence[Any]) -> pyarrow.DataType:
    """The column type of a grid's key: numbers stay numbers, everything else is text."""
    found = {type(value) for value in values if value is not None}
    if found and found <= {bool}:
        return pyarrow.bool_()
    if found and found <= {int, float}:
        return pyarrow.int64() if found == {int} else pyarrow.float64()
    return _STRING


def _factor(value: Any, kind: pyarrow.DataType) -> Any:
    if value is None or isinstance(value, str) or kind != _STRING:
        return value
    return json.dumps(value)

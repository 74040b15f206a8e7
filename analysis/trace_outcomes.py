"""Runs of a trace compared with the outcomes that the trace recorded: ``natjam workload compare``.

A job's completion in the trace is its last finish minus its submission; evictions and lost work in the trace are those
of its own scheduler.  Jobs that did not end or did not succeed in the trace have no completion there.  Runs of a scaled
trace (``load``) have other numbers of tasks than the trace, so their columns should be compared only with each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

from rich.table import Table

from analysis.run_paths import find_runs, read_summary
from emulator.display.tables import ALWAYS, names, new_table, numbers, or_dash
from emulator.errors import ConfigError
from emulator.experiment.load import load_experiment
from emulator.experiment.model import Experiment
from emulator.records.run_directory import EXPERIMENT_NAME
from workloads.errors import Problems
from workloads.importers import open_entry
from workloads.record import WorkloadJob

_SECONDS = ",.1f"
MOST_JOBS = 60
"""Up to this many jobs are shown one by one."""


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """The outcome of one job; None: unknown."""

    completion_s: float | None
    evictions: int
    lost_s: float


@dataclass(frozen=True, slots=True)
class JobOutcomes:
    """The outcomes of the jobs that are in all runs."""

    own: Mapping[str, JobOutcome]
    """In the trace, by job."""
    runs: Mapping[str, Mapping[str, JobOutcome]]
    """By run and job."""
    priorities: Mapping[str, int | None]
    is_scaled: bool

    def to_json(self) -> dict[str, Any]:
        """All outcomes by job, in the order of the trace."""
        return {
            job: {
                "priority": self.priorities[job],
                "trace": asdict(own),
                "runs": {run: asdict(jobs[job]) for run, jobs in self.runs.items()},
            }
            for job, own in self.own.items()
        }


def trace_outcomes(paths: Sequence[Path]) -> JobOutcomes:
    """The outcomes of runs (directories of ``natjam run``), all of one trace.

    Raises:
        ConfigError: a path is not a finished run, a run's workload is not a trace, or the runs' traces differ.
        TraceError: the trace can no longer be read.
    """
    found = [run.path for run in find_runs(paths)]
    experiments = [load_experiment(path / EXPERIMENT_NAME) for path in found]
    entry = _trace_of(experiments[0], found[0])
    for path, experiment in zip(found, experiments, strict=True):
        other = _trace_of(experiment, path)
        if (other.path, other.format) != (entry.path, entry.format):
            raise ConfigError(f"{path}: runs {other.path}, and {found[0]} runs {entry.path}; name runs of one trace")
    runs = {_name(path, found): _of_run(path) for path in found}
    shared = set.intersection(*(set(jobs) for jobs in runs.values()))
    trace = open_entry(entry, Problems(entry.lenient))
    jobs = sorted((job for job in trace.jobs if job.job in shared), key=lambda job: job.submit_ns)
    return JobOutcomes(
        {job.job: _own(job) for job in jobs},
        runs,
        {job.job: job.priority for job in jobs},
        any(experiment.workload.trace and experiment.workload.trace.load for experiment in experiments),
    )


def _trace_of(experiment: Experiment, path: Path) -> Any:
    if experiment.workload.trace is None:
        raise ConfigError(f"{path}: its jobs are listed in the experiment; there is no trace to compare with")
    return experiment.workload.trace


def _name(path: Path, paths: Sequence[Path]) -> str:
    return path.name if [other.name for other in paths].count(path.name) == 1 else str(path)


def _of_run(path: Path) -> dict[str, JobOutcome]:
    return {
        job["name"]: JobOutcome(job["completion_s"], job["suspensions"] + job["kills"], job["lost_work_s"] or 0.0)
        for job in read_summary(path)["jobs"]
    }


def _own(job: WorkloadJob) -> JobOutcome:
    tasks = job.tasks or ()
    has_end = job.finish_ns is not None and job.outcome in (None, "succeeded")
    return JobOutcome(
        ((job.finish_ns or 0) - job.submit_ns) / 1e9 if has_end else None,
        sum(task.evictions or 0 for task in tasks),
        sum(task.lost_ns or 0 for task in tasks) / 1e9,
    )


# ---- tables ----


def tables(outcomes: JobOutcomes) -> Iterator[Table]:
    """Tables by priority if there are several, job by job if they are few, and for all jobs."""
    groups: dict[str, list[str]] = {}
    for job in sorted(outcomes.own, key=lambda job: outcomes.priorities[job] or 0):
        groups.setdefault(str(outcomes.priorities[job]), []).append(job)
    yield _grouped(outcomes, {**(groups if len(groups) > 1 else {}), "all": list(outcomes.own)})
    if len(outcomes.own) <= MOST_JOBS:
        yield _by_job(outcomes)


def _grouped(outcomes: JobOutcomes, groups: Mapping[str, Sequence[str]]) -> Table:
    columns = [*numbers("priority", "jobs", importance=ALWAYS), *names("")]
    columns += [*numbers("median completion", importance=4), *numbers("mean", "p90")]
    columns += numbers("evictions", "lost work, h", importance=3)
    table = new_table("by priority (emulated seconds; hours of lost work)", columns)
    for group, jobs in groups.items():
        for index, (side, found) in enumerate((("trace", outcomes.own), *outcomes.runs.items())):
            picked = [found[job] for job in jobs]
            times = [one.completion_s for one in picked if one.completion_s is not None]
            table.add_row(
                *((group, f"{len(jobs):,}") if not index else ("", "")),
                side,
                *(or_dash(of(times) if times else None, _SECONDS) for of in _MIDDLES),
                f"{sum(one.evictions for one in picked):,}",
                f"{sum(one.lost_s for one in picked) / 3600:,.1f}",
            )
        table.add_section()
    return table


def _by_job(outcomes: JobOutcomes) -> Table:
    title = "completion of each job, emulated seconds (divided by the trace's)"
    table = new_table(title, [*names("job"), *numbers("trace", *outcomes.runs, importance=ALWAYS)])
    for job, own in outcomes.own.items():
        cells = []
        for jobs in outcomes.runs.values():
            took_s = jobs[job].completion_s
            ratio = f" ({took_s / own.completion_s:.2f})" if took_s and own.completion_s else ""
            cells.append(f"{or_dash(took_s, _SECONDS)}{ratio}")
        table.add_row(job, or_dash(own.completion_s, _SECONDS), *cells)
    return table


def _p90(values: Sequence[float]) -> float:
    return sorted(values)[math.ceil(0.9 * len(values)) - 1]


_MIDDLES: tuple[Callable[[Sequence[float]], float], ...] = (median, fmean, _p90)

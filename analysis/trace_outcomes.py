"""Runs of a trace compared with the outcomes that the trace recorded: ``natjam workload compare``.

A job's completion in the trace is its last finish minus its submission; evictions and lost work in the trace are those
of its own scheduler.  Jobs that did not end or did not succeed in the trace have no completion there.  Runs of a scaled
trace (``load``) have other numbers of tasks than the trace, so their columns should be compared only with each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from rich.table import Table

from analysis.run_paths import find_runs, read_summary
from emulator.core.messages import JobState
from emulator.display.tables import ALWAYS, names, new_table, numbers, or_dash
from emulator.errors import ConfigError
from emulator.experiment.load import load_experiment
from emulator.experiment.model import Experiment
from emulator.records.history import JobRow
from emulator.records.measures import Job, evictions, known, total
from emulator.records.run_directory import EXPERIMENT_NAME
from emulator.records.summary import job_in_seconds
from emulator.vocabulary import Frozen
from workloads.errors import Problems
from workloads.importers import open_entry
from workloads.record import WorkloadJob

_SECONDS = ",.1f"
MAX_JOBS = 60
"""Up to this many jobs are shown one by one."""


class Comparison(Frozen):
    """The jobs that are in all runs, as rows of their jobs (``emulator.records.measures``)."""

    own: Mapping[str, Job]
    """As they went in the trace, by job, in its order."""
    runs: Mapping[str, Mapping[str, Job]]
    """By run and job."""
    priorities: Mapping[str, int | None]
    is_scaled: bool

    def to_json(self) -> dict[str, Any]:
        """All outcomes by job, in the order of the trace."""
        return {
            name: {
                "priority": self.priorities[name],
                "trace": _outcome_json(own),
                "runs": {run: _outcome_json(jobs[name]) for run, jobs in self.runs.items()},
            }
            for name, own in self.own.items()
        }


def _outcome_json(job: Job) -> dict[str, Any]:
    return {"completion_s": job["completion_s"], "evictions": evictions([job]), "lost_s": job["lost_work_s"]}


def trace_outcomes(paths: Sequence[Path]) -> Comparison:
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
    runs = {_name(path, found): {job["name"]: job for job in read_summary(path)["jobs"]} for path in found}
    shared = set.intersection(*(set(jobs) for jobs in runs.values()))
    trace = open_entry(entry, Problems(entry.lenient))
    jobs = sorted((job for job in trace.jobs if job.job in shared), key=lambda job: job.submit_ns)
    return Comparison(
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


def _own(job: WorkloadJob) -> Job:
    """A job as its trace recorded it.  It has a completion if it succeeded."""
    tasks = job.tasks or ()
    has_end = job.finish_ns is not None and job.outcome in (None, "succeeded")
    row = JobRow(
        name=job.job,
        queue=job.queue or "",
        submit_ns=job.submit_ns,
        start_ns=None,
        finish_ns=job.finish_ns if has_end else None,
        deadline_ns=None,
        state=JobState.SUCCEEDED if has_end else JobState.RUNNING,
        attempts=len(tasks),
        suspensions=0,
        kills=sum(task.evictions or 0 for task in tasks),
        useful_ns=0,
        lost_work_ns=sum(task.lost_ns or 0 for task in tasks),
    )
    return job_in_seconds(row)


# ---- tables ----


def tables(outcomes: Comparison) -> Iterator[Table]:
    """Tables by priority if there are several, job by job if they are few, and for all jobs."""
    groups: dict[str, list[str]] = {}
    for job in sorted(outcomes.own, key=lambda job: outcomes.priorities[job] or 0):
        groups.setdefault(str(outcomes.priorities[job]), []).append(job)
    yield _grouped(outcomes, {**(groups if len(groups) > 1 else {}), "all": list(outcomes.own)})
    if len(outcomes.own) <= MAX_JOBS:
        yield _by_job(outcomes)


def _grouped(outcomes: Comparison, groups: Mapping[str, Sequence[str]]) -> Table:
    columns = [*numbers("priority", "jobs", importance=ALWAYS), *names("")]
    columns += [*numbers("median completion", importance=4), *numbers("mean", "p90")]
    columns += numbers("evictions", "lost work, h", importance=3)
    table = new_table("by priority (emulated seconds; hours of lost work)", columns)
    for group, jobs in groups.items():
        for index, (side, found) in enumerate((("trace", outcomes.own), *outcomes.runs.items())):
            picked = [found[job] for job in jobs]
            times = known(picked, "completion_s")
            table.add_row(
                *((group, f"{len(jobs):,}") if not index else ("", "")),
                side,
                *(or_dash(of(times) if times else None, _SECONDS) for of in _MIDDLES),
                f"{evictions(picked):,}",
                f"{total(picked, 'lost_work_s') / 3600:,.1f}",
            )
        table.add_section()
    return table


def _by_job(outcomes: Comparison) -> Table:
    title = "completion of each job, emulated seconds (divided by the trace's)"
    table = new_table(title, [*names("job"), *numbers("trace", *outcomes.runs, importance=ALWAYS)])
    for job, own in outcomes.own.items():
        cells = []
        for jobs in outcomes.runs.values():
            took_s = jobs[job]["completion_s"]
            ratio = f" ({took_s / own['completion_s']:.2f})" if took_s and own["completion_s"] else ""
            cells.append(f"{or_dash(took_s, _SECONDS)}{ratio}")
        table.add_row(job, or_dash(own["completion_s"], _SECONDS), *cells)
    return table


def _p90(values: Sequence[float]) -> float:
    return sorted(values)[math.ceil(0.9 * len(values)) - 1]


_MIDDLES: tuple[Callable[[Sequence[float]], float], ...] = (median, fmean, _p90)

"""Runs that leave only their summary and what is needed to make the rest: for thousands of runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from emulator.core.job import JobSpec
from emulator.engine import OnStatus, RecordSink
from emulator.experiment.model import Experiment
from emulator.records.history import HistoryBuilder
from emulator.records.run_directory import EXPERIMENT_NAME, RunDirectory
from emulator.resolved import resolve
from emulator.run.results import summary_of
from emulator.run.run import Records, without_collector


def run_briefly(experiment: Experiment, out_dir: Path, on_status: OnStatus) -> dict[str, Any]:
    """Simulate ``experiment`` and write its summary; half of the time of a short run is for its other files.

    Of shares over time (engine ``fluid``) only ``summary.json`` is written; of other simulations also
    ``experiment.yaml``, from which ``natjam run`` makes the same run with all files.

    Raises:
        ConfigError: the directory cannot be used, or the workload cannot be read.
        RunError: the run did not finish; nothing is written then.
    """
    if experiment.engine == "fluid":
        summary = _shares_over_time(experiment)
        return RunDirectory.create(out_dir).write_summary(summary)
    with without_collector():
        summary = _simulated(experiment, out_dir, on_status)
    directory = RunDirectory.create(out_dir)
    directory.write_experiment(experiment)
    left_out = f"only the summary was kept; 'natjam run {out_dir / EXPERIMENT_NAME}' makes the run with all its files"
    summary |= {"left_out": left_out, "files": directory.digests()}
    return directory.write_summary(summary)


def _simulated(experiment: Experiment, out_dir: Path, on_status: OnStatus) -> dict[str, Any]:
    from emulator.sim.session import run_simulation  # here, so that each engine pays only for its own imports

    run = resolve(experiment)
    history = HistoryBuilder(run.jobs, run.own_evictions, bounded=not run.ends_circles)

    @contextmanager
    def open_records() -> Iterator[RecordSink]:
        yield Records(None, history)

    result = run_simulation(run, RunDirectory(out_dir), on_status, open_records)
    return summary_of(run, history.finish(), result, None)


def _shares_over_time(experiment: Experiment) -> dict[str, Any]:
    """The summary of a fluid run, with what every job held over time; for runs with many jobs neither that nor the
    jobs."""
    from emulator.fluid.session import MOST_PENALISED, simulated

    run = resolve(experiment)
    jobs = run.jobs
    history = HistoryBuilder(list(map(_without_tasks, jobs)))  # nothing happens to tasks here
    result, outcome = simulated(run, history.follow)
    summary = summary_of(run, history.finish(), result, None)
    if len(jobs) > MOST_PENALISED:
        return summary | {"jobs": [], "left_out": f"{len(jobs)} jobs"}
    summary["shares"] = [
        {
            "start_s": step.start_ns / 1e9,
            "end_s": step.end_ns / 1e9,
            "available": step.containers,
            "containers": dict(step.shares),
        }
        for step in outcome.steps
    ]
    return summary


def _without_tasks(job: JobSpec) -> JobSpec:
    facts = msgspec.structs.replace(job.facts, groups=())
    return msgspec.structs.replace(job, facts=facts, map_ns=(), reduce_ns=(), reduce_keys=())

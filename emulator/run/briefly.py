"""Runs that leave only ``summary.json``: for thousands of runs of shares over time (engine ``fluid``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from emulator.core.job import JobSpec
from emulator.engine import OnStatus
from emulator.experiment.model import Experiment
from emulator.fluid.session import MOST_PENALISED, simulated
from emulator.records.history import HistoryBuilder
from emulator.records.run_directory import RunDirectory
from emulator.resolved import resolve
from emulator.run.results import summary_of


def run_briefly(experiment: Experiment, out_dir: Path, on_status: OnStatus) -> dict[str, Any]:
    """Run ``experiment`` and write only ``summary.json``: for thousands of runs.

    The summary has what every job held over time; for runs with many jobs it has neither that nor the jobs.
    """
    run = resolve(experiment)
    jobs = run.jobs
    history = HistoryBuilder(list(map(_without_tasks, jobs)))  # nothing happens to tasks here
    result, outcome = simulated(run, history.add)
    summary = summary_of(run, history.finish(), result, None)
    if len(jobs) > MOST_PENALISED:
        summary |= {"jobs": [], "left_out": f"{len(jobs)} jobs"}
    else:
        summary["shares"] = [
            {
                "start_s": step.start_ns / 1e9,
                "end_s": step.end_ns / 1e9,
                "available": step.containers,
                "containers": dict(step.shares),
            }
            for step in outcome.steps
        ]
    RunDirectory.create(out_dir).write_summary(summary)
    return summary


def _without_tasks(job: JobSpec) -> JobSpec:
    facts = msgspec.structs.replace(job.facts, groups=())
    return msgspec.structs.replace(job, facts=facts, map_ns=(), reduce_ns=(), reduce_keys=())

"""The fluid engine for ``natjam run``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow.parquet
from msgspec.structs import replace

from emulator.core.decisions import PolicyError
from emulator.core.job import JobSpec
from emulator.core.messages import CLIENT, RESOURCE_MANAGER, JobFinished, JobState, SubmitJob
from emulator.display.status import JobStatus, RunStatus
from emulator.engine import EngineResult, OnStatus, OpenRecords
from emulator.errors import RunError
from emulator.files.whole_files import written_whole
from emulator.fluid.model import FluidResult, Stuck, simulate
from emulator.policies.capacity import Capacity
from emulator.policies.flex.penalties import LARGEST, METRICS, ONE, SUMMED, Metric, Objective, penalty
from emulator.policies.policy import AllocationRule
from emulator.policies.views import AllocationDecision, ClusterView, QueueView, ShareDecision
from emulator.records.journal import Record
from emulator.records.parquet_tables import table_of
from emulator.records.run_directory import SHARES_NAME, RunDirectory
from emulator.resolved import Resolved
from emulator.vocabulary import Frozen

MAX_PENALISED = 190
"""Runs with more jobs are not evaluated with FLEX's metrics, because that takes longer than the run."""


class ShareRow(Frozen):
    """Only in runs of the fluid engine: one job, and one interval in which its number of containers is the same."""

    job: str
    """Name of the job."""
    start_ns: int
    """When the interval begins."""
    end_ns: int
    """When it ends."""
    containers: int
    """How many it holds."""


def run_fluid(
    run: Resolved,
    directory: RunDirectory,
    on_status: OnStatus,
    open_records: OpenRecords,
) -> EngineResult:
    """Do ``run`` for ``natjam run``; see ``emulator.engine.Engine``."""
    on_status(_status(run))
    with open_records() as records:
        result, outcome = simulated(run, records.write)
    with written_whole(directory.path / SHARES_NAME) as unfinished:
        pyarrow.parquet.write_table(table_of(ShareRow, share_rows(outcome)), unfinished)
    return result


def simulated(run: Resolved, write: Callable[[Sequence[Record]], object]) -> tuple[EngineResult, FluidResult]:
    """Do ``run``; pass the records that its tables need (submissions and ends) to ``write``.

    Raises:
        RunError: jobs wait for ever, or the allocation does not give shares.
    """
    began_real_s = time.monotonic()
    scheduler, availability, jobs = run.settings.scheduler, run.settings.availability, run.jobs
    queues = [QueueView(queue.name, queue.rank, queue.capacity, queue.maximum, 0, 0) for queue in scheduler.queues]
    whole = Capacity([(0, run.containers)])
    capacity, forecast = (whole, whole) if availability is None else (availability.capacity, availability.forecast)
    took_real_ms: list[float] = []
    policy = replace(scheduler.allocation, function=_timed(scheduler.allocation.function, took_real_ms))
    try:
        outcome = simulate(jobs, queues, capacity, policy, forecast)
    except (Stuck, PolicyError) as error:
        raise RunError(str(error)) from error
    write(_records(jobs, outcome))
    useful_ns = sum(sum(job.map_ns) + sum(job.reduce_ns) for job in jobs)
    room_ns = sum(step.containers * (step.end_ns - step.start_ns) for step in outcome.steps)
    facts = {
        "work": {
            "useful_s": useful_ns / 1e9,
            "lost_s": 0.0,
            "wasted_fraction": 0.0,
            "utilization": useful_ns / room_ns if room_ns else None,
        },
        "overheads": {},
        "penalties": metrics_of(jobs, outcome.ends_ns, run.containers) if len(jobs) <= MAX_PENALISED else None,
        "decisions": {
            "n": len(took_real_ms),
            "real_ms": {"mean": sum(took_real_ms) / (len(took_real_ms) or 1), "max": max(took_real_ms, default=0.0)},
        },
    }
    return EngineResult([], time.monotonic() - began_real_s, None, None, facts), outcome


def _timed(function: AllocationRule, took_real_ms: list[float]) -> AllocationRule:
    """The same function; records how long each call takes."""

    def timed(view: ClusterView) -> AllocationDecision | ShareDecision:
        began_real_s = time.perf_counter()
        decision = function(view)
        took_real_ms.append((time.perf_counter() - began_real_s) * 1e3)
        return decision

    return timed


def share_rows(outcome: FluidResult) -> list[ShareRow]:
    """One row for each job and interval in which it holds containers."""
    return [ShareRow(job, step.start_ns, step.end_ns, share) for step in outcome.steps for job, share in step.shares]


def _records(jobs: Sequence[JobSpec], outcome: FluidResult) -> list[Record]:
    """The records of a client's messages, sent and received, in the order of time."""
    told: list[tuple[int, str, Any]] = [(job.submit_ns, RESOURCE_MANAGER, SubmitJob(job.facts)) for job in jobs]
    told += [
        (end_ns, CLIENT, JobFinished(name, JobState.SUCCEEDED, end_ns)) for name, end_ns in outcome.ends_ns.items()
    ]
    told.sort(key=lambda entry: entry[:2])
    numbers = {CLIENT: 0, RESOURCE_MANAGER: 0}
    records = []
    for at_ns, actor, message in told:
        records.append(Record(at_ns, numbers[actor], actor, message, ()))
        numbers[actor] += 1
    return records


def _status(run: Resolved) -> RunStatus:
    waiting = tuple(JobStatus(job.name, job.queue, "submitted", 0, 0, 0, 0, 0) for job in run.jobs)
    return RunStatus(0, 0.0, run.experiment.time_scale, "sharing out", waiting, run.containers, {}, 0, None)


_FORMS = {
    (True, False): "sum",
    (True, True): "weighted_sum",
    (False, False): "largest",
    (False, True): "weighted_largest",
}


def metrics_of(jobs: Sequence[JobSpec], ends_ns: Mapping[str, int], containers: int) -> dict[str, dict[str, float]]:
    """The cost of all jobs' ends under every metric of FLEX's paper, whatever metric the allocation has used.

    By metric and form: ``sum``, ``weighted_sum``, ``largest``, ``weighted_largest``.  Seconds;
    stretch, the number of tardy jobs and the cost of agreements are plain numbers.
    """
    found: dict[str, dict[str, float]] = {}
    for name in METRICS:
        for (total, weighted), form in _FORMS.items():
            if (total and name in LARGEST) or (not total and name in SUMMED):
                continue
            metric = Metric(name, weighted, total)
            penalties = [penalty(metric, job.facts, job.submit_ns, alone_ns(job, containers), 0) for job in jobs]
            cost = Objective(penalties, metric.total).cost([ends_ns[job.name] for job in jobs])
            found.setdefault(name, {})[form] = cost / ONE / 1e9
    return found


def alone_ns(job: JobSpec, containers: int) -> int:
    """How long it takes alone on the cluster."""
    work_ns = sum(job.map_ns) + sum(job.reduce_ns)
    return work_ns // max(1, min(job.facts.most_containers, containers))

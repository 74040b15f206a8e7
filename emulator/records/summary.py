"""``summary.json``: the figures of a run, or of all its repeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from emulator.files.times import ns_to_seconds
from emulator.intervals import Spread, spread_of
from emulator.records.gaps import disturbances
from emulator.records.history import GroupRow, History, JobRow, OverheadTimes, WaitRow
from emulator.records.history.columns import Column, Mark, Unit, columns_of
from emulator.records.measures import (
    busy_share,
    deadline_facts,
    device_ns,
    ended_well,
    failed,
    sized_work_share,
    storage_facts,
    transactional_facts,
    wasted_share,
)
from emulator.resolved import Resolved
from emulator.vocabulary import counted

FINISHED, FAILED = "finished", "failed"
"""State of a run: whether all its jobs have ended."""
JOB_COLUMNS = tuple(column for column in columns_of(JobRow) if Mark.ONLY_IN_TABLE not in column.marks)
"""What a summary says of each job: these columns of its table."""
_GROUP_COLUMNS, _WAIT_COLUMNS = columns_of(GroupRow), columns_of(WaitRow)


def build_summary(
    history: History,
    run: Resolved,
    *,
    state: str = FINISHED,
    versions: Mapping[str, str],
    machines: Sequence[Mapping[str, Any]],
    real_s: float | None,
    lag: Mapping[str, Any],
    output: Mapping[str, Any] | None,
    times: OverheadTimes | None = None,
) -> dict[str, Any]:
    """The summary of one run.  Times are emulated seconds unless the name says real; None: there is no figure.

    Args:
        history: made from the run's journal; of its tables only the jobs and groups are used, which have the sums of
            their tasks and attempts; with an ``availability`` or sizes also its attempts.
        run: the run.
        state: ``FINISHED`` or ``FAILED``.
        versions: of natjam and of the libraries it uses.
        machines: one object each, with at least ``name`` and ``clock_offset_ns``.
        real_s: real duration of the run; None if not measured.
        lag: ``p50_real_ms``, ``p99_real_ms``, ``max_real_ms``, ``p99_emulated_s``.
        output: the result of verification; None if the engine writes no output.
        times: those of all operations, if the history has none.
    """
    makespan_ns, settings = makespan_of(history.jobs), run.settings
    overheads = (times or OverheadTimes(history.operations)).statistics(
        run.settings.overheads, run.experiment.time_scale
    )
    return {
        "name": run.experiment.name,
        "state": state,
        "engine": run.experiment.engine,
        "time_scale": run.experiment.time_scale,
        "seed": run.experiment.seed,
        "versions": dict(versions),
        "machines": [dict(machine) for machine in machines],
        "makespan_s": ns_to_seconds(makespan_ns),
        "real_s": real_s,
        "jobs": [job_in_seconds(row) for row in history.jobs],
        **({"groups": [_in_seconds(row, _GROUP_COLUMNS) for row in history.groups]} if history.groups else {}),
        **({"waits": [_in_seconds(row, _WAIT_COLUMNS) for row in history.waits]} if history.waits else {}),
        "response": _response(history.jobs),
        "deadlines": deadline_facts(history.jobs, run.counted_s),
        "overheads": overheads,
        "work": _work(history, run, makespan_ns),
        "storage": storage_facts(history.images, settings.tier, len(settings.nodes), makespan_ns),
        "energy_j": _energy_j(history, run, makespan_ns),
        "transactional": transactional_facts(history.attempts, run, _end_ns(history)),
        "swap_bytes": history.swapped_bytes,
        "checkpoint_bytes": history.checkpoint_bytes,
        "disturbed": bool(disturbances({"lag": lag, "overheads": overheads})),
        "lag": dict(lag),
        "output": None if output is None else dict(output),
    }


def makespan_of(jobs: Sequence[JobRow]) -> int | None:
    """From the first submission to the last finish; None while a job has not ended."""
    finishes_ns = [job.finish_ns for job in jobs if job.finish_ns is not None]
    if not jobs or len(finishes_ns) < len(jobs):
        return None
    return max(finishes_ns) - min(job.submit_ns for job in jobs)


def _end_ns(history: History) -> int:
    """The last instant at which a job or an attempt is known to have ended."""
    ends_ns = [row.finish_ns for row in history.jobs] + [row.ended_ns for row in history.attempts]
    return max((end_ns for end_ns in ends_ns if end_ns is not None), default=0)


def job_in_seconds(row: JobRow) -> dict[str, Any]:
    """A job as it is in ``summary.json``, and as ``emulator.records.measures`` measures it."""
    return _in_seconds(row, JOB_COLUMNS)


def _in_seconds(row: JobRow | GroupRow | WaitRow, columns: Sequence[Column]) -> dict[str, Any]:
    values = ((column, getattr(row, column.source)) for column in columns)
    return {each.name: ns_to_seconds(value) if each.unit is Unit.SECONDS else value for each, value in values}


def _response(jobs: Sequence[JobRow]) -> dict[str, float | None]:
    """Mean of the completion times, and that by the jobs' weights; None while a job has not ended."""
    times = [(row.weight_ppm, row.completion_ns) for row in jobs if row.completion_ns is not None]
    weights, all_ended = sum(weight for weight, _ in times), len(times) == len(jobs)
    weighted_ns = sum(weight * time_ns for weight, time_ns in times)
    return {
        "mean_s": sum(time_ns for _, time_ns in times) / len(times) / 1e9 if times and all_ended else None,
        "weighted_mean_s": weighted_ns / weights / 1e9 if weights and all_ended else None,
    }


def _work(history: History, run: Resolved, makespan_ns: int | None) -> dict[str, Any]:
    jobs = history.jobs
    useful_ns, lost_ns = sum(row.useful_ns for row in jobs), sum(row.lost_work_ns for row in jobs)
    overhead_ns = sum(row.overhead_ns for row in jobs)
    wasted_ns = lost_ns + overhead_ns
    return {
        "useful_s": ns_to_seconds(useful_ns),
        "lost_s": ns_to_seconds(lost_ns),
        "overhead_s": ns_to_seconds(overhead_ns),
        "overhead_fraction": overhead_ns / (useful_ns + wasted_ns) if useful_ns + wasted_ns else 0.0,
        "wasted_fraction": wasted_ns / (useful_ns + wasted_ns) if useful_ns + wasted_ns else 0.0,
        "wasted_of_capacity": wasted_share(history, run, makespan_ns),
        "utilization": busy_share(history, run, makespan_ns),
    }


def _energy_j(history: History, run: Resolved, makespan_ns: int | None) -> float | None:
    """Energy of all nodes until the last job has ended; tasks, dumps and restores count as busy, waits as idle."""
    if makespan_ns is None:
        return None
    nodes = len(run.settings.nodes)
    if run.settings.has_sizes:
        busy_machine_s = sized_work_share(history, run, makespan_ns) * nodes * makespan_ns / 1e9
    else:
        device_busy_ns = device_ns(history.images, run.settings.tier)
        busy_ns = sum(row.useful_ns + row.lost_work_ns for row in history.jobs) + device_busy_ns
        busy_machine_s = busy_ns / 1e9 * nodes / run.containers
    return run.experiment.cluster.power.energy_j(nodes, makespan_ns / 1e9, busy_machine_s)


# ---- repeats ----


def summarise_repeats(summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The summary of repeats: n, mean, sample standard deviation and 95% confidence interval of each metric.

    The interval is Student's.  With a single value, deviation and interval are None.  A metric leaves out repeats that
    have no figure for it.
    """
    by_repeat = [_metrics(summary) for summary in summaries]
    names = dict.fromkeys(name for found in by_repeat for name in found)
    spreads = {name: spread_of(found.get(name) for found in by_repeat) for name in names}
    disturbed = [summary["seed"] for summary in summaries if summary["disturbed"]]
    return {
        "repeats": len(summaries),
        "seeds": [summary["seed"] for summary in summaries],
        "disturbed": bool(disturbed),
        "disturbed_seeds": disturbed,
        "metrics": {name: spread_json(found) for name, found in spreads.items() if found},
    }


def spread_json(found: Spread) -> dict[str, Any]:
    """A spread as documents have it."""
    return {"n": found.n, "mean": found.mean, "sd": found.sd, "ci95_low": found.low, "ci95_high": found.high}


def _metrics(summary: Mapping[str, Any]) -> dict[str, float | None]:
    metrics: dict[str, float | None] = {
        f"jobs.{job['name']}.{name}": job[name]
        for job in summary["jobs"]
        for name in ("completion_s", "margin_s", "suspensions", "kills", "lost_work_s")
    }
    metrics["makespan_s"] = summary["makespan_s"]
    metrics["real_s"] = summary["real_s"]
    metrics |= {f"response.{name}": value for name, value in summary["response"].items()}
    metrics |= {f"deadlines.{name}": value for name, value in summary["deadlines"].items() if name != "by_hour"}
    metrics |= {f"work.{name}": value for name, value in summary["work"].items()}
    metrics |= {f"storage.{name}": value for name, value in summary["storage"].items()}
    metrics["energy_j"] = summary["energy_j"]
    metrics |= {f"transactional.{name}": value for name, value in (summary["transactional"] or {}).items()}
    metrics |= {f"overheads.{name}.mean": statistics["mean"] for name, statistics in summary["overheads"].items()}
    return {**metrics, "jobs_failed": failed(summary["jobs"])}


# ---- how a run ended ----


def failures(summary: Mapping[str, Any]) -> list[str]:
    """Why a finished run counts as failed: jobs that did not succeed, output that differs.  Empty: it succeeded."""
    found = [
        f"job {job['name']} {job['state']}{': ' + job['reason'] if job['reason'] else ''}"
        for job in summary.get("jobs", ())
        if not ended_well(job)
    ]
    output = summary.get("output")
    if output is not None and not output["verified"]:
        found.append(f"the output is not as it should be: {output['keys_lost']} keys lost, {wrong_files(output)}")
    return found


def wrong_files(output: Mapping[str, Any]) -> str:
    """What is wrong with the files of an output, with the first of those that should not be there."""
    extra = f" ({output['extra'][0]})" if output["extra"] else ""
    return (
        f"{output['keys_duplicated']} duplicated, {output['files_differing']} files differ,"
        f" {output['files_missing']} missing, {output['files_extra']} too many{extra}"
    )


def what_was_checked(output: Mapping[str, Any]) -> str:
    """What the files of a correct output were compared with; empty: nothing was compared."""
    programs, compared, given = (output.get(name, 0) for name in ("programs", "programs_compared", "files_given"))
    from_seed = output.get("files_expected", 0) - programs - given
    said = []
    if output["keys_expected"]:
        said.append(f"{output['keys_written']:,} keys, byte for byte as in an undisturbed run")
    elif from_seed:
        said.append(f"{counted(from_seed, 'file')}, byte for byte as in an undisturbed run")
    if compared:
        said.append(f"what {counted(compared, 'program')} wrote, unchanged since the commit")
    if given:
        said.append(f"{counted(given, 'file')} of programs, as the experiment says")
    return "; ".join(said)


def what_was_not_checked(output: Mapping[str, Any]) -> str:
    """What nothing is known of; empty if everything was compared with what it should be."""
    programs, compared = output.get("programs", 0), output.get("programs_compared", 0)
    said = []
    if programs > compared:
        said.append(f"what {counted(programs - compared, 'program')} wrote: there is no digest of it")
    if compared:
        most = "other files" if output.get("files_given") else "files"
        said.append(f"whether the programs' {most} are right: no sha256 is given for them")
    if cancelled := output.get("files_cancelled", 0):
        said.append(f"{counted(cancelled, 'file')} that cancelled jobs had not committed")
    return "; ".join(said)

"""Metrics of schedulers, computed from frames of ``analysis.load``: pure functions, with units in names.

Functions on frames of several runs distinguish them by ``run`` and ``repeat``.
"""

from __future__ import annotations

import numpy
from numpy.typing import ArrayLike, NDArray

from analysis.curves import Curve, at_work, known, steps
from analysis.frames import DataFrame, Series, pandas

RUN = ["run", "repeat"]
TAIL_PERCENTILES = (50, 90, 95, 99)
_SUCCEEDED = "succeeded"

Floats = NDArray[numpy.float64]


# ---- distributions ----


def jain_fairness(values: ArrayLike) -> float:
    """Jain's index of some shares: 1 if all are equal, 1/n if one has everything; NaN without values."""
    found = known(values)
    squares = len(found) * float(numpy.square(found).sum())
    return float(found.sum()) ** 2 / squares if squares else float("nan")


def tails(values: ArrayLike) -> dict[str, float]:
    """``p50``, ``p90``, ``p95``, ``p99`` and ``max``; NaN without values.  NaNs among the values are left out."""
    found = known(values)
    if not len(found):
        return {**{f"p{which}": float("nan") for which in TAIL_PERCENTILES}, "max": float("nan")}
    percentiles = numpy.percentile(found, TAIL_PERCENTILES)
    named = {f"p{which}": float(value) for which, value in zip(TAIL_PERCENTILES, percentiles, strict=True)}
    return {**named, "max": float(found.max())}


def cdf(values: ArrayLike) -> tuple[Floats, Floats]:
    """Sorted values, and for each the share of values at or below it."""
    found = numpy.sort(known(values))
    return found, numpy.arange(1, len(found) + 1) / max(1, len(found))


# ---- jobs ----


def job_metrics(jobs: DataFrame, tasks: DataFrame, containers: int | Series) -> DataFrame:
    """``jobs`` with more columns, one row for each job.

    * ``completion_s`` (already in ``jobs``): from submission to finish; sojourn or response time in other papers.
    * ``queueing_s``: from submission to the first work of its first task.
    * ``ideal_s``: its least possible time with all ``containers`` and no overheads.  This is the larger one of its
      longest map plus its longest other task, and all its work spread evenly.
    * ``stretch``: completion divided by ideal.
    * ``missed``: whether it was late or did not succeed; None without a deadline.
    * ``wasted_fraction``: lost work as a share of all work done.

    Args:
        containers: of the cluster, or a Series of them by (run, repeat).
    """
    keys = [*RUN, "job"]
    stages = tasks.assign(stage=numpy.where(tasks["kind"] == "map", "map", "other"))
    longest = stages.pivot_table(index=keys, columns="stage", values="length_s", aggfunc="max").reindex(
        columns=["map", "other"], fill_value=0.0
    )
    work_s = tasks.groupby(keys)["length_s"].sum()
    if not isinstance(containers, int):
        containers = containers.reindex(work_s.index.droplevel("job")).to_numpy()
    spread_s = work_s / containers
    ideal_s = numpy.maximum(longest.fillna(0.0).sum(axis=1), spread_s.reindex(longest.index)).rename("ideal_s")
    found = jobs.join(ideal_s, on=[*RUN, "job"])
    done_s = found["useful_s"] + found["lost_work_s"]
    return found.assign(
        queueing_s=found["start_s"] - found["submit_s"],
        stretch=found["completion_s"] / found["ideal_s"],
        missed=_missed(found),
        wasted_fraction=(found["lost_work_s"] / done_s).where(done_s > 0, 0.0),
    )


def _missed(jobs: DataFrame) -> Series:
    late = (jobs["margin_s"] < 0) | (jobs["state"] != _SUCCEEDED)
    return late.astype(object).where(jobs["deadline_s"].notna(), None)


def queue_metrics(jobs: DataFrame) -> DataFrame:
    """One row for each run, repeat and queue, from the frame of ``job_metrics``.

    Columns: jobs, failed, mean and tails of completion_s, mean of queueing_s and stretch, deadlines, missed,
    suspensions, kills, lost_work_s.
    """
    rows = []
    for (run, repeat, queue), mine in jobs.groupby([*RUN, "queue"], sort=False):
        completion = tails(mine["completion_s"])
        rows.append(
            {
                "run": run,
                "repeat": repeat,
                "queue": queue,
                "jobs": len(mine),
                "failed": int((mine["state"] != _SUCCEEDED).sum()),
                "completion_mean_s": float(mine["completion_s"].mean()),
                **{f"completion_{name}_s": value for name, value in completion.items()},
                "queueing_mean_s": float(mine["queueing_s"].mean()),
                "stretch_mean": float(mine["stretch"].mean()),
                "deadlines": int(mine["deadline_s"].notna().sum()),
                "missed": int(mine["missed"].dropna().astype(bool).sum()),
                **{name: int(mine[name].sum()) for name in ("suspensions", "kills")},
                "lost_work_s": float(mine["lost_work_s"].sum()),
            }
        )
    return pandas.DataFrame(rows)


# ---- runs ----


def fairness(jobs: DataFrame) -> Series:
    """Jain's index of the jobs' speeds (1 / stretch), by (run, repeat), from the frame of ``job_metrics``."""
    return (1 / jobs["stretch"]).groupby([jobs[key] for key in RUN]).agg(jain_fairness)


# ---- over time ----


def waiting_jobs(jobs: DataFrame) -> Curve:
    """Queue length of one run over time (seconds, count): submitted jobs without a task that has started work."""
    return steps(jobs["submit_s"], jobs["start_s"].fillna(jobs["finish_s"]))


def busy_containers(attempts: DataFrame, suspensions: DataFrame) -> Curve:
    """Containers of one run in which a process works, over time (seconds, count)."""
    stops = suspensions.merge(attempts[["container", "ended_s"]], on="container")
    return at_work(attempts["launched_s"], attempts["ended_s"], stops[["stopped_s", "resumed_s", "ended_s"]])

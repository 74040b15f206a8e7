"""Statistics over runs: means, deviations and intervals, and the paired comparison of jobs, by seed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy
from numpy.typing import ArrayLike

from analysis.curves import known
from analysis.frames import DataFrame, pandas
from emulator.intervals import Spread, half_of_interval, spread_of
from emulator.vocabulary import Frozen

DIFFERENCE_PERCENTILES = (1, 2, 5, 10, 25, 50, 75, 90, 95, 98, 99)
"""The percentiles of per-job differences that the papers quote, and some between."""


def spread(values: ArrayLike) -> Spread:
    """Mean, deviation and interval of values that are independent, one for each run; NaNs are left out.

    Raises ValueError if no value is left.
    """
    found = spread_of(known(values))
    if found is None:
        raise ValueError("no values")
    return found


def mean_interval(values: ArrayLike, comparisons: int = 1) -> tuple[float, float] | None:
    """Student's 95% interval of the mean of independent values; None for fewer than two.

    With several ``comparisons`` it is wider, by Bonferroni's rule: then all of that many intervals hold together.
    """
    found = known(values)
    if len(found) < 2:
        return None
    half = half_of_interval(float(found.std(ddof=1)), len(found), comparisons)
    return float(found.mean()) - half, float(found.mean()) + half


def pair_jobs(
    a: DataFrame, b: DataFrame, column: str = "completion_s", keys: Sequence[str] = ("repeat", "job", "queue")
) -> DataFrame:
    """The jobs in both frames (``jobs`` of ``analysis.load``), side by side.

    Jobs are paired by ``keys``.  Columns: the keys, a, b and difference = a - b, which is negative if ``a`` was sooner,
    as in the papers' figures.  Jobs without a value on one side are left out.
    """
    by = list(keys)
    found = a[[*by, column]].merge(b[[*by, column]], on=by, suffixes=("_a", "_b"), validate="one_to_one")
    found = found.rename(columns={f"{column}_a": "a", f"{column}_b": "b"}).dropna(subset=["a", "b"])
    return found.assign(difference=found["a"] - found["b"]).reset_index(drop=True)


class Difference(Frozen):
    """How paired jobs differ: ``a`` minus ``b``.

    Jobs of one run compete for the same containers, so they are not independent, and an interval over jobs would be
    far too narrow.  Runs of different seeds are independent: each gives one mean difference, and the interval is over
    these.
    """

    jobs: int
    """Pairs of jobs."""
    spread: Spread
    """Over the runs (pairs of runs of one seed): of the mean difference of each run's jobs."""
    percentiles: dict[int, float]
    """Percentiles of the jobs of all runs together."""
    a_lower: float
    """Share of jobs whose ``a`` is lower; the share of equal ones is ``1 - a_lower - b_lower``."""
    b_lower: float
    p_value: float | None
    """The p value of Student's paired test that the mean difference is 0; None for one run, or without deviation."""


def compare_pairs(differences: ArrayLike, runs: ArrayLike) -> Difference:
    """Describe paired differences of jobs; ``runs`` says for each to which run it belongs (its seed).

    Raises ValueError if there are none.
    """
    by_run = pandas.Series(numpy.asarray(differences, dtype=float)).groupby(numpy.asarray(runs)).mean().dropna()
    found, whole = known(differences), spread(by_run)
    values = numpy.percentile(found, DIFFERENCE_PERCENTILES)
    p_value = None
    if whole.sd:
        from scipy.special import stdtr  # here, because its import takes long

        t = whole.mean / whole.sd * math.sqrt(whole.n)
        p_value = 2 * float(stdtr(whole.n - 1, -abs(t)))
    return Difference(
        jobs=len(found),
        spread=whole,
        percentiles={which: float(value) for which, value in zip(DIFFERENCE_PERCENTILES, values, strict=True)},
        a_lower=float((found < 0).mean()),
        b_lower=float((found > 0).mean()),
        p_value=p_value,
    )

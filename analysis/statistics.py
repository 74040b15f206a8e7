"""Statistics over repeats and over jobs: means, deviations, bootstrap intervals, paired comparison of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

import numpy
from numpy.typing import ArrayLike

from analysis.curves import known
from analysis.frames import DataFrame

CONFIDENCE = 0.95
RESAMPLES = 2000
LEAST_PAIRS = 5
"""With fewer pairs of jobs there is no interval: resampling two pairs gives only 3 different means, four give 35."""
DIFFERENCE_PERCENTILES = (1, 2, 5, 10, 25, 50, 75, 90, 95, 98, 99)
"""The percentiles of per-job differences that the papers quote, and some between."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A summary of several values; deviation and interval are None for fewer than two."""

    n: int
    mean: float
    sd: float | None
    """Sample standard deviation."""
    low: float | None
    high: float | None
    """End of the 95% bootstrap interval of the mean."""


def spread(values: ArrayLike, seed: int = 0) -> Spread:
    """Mean, deviation and bootstrap interval, without NaNs.  Raises ValueError if no value is left."""
    found = known(values)
    if not len(found):
        raise ValueError("no values")
    mean = fmean(found)
    if len(found) == 1:
        return Spread(1, mean, None, None, None)
    return Spread(len(found), mean, stdev(map(float, found)), *bootstrap_mean(found, seed))


def bootstrap_mean(values: ArrayLike, seed: int = 0) -> tuple[float, float]:
    """The 95% interval of the mean by the percentile bootstrap; with the same ``seed`` always the same."""
    found = known(values)
    if not len(found):
        raise ValueError("no values")
    random = numpy.random.default_rng(seed)
    means = numpy.array([found[random.integers(0, len(found), len(found))].mean() for _ in range(RESAMPLES)])
    low, high = numpy.percentile(means, [50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)])
    return float(low), float(high)


def pair_jobs(
    a: DataFrame, b: DataFrame, column: str = "completion_s", keys: Sequence[str] = ("repeat", "name", "queue")
) -> DataFrame:
    """The jobs in both frames (``jobs`` of ``analysis.load``), side by side.

    Jobs are paired by ``keys``.  Columns: the keys, a, b and difference = a - b, which is negative if ``a`` was sooner,
    as in the papers' figures.  Jobs without a value on one side are left out.
    """
    by = list(keys)
    found = a[[*by, column]].merge(b[[*by, column]], on=by, suffixes=("_a", "_b"), validate="one_to_one")
    found = found.rename(columns={f"{column}_a": "a", f"{column}_b": "b"}).dropna(subset=["a", "b"])
    return found.assign(difference=found["a"] - found["b"]).reset_index(drop=True)


@dataclass(frozen=True, slots=True)
class Difference:
    """How paired jobs differ: ``a`` minus ``b``."""

    spread: Spread
    """It has no interval for fewer than ``LEAST_PAIRS`` pairs."""
    percentiles: dict[int, float]
    a_lower: float
    """Share of jobs whose ``a`` is lower; the share of equal ones is ``1 - a_lower - b_lower``."""
    b_lower: float
    p_value: float | None
    """Of Wilcoxon's signed-rank test that the differences are symmetric about 0; None if all are 0."""


def compare_pairs(differences: ArrayLike) -> Difference:
    """Describe paired differences.  Raises ValueError if there are none."""
    found = known(differences)
    whole = spread(found)
    if whole.n < LEAST_PAIRS:
        whole = replace(whole, low=None, high=None)
    values = numpy.percentile(found, DIFFERENCE_PERCENTILES)
    p_value = None
    if numpy.any(found != 0):
        from scipy.stats import wilcoxon  # here, because its import takes long

        p_value = float(wilcoxon(found)[1])  # type: ignore[index]
    return Difference(
        spread=whole,
        percentiles={which: float(value) for which, value in zip(DIFFERENCE_PERCENTILES, values, strict=True)},
        a_lower=float((found < 0).mean()),
        b_lower=float((found > 0).mean()),
        p_value=p_value,
    )

"""Statistics over repeats and over jobs: means, deviations, bootstrap intervals, jobs compared in pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy
from numpy.typing import ArrayLike

from analysis.curves import known
from analysis.frames import DataFrame

CONFIDENCE = 0.95
RESAMPLES = 2000
LEAST_PAIRS = 5
"""Fewer pairs of jobs have no interval: resampled, two have three means and four have 35, whatever they came from."""
DIFFERENCE_PERCENTILES = (1, 2, 5, 10, 25, 50, 75, 90, 95, 98, 99)
"""At which the papers quote the CDF of per-job differences, and those between."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Several values as one; deviation and interval are None for fewer than two."""

    n: int
    mean: float
    sd: float | None
    """Sample standard deviation."""
    low: float | None
    high: float | None
    """Of the 95% bootstrap interval of the mean."""


def spread(values: ArrayLike, seed: int = 0) -> Spread:
    """Mean, deviation and bootstrap interval.  NaNs are left out; raises ValueError when nothing is left."""
    found = known(values)
    if not len(found):
        raise ValueError("no values")
    mean = math.fsum(found) / len(found)
    if len(found) == 1:
        return Spread(1, mean, None, None, None)
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in found) / (len(found) - 1))
    low, high = bootstrap_mean(found, seed)
    return Spread(len(found), mean, sd, low, high)


def bootstrap_mean(values: ArrayLike, seed: int = 0) -> tuple[float, float]:
    """The 95% interval of the mean by the percentile bootstrap, drawn from ``seed``: the same each time."""
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
    """The jobs that both frames (``jobs`` of ``analysis.load``) have, side by side.

    Jobs are paired by ``keys``.  Columns: the keys, a, b and difference = a - b: negative where ``a`` was sooner, as
    the papers' figures have it.  Jobs without a value on either side are left out.
    """
    by = list(keys)
    found = a[[*by, column]].merge(b[[*by, column]], on=by, suffixes=("_a", "_b"), validate="one_to_one")
    found = found.rename(columns={f"{column}_a": "a", f"{column}_b": "b"}).dropna(subset=["a", "b"])
    return found.assign(difference=found["a"] - found["b"]).reset_index(drop=True)


@dataclass(frozen=True, slots=True)
class Difference:
    """How a number of paired jobs differ, ``a`` less ``b``."""

    spread: Spread
    """Without an interval for fewer than ``LEAST_PAIRS``."""
    percentiles: dict[int, float]
    a_lower: float
    """Share of jobs of which ``a`` is lower; those of which neither is are ``1 - a_lower - b_lower``."""
    b_lower: float
    p_value: float | None
    """Of Wilcoxon's signed-rank test that the differences lie about 0 evenly; None where all are 0."""


def compare_pairs(differences: ArrayLike, seed: int = 0) -> Difference:
    """Describe paired differences.  Raises ValueError when there are none."""
    found = known(differences)
    whole = spread(found, seed)
    if whole.n < LEAST_PAIRS:
        whole = replace(whole, low=None, high=None)
    values = numpy.percentile(found, DIFFERENCE_PERCENTILES)
    p_value = None
    if numpy.any(found != 0):
        from scipy.stats import wilcoxon  # here: it takes long to import

        p_value = float(wilcoxon(found)[1])  # type: ignore[index]
    return Difference(
        spread=whole,
        percentiles={which: float(value) for which, value in zip(DIFFERENCE_PERCENTILES, values, strict=True)},
        a_lower=float((found < 0).mean()),
        b_lower=float((found > 0).mean()),
        p_value=p_value,
    )


def share_below(values: ArrayLike, thresholds: Sequence[float]) -> dict[float, float]:
    """The share of values at or below each threshold, as in "40% of jobs at least 5 s earlier" (-5)."""
    found = known(values)
    return {threshold: float((found <= threshold).mean()) for threshold in thresholds}

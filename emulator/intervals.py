"""How sure a mean is."""

from __future__ import annotations

import math
from collections.abc import Iterable

from emulator.vocabulary import Frozen

CONFIDENCE = 0.95


def half_of_interval(deviation: float, count: int, comparisons: int = 1) -> float:
    """Half of Student's 95% interval of the mean of ``count`` independent values, two or more, with this standard
    deviation.

    With several ``comparisons`` it is wider, by Bonferroni's rule: then all of that many intervals hold together.
    """
    from scipy.special import stdtrit  # here, because its import takes long (scipy.stats three times as long)

    quantile = float(stdtrit(count - 1, 1 - (1 - CONFIDENCE) / 2 / max(1, comparisons)))
    return quantile * deviation / math.sqrt(count)


class Spread(Frozen):
    """A summary of several values; deviation and interval are None for fewer than two."""

    n: int
    mean: float
    sd: float | None
    """Sample standard deviation."""
    low: float | None
    high: float | None
    """End of Student's 95% interval of the mean."""


def spread_of(values: Iterable[float | None]) -> Spread | None:
    """Mean, deviation and interval of those values that are known, one for each run; None if none is."""
    found = [float(value) for value in values if value is not None]
    if not found:
        return None
    mean = math.fsum(found) / len(found)
    if len(found) == 1:
        return Spread(1, mean, None, None, None)
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in found) / (len(found) - 1))
    half = half_of_interval(sd, len(found))
    return Spread(len(found), mean, sd, mean - half, mean + half)

"""How sure a mean is."""

from __future__ import annotations

import math

CONFIDENCE = 0.95


def half_of_interval(deviation: float, count: int, comparisons: int = 1) -> float:
    """Half of Student's 95% interval of the mean of ``count`` independent values, two or more, with this standard
    deviation.

    With several ``comparisons`` it is wider, by Bonferroni's rule: then all of that many intervals hold together.
    """
    from scipy.special import stdtrit  # here, because its import takes long (scipy.stats three times as long)

    quantile = float(stdtrit(count - 1, 1 - (1 - CONFIDENCE) / 2 / max(1, comparisons)))
    return quantile * deviation / math.sqrt(count)

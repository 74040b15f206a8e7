"""Draws from distributions, made from ``Random.random()`` only: Python keeps the sequence of this method alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from random import Random
from statistics import NormalDist
from typing import TypeVar

T = TypeVar("T")

_STANDARD = NormalDist()
P95_STANDARD_DEVIATIONS = _STANDARD.inv_cdf(0.95)
"""The 95th percentile of a Normal distribution, in standard deviations above the mean."""
_LEAST = 2.0**-54
_MOST_LOG = 700.0
"""exp() of a larger number overflows."""


def normal(rng: Random, mean: float = 0.0, std: float = 1.0) -> float:
    """A draw from the Normal distribution."""
    return mean + std * _STANDARD.inv_cdf(max(rng.random(), _LEAST))


def lognormal(rng: Random, median: float, sigma: float) -> float:
    """A draw from the LogNormal distribution whose logarithm has standard deviation ``sigma``."""
    return math.exp(min(_MOST_LOG, normal(rng, math.log(median), sigma)))


def lognormal_of_mean(rng: Random, mean: float, std: float) -> float:
    """A draw from the LogNormal distribution with that mean and standard deviation; both above 0."""
    variance = math.log1p((std / mean) ** 2)
    return lognormal(rng, mean / math.exp(variance / 2), math.sqrt(variance))


def exponential(rng: Random, mean: float) -> float:
    """A draw from the exponential distribution."""
    return -mean * math.log1p(-rng.random())


def drawn_from(
    known: Sequence[T], count: int, over_ns: int, times_of: str, choices_of: str
) -> Iterator[tuple[str, int, T]]:
    """As many of ``known``, each any of them, at the times of a Poisson process of so many over this time: a name, the
    time, and which.  The last two arguments are seeds."""
    times, choices, now_ns = Random(times_of), Random(choices_of), 0.0
    for number in range(1, count + 1):
        now_ns += exponential(times, over_ns / count)
        yield f"drawn-{number}", round(now_ns), known[int(choices.random() * len(known))]

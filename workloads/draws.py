"""Draws from distributions, made from ``Random.random()`` only: Python keeps the sequence of this method alone."""

from __future__ import annotations

import math
import random
from random import Random
from statistics import NormalDist
from typing import TypeVar

from emulator.files.times import seconds_to_ns
from workloads.schema import UniformLengths

T = TypeVar("T")

_STANDARD = NormalDist()
P95_STANDARD_DEVIATIONS = _STANDARD.inv_cdf(0.95)
"""The 95th percentile of a Normal distribution, in standard deviations above the mean."""
_LEAST = 2.0**-54
_MAX_LOG = 700.0
"""exp() of a larger number overflows."""


def normal(rng: Random, mean: float = 0.0, std: float = 1.0) -> float:
    """A draw from the Normal distribution."""
    return mean + std * _STANDARD.inv_cdf(max(rng.random(), _LEAST))


def lognormal(rng: Random, median: float, sigma: float) -> float:
    """A draw from the LogNormal distribution whose logarithm has standard deviation ``sigma``."""
    return math.exp(min(_MAX_LOG, normal(rng, math.log(median), sigma)))


def lognormal_of_mean(rng: Random, mean: float, std: float) -> float:
    """A draw from the LogNormal distribution with that mean and standard deviation; both above 0."""
    variance = math.log1p((std / mean) ** 2)
    return lognormal(rng, mean / math.exp(variance / 2), math.sqrt(variance))


def exponential(rng: Random, mean: float) -> float:
    """A draw from the exponential distribution."""
    return -mean * math.log1p(-rng.random())


def lengths_ns(lengths: float | tuple[float, ...] | UniformLengths, count: int, key: str) -> tuple[int, ...]:
    """Lengths, in nanoseconds, of ``count`` tasks.

    Drawn lengths depend on ``key`` alone, never on other draws or on PYTHONHASHSEED.  So each job, and each kind of
    its tasks, needs a different key.
    """
    if isinstance(lengths, UniformLengths):
        return _uniform_ns(lengths, count, random.Random(key))
    cycle = [seconds_to_ns(length) for length in (lengths if isinstance(lengths, tuple) else (lengths,))]
    return tuple(cycle[index % len(cycle)] for index in range(count))


def key_count(length_ns: int, key_s: float) -> int:
    """Keys a reduce of this length walks, ``key_s`` emulated seconds apart: at least one."""
    return max(1, round(length_ns / seconds_to_ns(key_s)))


def _uniform_ns(lengths: UniformLengths, count: int, rng: random.Random) -> tuple[int, ...]:
    """Lengths on (a, b] x longest; one random task has the longest, and all others are shorter."""
    longest_ns = seconds_to_ns(lengths.longest)
    low_ns = int(lengths.uniform[0] * longest_ns)
    high_ns = max(low_ns + 1, min(longest_ns - 1, int(lengths.uniform[1] * longest_ns)))
    span_ns = high_ns - low_ns
    # Python promises to keep the sequence for a seed only for random().
    longest_index = int(rng.random() * count)
    drawn = [high_ns - min(span_ns - 1, int(rng.random() * span_ns)) for _ in range(count)]
    return tuple(longest_ns if index == longest_index else length for index, length in enumerate(drawn))

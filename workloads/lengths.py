"""Task lengths: lists that are cycled, and seeded draws, in whole nanoseconds."""

from __future__ import annotations

import random

from emulator.files.times import seconds_to_ns
from workloads.schema import UniformLengths


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

"""Scaled time: emulated nanoseconds on top of the machine's monotonic clock, and how late timers fire.

Arithmetic is exact (integers and a ratio), so that the same instants come out on every machine and however
long a run lasts; no clock is read here except by `ScaledClock.now_ns`.
"""

from __future__ import annotations

import time
from fractions import Fraction
from typing import TypedDict

_SUB_BITS = 4  # 16 buckets an octave: a percentile is at most 1/16 above the true one


class ScaledClock:
    """Maps real time to emulated time: ``emulated_ns = (real_ns - origin_real_ns) * scale``.

    `origin_real_ns` is the CLOCK_MONOTONIC instant of emulated time zero on this machine; `scale` is emulated
    seconds per real second.  A float scale means the decimal number it prints as (0.1 is a tenth).
    Raises ValueError if `scale` is not a positive finite number.
    """

    def __init__(self, origin_real_ns: int, scale: int | float | Fraction) -> None:
        try:
            ratio = scale if isinstance(scale, Fraction) else Fraction(str(scale))
        except (ValueError, ZeroDivisionError):
            raise ValueError(f"time scale must be a positive number, not {scale!r}") from None
        if ratio <= 0:
            raise ValueError(f"time scale must be above 0, not {scale!r}")
        self.origin_real_ns = origin_real_ns
        self.scale = ratio
        self._numerator, self._denominator = ratio.numerator, ratio.denominator

    def now_ns(self) -> int:
        """The emulated time now."""
        return self.to_emulated_ns(time.monotonic_ns())

    def to_emulated_ns(self, real_ns: int) -> int:
        """The emulated time at the real instant `real_ns`, rounded down."""
        return (real_ns - self.origin_real_ns) * self._numerator // self._denominator

    def to_real_ns(self, emulated_ns: int) -> int:
        """The first real instant at which emulated time has reached `emulated_ns`."""
        return self.origin_real_ns + self.to_real_duration_ns(emulated_ns)

    def to_real_duration_ns(self, emulated_ns: int) -> int:
        """The real length of an emulated duration, rounded up: a timer set so never fires early."""
        return -(-emulated_ns * self._denominator // self._numerator)


class LagRecord(TypedDict):
    """What a `LagRecorder` saw, as plain values for a message."""

    max_real_ns: int
    buckets: list[list[int]]
    """[bucket, count] pairs, at most about 900."""


class LagRecorder:
    """How late timers fired, in real nanoseconds: a logarithmic histogram of bounded size, exact maximum.

    A timer that fired early counts as 0 late.  Percentiles are upper edges of buckets 1/16 of an octave wide.
    """

    def __init__(self) -> None:
        self.count = 0
        self.max_real_ns = 0
        self._buckets: dict[int, int] = {}

    def record(self, due_real_ns: int, fired_real_ns: int) -> None:
        """A timer due at `due_real_ns` fired at `fired_real_ns`."""
        late_real_ns = max(0, fired_real_ns - due_real_ns)
        bucket = _bucket(late_real_ns)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1
        self.count += 1
        self.max_real_ns = max(self.max_real_ns, late_real_ns)

    def percentile_real_ns(self, fraction: float) -> int:
        """The lag that `fraction` (0 to 1) of the timers did not exceed, to 1/16; 0 if there were none."""
        rank = fraction * self.count
        seen = 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= rank:
                return min(_upper_edge(bucket), self.max_real_ns)
        return 0

    @property
    def p50_real_ns(self) -> int:
        """Median lag."""
        return self.percentile_real_ns(0.50)

    @property
    def p99_real_ns(self) -> int:
        """Lag that 99 of 100 timers did not exceed."""
        return self.percentile_real_ns(0.99)

    def to_record(self) -> LagRecord:
        """What was seen so far, for a message."""
        buckets = [[bucket, count] for bucket, count in sorted(self._buckets.items())]
        return {"max_real_ns": self.max_real_ns, "buckets": buckets}

    def values(self) -> list[tuple[int, int]]:
        """What was seen, to 1/16: (lag in real nanoseconds, how often), rising."""
        return [(min(_upper_edge(bucket), self.max_real_ns), count) for bucket, count in sorted(self._buckets.items())]

    def merge(self, record: LagRecord) -> None:
        """Add what another recorder saw."""
        self.max_real_ns = max(self.max_real_ns, record["max_real_ns"])
        for bucket, count in record["buckets"]:
            self._buckets[bucket] = self._buckets.get(bucket, 0) + count
            self.count += count


def _bucket(value: int) -> int:
    shift = max(0, value.bit_length() - _SUB_BITS - 1)
    return (shift << _SUB_BITS) + (value >> shift)


def _upper_edge(bucket: int) -> int:
    shift = max(0, (bucket >> _SUB_BITS) - 1)
    return ((bucket - (shift << _SUB_BITS) + 1) << shift) - 1

"""How late timers fired: a histogram of bounded size."""

from __future__ import annotations

from typing import TypedDict

_SUB_BITS = 4  # 16 buckets an octave: a percentile is at most 1/16 above the true one


class LagRecord(TypedDict):
    """The contents of a `LagRecorder`, as plain values for a message."""

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
        """Count a timer that was due at `due_real_ns` and fired at `fired_real_ns`."""
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
        """The contents so far, for a message."""
        buckets = [[bucket, count] for bucket, count in sorted(self._buckets.items())]
        return {"max_real_ns": self.max_real_ns, "buckets": buckets}

    def values(self) -> list[tuple[int, int]]:
        """The contents: (lag in real nanoseconds, count), ascending; lags are exact to 1/16."""
        return [(min(_upper_edge(bucket), self.max_real_ns), count) for bucket, count in sorted(self._buckets.items())]

    def merge(self, record: LagRecord) -> None:
        """Add the contents of another recorder."""
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

"""The task runtime estimate: exponentially smoothed progress rate (natjam, section 3.2, Releaser).

Hadoop's default estimator smooths the rate of progress between task heartbeats with a time constant of 60 s and
extrapolates.  This module does the same in whole numbers, because no float may decide an order.  The weight of a new
reading over ``dt`` is ``dt / (dt + time constant)``, the implicit form of ``1 - exp(-dt / time constant)``; at one
reading a second they differ by less than 1%.  The first reading counts in full.
"""

from __future__ import annotations

from emulator.vocabulary import Frozen

TIME_CONSTANT_NS = 60_000_000_000
_SCALE = 10**18  # rates are in keys per 10^18 ns: keys of one second have a rate of 10^9


class RateEstimate(Frozen):
    """The smoothed rate of one attempt, and its last reading."""

    at_ns: int | None = None
    """Time of the reading (when its last key ended); None before the first one since launch or resume."""
    keys_done: int = 0
    rate: int | None = None
    """Keys per 10^18 emulated nanoseconds; None before two readings."""

    def unanchored(self) -> RateEstimate:
        """The same rate without the reading: time spent suspended must not count as slow progress."""
        return RateEstimate(None, self.keys_done, self.rate)

    def with_reading(self, at_ns: int, keys_done: int) -> RateEstimate:
        """The estimate after one more reading; an older reading, or one with fewer keys, changes nothing."""
        if self.at_ns is None:
            return RateEstimate(at_ns, keys_done, self.rate)
        elapsed_ns = at_ns - self.at_ns
        if elapsed_ns <= 0 or keys_done < self.keys_done:
            return self
        seen = (keys_done - self.keys_done) * _SCALE // elapsed_ns
        if self.rate is None:
            if seen == 0:
                return self  # no key yet: count from the start
            return RateEstimate(at_ns, keys_done, seen)
        rate = self.rate + (seen - self.rate) * elapsed_ns // (elapsed_ns + TIME_CONSTANT_NS)
        return RateEstimate(at_ns, keys_done, rate)

    def remaining_ns(self, keys_total: int, now_ns: int) -> int | None:
        """Time left at ``now_ns`` to the end of ``keys_total`` keys; None if no rate is known."""
        if not self.rate:
            return None
        left_ns = (keys_total - self.keys_done) * _SCALE // self.rate
        return left_ns if self.at_ns is None else max(0, left_ns - (now_ns - self.at_ns))

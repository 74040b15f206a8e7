"""Scaled time: emulated nanoseconds computed from the machine's monotonic clock.

Arithmetic is exact (integers and a ratio), so all machines compute the same times, however long a run lasts.  Only
`ScaledClock.now_ns` reads a clock.
"""

from __future__ import annotations

import time
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction


class ScaledClock:
    """Maps real time to emulated time: ``emulated_ns = (real_ns - origin_real_ns) * scale``.

    `origin_real_ns` is the CLOCK_MONOTONIC time of emulated time zero on this machine; `scale` is emulated seconds per
    real second.  A float scale means the decimal number it prints as (0.1 is exactly a tenth).  Raises ValueError if
    `scale` is not a positive finite number.
    """

    def __init__(self, origin_real_ns: int, scale: int | float | Fraction) -> None:
        exact = Decimal(str(scale)) if isinstance(scale, int | float) else scale  # in C: every task makes a clock
        try:
            self._numerator, self._denominator = exact.as_integer_ratio()
        except (ValueError, OverflowError):
            raise ValueError(f"time scale must be a positive number, not {scale!r}") from None
        if self._numerator <= 0:
            raise ValueError(f"time scale must be above 0, not {scale!r}")
        self.origin_real_ns = origin_real_ns

    def now_ns(self) -> int:
        """The current emulated time."""
        return self.to_emulated_ns(time.monotonic_ns())

    def to_emulated_ns(self, real_ns: int) -> int:
        """The emulated time at the real time `real_ns`, rounded down."""
        return (real_ns - self.origin_real_ns) * self._numerator // self._denominator

    def to_real_ns(self, emulated_ns: int) -> int:
        """The first real time at which emulated time has reached `emulated_ns`."""
        return self.origin_real_ns + self.to_real_duration_ns(emulated_ns)

    def to_real_duration_ns(self, emulated_ns: int) -> int:
        """The real length of an emulated duration, rounded up, so that a timer set with it never fires early."""
        return -(-emulated_ns * self._denominator // self._numerator)

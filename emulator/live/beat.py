"""The beat of a process: it tells for how long the process stood still.

A process that was stopped, that got no processor, or whose machine was suspended, does not notice it: it only does late
what was due.  So each process of a run is to come by at regular times.  The time by which it is late is a gap, whatever
held it up, its own work included.  The clock counts the time during which the machine was suspended, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from emulator.live.clock import ScaledClock
from emulator.records.gaps import Gap

PERIOD_REAL_NS = 40_000_000
"""A standstill is seen as up to this much shorter.  On a busy machine a beat costs 0.1 ms, so 0.3% of a core."""
_ON_TIME_REAL_NS = 1_000_000
"""A timer is always late by a little."""


def awake_or_not_real_ns() -> int:
    """The machine's time since it was started, with the times when it was suspended."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Beat:
    """Expects a call within each period."""

    def __init__(self, now_real_ns: int, period_real_ns: int = PERIOD_REAL_NS) -> None:
        self._period_real_ns = period_real_ns
        self._due_real_ns = now_real_ns + period_real_ns

    def late_real_ns(self, now_real_ns: int) -> int:
        """By how much this call is late, 0 if it is not; the next one is due a period after it."""
        late_real_ns = now_real_ns - self._due_real_ns
        self._due_real_ns = now_real_ns + self._period_real_ns
        return late_real_ns if late_real_ns > _ON_TIME_REAL_NS else 0


def gap(process: str, late_real_ns: int, real_ns: int, clock: ScaledClock) -> Gap:
    """The gap of a process that was so late, and went on at ``real_ns``."""
    began_ns, ended_ns = map(clock.to_emulated_ns, (real_ns - late_real_ns, real_ns))
    return Gap(ended_ns - began_ns, ended_ns, process)


@contextmanager
def watched(process: str, clock: ScaledClock, period_real_ns: int, on_gap: Callable[[Gap], None]) -> Iterator[None]:
    """Watch this process from a thread; ``on_gap`` gets what it is late beyond a period.

    For a process without an event loop.
    """
    import threading  # here, because a supervisor must not: it would make each of its forks slower

    ended = threading.Event()
    beat = Beat(awake_or_not_real_ns(), period_real_ns)

    def watch() -> None:
        while not ended.wait(PERIOD_REAL_NS / 1e9):
            if late_real_ns := beat.late_real_ns(awake_or_not_real_ns()):
                on_gap(gap(process, late_real_ns, time.monotonic_ns(), clock))

    thread = threading.Thread(target=watch, name="beat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()

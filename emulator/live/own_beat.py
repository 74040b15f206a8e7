"""A process that has no event loop is watched from a thread of its own.  (A supervisor must not import threads.)"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from emulator.live.beat import PERIOD_REAL_NS, Beat, awake_or_not_real_ns, gap
from emulator.live.clock import ScaledClock
from emulator.records.gaps import Gap


@contextmanager
def watched(process: str, clock: ScaledClock, period_real_ns: int, on_gap: Callable[[Gap], None]) -> Iterator[None]:
    """Watch this process from a thread; ``on_gap`` gets what it is late beyond a period."""
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

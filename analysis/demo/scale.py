"""The time scale that this machine can hold now, from what other programs leave of it.

One process for each processor waits for a timer, as a task does, then computes for as long as a burst of launches
lasts, and again.  It measures how late the timer is, and how much longer the computation takes than the processor's
time in it: 1 on a quiet machine.  (Shorter computations would be served first, and so say too little.)  Nothing else of
natjam runs then, so there must be room for a run's own work.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from emulator.interruption import unheard_by_children
from emulator.live.parent import end_with
from emulator.run.results import LAG_BOUND_HEARTBEATS

SCALES = (20.0, 10.0, 5.0, 2.5)
"""Emulated seconds in a real one, the fastest first."""
ROOM_FOR_THE_RUN = 0.5
"""Share of the allowed lag that other programs may take."""
SCALE_OF_A_QUIET_MACHINE = 25.0
"""An estimate for two quiet cores; a machine that computes half as fast holds half of it.  Seen since: at 20 the burst
of launches disturbed a run on such a machine, which was then made again at 10."""
_MEASURED_REAL_S = 2.0
_START_REAL_S = 7.0
_WAIT_REAL_S, _WORK_REAL_S = 0.005, 0.05


@dataclass(frozen=True, slots=True)
class Load:
    """What other programs do to this machine."""

    lag_p99_real_ms: float
    slowdown: float
    """How much longer a computation takes than on a quiet machine."""


def choose_scale(load: Load, heartbeat_s: float = 1.0) -> float:
    """The fastest of ``SCALES`` whose timers and computations the machine can hold; the slowest if it holds none."""
    lag_bound_s = LAG_BOUND_HEARTBEATS * heartbeat_s * ROOM_FOR_THE_RUN
    held = min(SCALE_OF_A_QUIET_MACHINE / load.slowdown, lag_bound_s / max(1e-9, load.lag_p99_real_ms / 1e3))
    return next((scale for scale in SCALES if scale <= held), SCALES[-1])


def slower(scale: float) -> float:
    """The time scale for a second run of what was disturbed."""
    return scale / 2


def scale_text(load: Load, scale: float) -> str:
    """Which time scale was chosen, and why."""
    measured = f"timers are late by {load.lag_p99_real_ms:.1f} ms (p99), work takes {load.slowdown:.1f} times as long"
    if scale == SCALES[0]:
        return f"time scale {scale:g}: this machine is quiet enough ({measured} as it should)"
    minutes = _minutes(load, scale)
    return (
        f"time scale {scale:g} in place of {SCALES[0]:g}: this machine is busy ({measured} as it should); "
        f"this takes about {minutes} minutes, and a quiet machine gives better figures"
    )


def _minutes(load: Load, scale: float) -> int:
    """How long four runs of 200 emulated seconds take, and the start of Ray for each."""
    return round(4 * (200 / scale + _START_REAL_S * load.slowdown) / 60) or 1


def measure_load(real_s: float = _MEASURED_REAL_S) -> Load:
    """Measure what other programs leave of this machine; takes that long and a little more."""
    processors = len(os.sched_getaffinity(0))
    # Spawned, not forked, because the caller may have threads.
    context, mine = multiprocessing.get_context("spawn"), (os.getpid(),)
    with ProcessPoolExecutor(processors, context, initializer=end_with, initargs=mine) as pool:
        with unheard_by_children():
            found = pool.map(_work, [real_s] * processors)
        return load_of([late_s for lates_s in found for late_s in lates_s])


def load_of(lates_s: Sequence[tuple[float, float]]) -> Load:
    """From pairs: how late a wait ended, and how much longer the work after it took than its processor time."""
    late_s = sorted(waited_s for waited_s, _ in lates_s)
    extra_s = sum(worked_s for _, worked_s in lates_s) / len(lates_s)
    return Load(1e3 * late_s[int(0.99 * (len(late_s) - 1))], 1 + extra_s / _WORK_REAL_S)


def _work(real_s: float) -> list[tuple[float, float]]:
    found, until_s = [], time.monotonic() + real_s
    while (began_s := time.monotonic()) < until_s:
        time.sleep(_WAIT_REAL_S)
        woke_s, used_s = time.monotonic(), time.thread_time()
        while time.thread_time() - used_s < _WORK_REAL_S:
            pass
        found.append((woke_s - began_s - _WAIT_REAL_S, time.monotonic() - woke_s - _WORK_REAL_S))
    return found

"""The time scale that this machine can hold now, from a measurement of its launches and timers.

The measurement is a burst of launches like the one in the demonstration's runs, and timers after it.  All reduces of
research-XL start at once, on as many containers.  A launch costs processor time (fetching and merging the maps' output,
and a fork if no process was made ahead), so the last one is late by what all of them cost.  This burst limits the time
scale.  So it is made here: the same processes, as many, without Ray.  Each task then walks some keys and says how late
its timers were.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from analysis.demo.rows import VARIANTS, busy_text
from emulator.costs.calibration import share_of_others
from emulator.measure.host import MeasuredHost, make_job, run_of_its_own
from emulator.records.gaps import MAX_OVERRUNNING
from emulator.records.history.overheads import OVERRUN_TOLERANCE_REAL_NS
from emulator.records.lag import LagRecorder
from emulator.run import LAG_BOUND_HEARTBEATS

_BURSTS = 3
_LOOKS = 3
"""How often it is looked whether other programs leave enough, until they do: some start and end at once."""
_BEFORE_REAL_S = 0.5
"""In a run the maps go on for so long before the reduces start; meanwhile processes are made ahead."""
_REDUCES = 47
"""How many reduces research-XL has."""
_JOB = make_job("burst", 4, _REDUCES, keys=8, real_s=0.4)
_MAPS_NODE, _NODE = "node-1", "node-2"


@dataclass(frozen=True, slots=True)
class Load:
    """What the programs on this machine leave for a run."""

    lag_p99_real_ms: float
    """How late timers are."""
    bursts_real_ms: tuple[tuple[float, ...], ...]
    """For each burst: how long after the order to launch all tasks each of them was ready, ascending."""
    idle_cores: float
    """How many cores no other program used."""


def measure_load() -> Load:
    """Measure this machine; takes four seconds if it is quiet.  Raises RunError, OSError."""
    idle_cores = 0.0
    for _ in range(_LOOKS):
        if busy_text(idle_cores) is not None:
            idle_cores = max(idle_cores, (1.0 - share_of_others()) * (os.cpu_count() or 1))
    with run_of_its_own() as (run_id, directory):
        return asyncio.run(_measure(run_id, directory, idle_cores))


async def _measure(run_id: str, directory: Path, idle_cores: float) -> Load:
    async with MeasuredHost(run_id, directory, _REDUCES, (_MAPS_NODE, _NODE), _REDUCES) as host:
        for task in range(len(_JOB.map_ns)):
            host.launch_map(f"map-{task}", _JOB, task)
            await host.answer(f"map-{task}", "exited")
        bursts = [await _burst(host, number) for number in range(_BURSTS)]
    lag = LagRecorder()
    for found in host.lags:
        lag.merge(found)
    return Load(lag.p99_real_ns / 1e6, tuple(bursts), idle_cores)


async def _burst(host: MeasuredHost, number: int) -> tuple[float, ...]:
    await asyncio.sleep(_BEFORE_REAL_S)
    containers = [f"burst-{number}-{task}" for task in range(_REDUCES)]
    outputs = host.outputs(_JOB)
    ordered = [host.launch_reduce(name, _JOB, task, _NODE, outputs) for task, name in enumerate(containers)]
    ready = [(await host.answer(name, "first_key"))["input_ready_real_ns"] for name in containers]
    for name in containers:
        await host.answer(name, "exited")
    for left in (host.directory / "output", host.directory / _NODE / "local" / _JOB.name):
        shutil.rmtree(left)  # the next burst fetches anew
    return tuple(sorted((ready_real_ns - ordered[0]) / 1e6 for ready_real_ns in ready))


SCALES = (20.0, 16.0, 13.0, 10.0, 8.0, 6.0, 5.0, 4.0, 3.0, 2.5)
"""Emulated seconds in a real one, the fastest first."""
RUN_FOR_PROBE = 1.1
"""How much longer launches take in a run than when measured, because of the machines' messages; timers likewise.

Measured on two cores beside much other work, a run and a measurement in turn: 1.12, the median of five (0.5 to 1.9, as
the other work came and went).
"""
_RUN_S, _START_REAL_S = 205.0, 4.0
"""How long one run takes, emulated, and the start and end of its hosts beside it."""
_AROUND_REAL_S = 10.0
"""The start and end of Ray, the report and the picture."""
_MAX_TIMES = 2.0
"""So much longer than without them the demonstration may take because of runs that are made again."""


def choose_scale(load: Load, schedule_s: float, heartbeat_s: float) -> float:
    """The fastest of ``SCALES`` at which neither launches nor timers disturb a run; the slowest if none is.

    A launch has the published overhead ``schedule_s``, of which one heartbeat goes by before it is ordered.  One in ten
    may take longer, so the slowest of the others counts, in the worst of the bursts.
    """
    launch_s = RUN_FOR_PROBE * max(map(_last_in_time_real_ms, load.bursts_real_ms)) / 1e3
    lag_s = RUN_FOR_PROBE * load.lag_p99_real_ms / 1e3

    def holds(scale: float) -> bool:
        ready_s = heartbeat_s + (launch_s - OVERRUN_TOLERANCE_REAL_NS / 1e9) * scale
        return ready_s <= schedule_s and lag_s * scale <= LAG_BOUND_HEARTBEATS * heartbeat_s

    return next(filter(holds, SCALES), SCALES[-1])


def _last_in_time_real_ms(burst_real_ms: Sequence[float]) -> float:
    """When the last launch was ready of those that have to be in time."""
    return burst_real_ms[-1 - int(MAX_OVERRUNNING * len(burst_real_ms))]


def slower(scale: float) -> float:
    """The time scale for a second run of what was disturbed: two steps down, so half as long again.

    On a quiet virtual machine of two cores the bursts of one demonstration differed by as much: 150 to 250 ms.
    """
    below = [each for each in SCALES if each < scale]
    return below[min(1, len(below) - 1)] if below else SCALES[-1]


def expected_real_s(scale: float, runs: int = len(VARIANTS)) -> float:
    """How long so many runs take."""
    return runs * (_RUN_S / scale + _START_REAL_S)


def most_real_s(scale: float) -> float:
    """How long all runs of a demonstration that begins at ``scale`` may take, those made again included."""
    return _MAX_TIMES * expected_real_s(scale)


def expected_end(now: datetime, scale: float, runs: int = len(VARIANTS)) -> str:
    """When the demonstration ends that has so many runs before it, on the clock."""
    return f"{now + timedelta(seconds=_AROUND_REAL_S + expected_real_s(scale, runs)):%H:%M:%S}"


def scale_text(load: Load, scale: float, now: datetime) -> str:
    """Which time scale was chosen, why, when all will have ended, and whether the machine is busy."""
    last_real_ms = max(map(_last_in_time_real_ms, load.bursts_real_ms))
    launches = len(load.bursts_real_ms[0])
    latest = now + timedelta(seconds=_AROUND_REAL_S + most_real_s(scale))
    faster = "" if scale == SCALES[0] else "; beside fewer other programs it may be faster"
    busy = busy_text(load.idle_cores)
    return (
        f"time scale {scale:g}: it ends at about {expected_end(now, scale)} (at the latest at {latest:%H:%M:%S}, if "
        f"runs that are disturbed are made again)\n"
        f"this machine makes {launches} launches in {last_real_ms:.0f} ms, and its timers are late by "
        f"{load.lag_p99_real_ms:.1f} ms (p99){faster}" + (f"\n{busy}" if busy else "")
    )

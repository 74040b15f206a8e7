"""What this machine can do now: a burst of launches like the one in the demonstration's runs, and timers after it.

All reduces of research-XL start at once, on as many containers.  A launch costs processor time (fetching and merging
the maps' output, and a fork if no process was made ahead), so the last one is late by what all of them cost.  This
burst limits the time scale.  So it is made here: the same processes, as many, without Ray.  Each task then walks some
keys and says how late its timers were.
"""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path

from emulator.measure.host import MeasuredHost, make_job, run_of_its_own
from emulator.records.lag import LagRecorder

_BURSTS = 3
_BEFORE_REAL_S = 0.5
"""In a run the maps go on for so long before the reduces start; meanwhile processes are made ahead."""
_REDUCES = 47
"""Of research-XL."""
_JOB = make_job("burst", 4, _REDUCES, keys=8, real_s=0.4)
_MAPS_NODE, _NODE = "node-1", "node-2"


@dataclass(frozen=True, slots=True)
class Load:
    """What the programs on this machine leave for a run."""

    lag_p99_real_ms: float
    """How late timers are."""
    bursts_real_ms: tuple[tuple[float, ...], ...]
    """For each burst: how long after the order to launch all tasks each of them was ready, ascending."""


def measure_load() -> Load:
    """Measure this machine; takes four seconds if it is quiet.  Raises RunError, OSError."""
    with run_of_its_own() as (run_id, directory):
        return asyncio.run(_measure(run_id, directory))


async def _measure(run_id: str, directory: Path) -> Load:
    async with MeasuredHost(run_id, directory, _REDUCES, (_MAPS_NODE, _NODE), _REDUCES) as host:
        for task in range(len(_JOB.map_ns)):
            host.launch_map(f"map-{task}", _JOB, task)
            await host.answer(f"map-{task}", "exited")
        bursts = [await _burst(host, number) for number in range(_BURSTS)]
    lag = LagRecorder()
    for found in host.lags:
        lag.merge(found)
    return Load(lag.p99_real_ns / 1e6, tuple(bursts))


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

"""What many processes cost: launches beside many resident processes, and how punctual many reducers are."""

from __future__ import annotations

import asyncio

from emulator.measure.host import MeasuredHost, make_job
from emulator.measure.parts import WARM_UP_ROUNDS, Surroundings
from emulator.measure.samples import Samples
from emulator.records.lag import LagRecorder

_RESIDENTS, _RESIDENTS_QUICK = (1, 10, 100, 1000, 2000), (1, 100, 1000)
_SIDE = 100
"""How many launches below and above a number of residents count as samples for this number."""
_WAITING = make_job("waiting", 1, 1, 1)
_WALKERS, _WALKERS_QUICK = (1, 48, 200), (1, 48)
_WALK_REAL_S, _WALK_QUICK_REAL_S = 10.0, 2.2
_KEYS_A_SECOND, _KEYS_A_SECOND_ALONE = 10, 100


def measure_residents(around: Surroundings) -> Samples:
    """Launch processes that stay, up to two thousand; end them all; then time reducers' keys."""
    samples = Samples()
    asyncio.run(_grow(around, samples))
    asyncio.run(_walk(around, samples))
    return samples


async def _grow(around: Surroundings, samples: Samples) -> None:
    levels = _RESIDENTS_QUICK if around.quick else _RESIDENTS
    most = levels[-1] + _SIDE
    async with MeasuredHost(around.run_id, around.directory, most + 16) as host:
        residents = 0
        for level in levels:
            side = min(_SIDE, level // 2)
            while residents < level - side:
                await _launch(host, residents)
                residents += 1
                around.progress(0.6 * residents / most)
            if side < _SIDE:
                # With few residents a launch changes their number, so each launched process is ended again.
                for number in range(-WARM_UP_ROUNDS, around.rounds):
                    real_ns = await _launch(host, residents, f"passing-{level}-{number}")
                    await _kill(host, f"passing-{level}-{number}")
                    if number >= 0:
                        samples.add("fork", real_ns, level)
            else:
                while residents < level + side:
                    samples.add("fork", await _launch(host, residents), level)
                    residents += 1
            around.progress(0.6 * residents / most)


async def _launch(host: MeasuredHost, number: int, name: str | None = None) -> int:
    """Launch a reduce that waits for map outputs for ever.  Returns the time until its node is told."""
    container = name or f"resident-{number}"
    ordered_real_ns = host.launch_reduce(container, _WAITING, 0, "node-1")
    (launched,) = await host.last_answers(container, "launched")
    return launched["heard_real_ns"] - ordered_real_ns


async def _kill(host: MeasuredHost, container: str) -> None:
    host.order("kill", container)
    await host.last_answers(container, "exited")


async def _walk(around: Surroundings, samples: Samples) -> None:
    """Time keys.  Reducers report a histogram of their lag at their end; samples are its buckets' upper edges."""
    counts = _WALKERS_QUICK if around.quick else _WALKERS
    real_s = _WALK_QUICK_REAL_S if around.quick else _WALK_REAL_S
    for index, count in enumerate(counts):
        directory = around.directory / f"walkers-{count}"
        directory.mkdir()
        keys = round(real_s * (_KEYS_A_SECOND if count > 1 else _KEYS_A_SECOND_ALONE))
        walked = make_job("walked", 1, count, keys, real_s=real_s)
        async with MeasuredHost(around.run_id, directory, count + 16) as host:
            host.launch_map("map", walked, 0)
            await host.answer("map", "exited")
            host.lags.clear()
            for task in range(count):
                host.launch_reduce(f"walker-{task}", walked, task, "node-1", host.outputs(walked))
            for task in range(count):
                await host.answer(f"walker-{task}", "exited")
            lag = LagRecorder()
            for record in host.lags:
                lag.merge(record)
            for real_ns, times in lag.values():
                for _ in range(times):
                    samples.add("key_lag", real_ns, count)
        around.progress(0.6 + 0.4 * (index + 1) / len(counts))

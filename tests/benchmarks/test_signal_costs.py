"""What preemption costs in real time.

Run with ``pytest tests/benchmarks -s``.  The targets are asserted: they are the promise that emulated overheads are
padded from below.
"""

from __future__ import annotations

import asyncio
import statistics
from pathlib import Path

import pytest
from supervision import Host, in_host

pytestmark = pytest.mark.slow

_ROUNDS = 200
_Samples = list[int]


def _percentile(samples: _Samples, fraction: float) -> float:
    return sorted(samples)[min(len(samples) - 1, int(fraction * len(samples)))] / 1e6


def _print(title: str, rows: dict[str, _Samples]) -> None:
    print(f"\n{title:<58}{'n':>6}{'p50 ms':>10}{'p99 ms':>10}{'max ms':>10}")
    for name, samples in rows.items():
        figures = (_percentile(samples, 0.5), _percentile(samples, 0.99), max(samples) / 1e6)
        print(f"  {name:<56}{len(samples):>6}" + "".join(f"{figure:>10.3f}" for figure in figures))


def test_stop_and_continue(tmp_path: Path) -> None:
    stops, continues, wakes = [], [], []

    async def scenario(host: Host) -> None:
        await host.launch("c1", keys=10_000, key_s=0.005)
        await host.keys_done("c1", 1)
        for _ in range(_ROUNDS):
            suspended = await host.do("suspend", "c1")
            stops.append(suspended["stopped_real_ns"] - suspended["signalled_real_ns"])
            resumed = await host.do("resume", "c1")
            continues.append(resumed["continued_real_ns"] - resumed["signalled_real_ns"])
            keys = host.client.page.read(0).keys_done
            await host.keys_done("c1", keys + 1)  # so that each stop finds a written key and an open file
            wakes.append(host.client.page.read(0).state_since_real_ns - resumed["signalled_real_ns"])

    in_host(tmp_path, scenario, 1)
    rows = {
        "SIGTSTP sent to stop confirmed": stops,
        "SIGCONT sent to continue confirmed": continues,
        "SIGCONT sent to the reduce at work again": wakes,
    }
    _print("suspend and resume", rows)
    assert _percentile(stops, 0.5) < 1
    assert _percentile(stops, 0.99) < 5
    assert _percentile(continues, 0.5) < 1
    assert _percentile(wakes, 0.5) < 1


def test_a_suspend_after_a_launch_costs_hardly_more_than_another(tmp_path: Path) -> None:
    """The supervisor has copied the pages that it needs for that before."""
    firsts, others = [], []

    async def scenario(host: Host) -> None:
        for number in range(_ROUNDS // 4):
            name = f"c{number}"
            await host.launch(name, keys=10_000, key_s=0.005, job="one")
            for samples, keys in ((firsts, 1), (others, 6)):
                await host.keys_done(name, keys)
                suspended = await host.do("suspend", name)
                samples.append(suspended["signalled_real_ns"] - suspended["received_real_ns"])
                await host.do("resume", name)
            await host.do("kill", name)

    in_host(tmp_path, scenario, _ROUNDS)
    _print("suspend order to SIGTSTP sent", {"first one after a launch": firsts, "another": others})
    assert statistics.median(firsts) < 2 * statistics.median(others)


def test_checkpoint(tmp_path: Path) -> None:
    mechanism, key = [], []

    async def scenario(host: Host) -> None:
        for number in range(_ROUNDS):
            name = f"c{number}"
            await host.launch(name, keys=200, key_s=0.005, job="one")
            await host.keys_done(name, 1)
            done = await host.do("checkpoint", name)
            assert done["event"] == "checkpointed"
            in_progress = done["key_done_real_ns"] - done["signalled_real_ns"]
            key.append(in_progress)
            mechanism.append(done["exited_real_ns"] - done["received_real_ns"] - in_progress)

    in_host(tmp_path, scenario, _ROUNDS)
    rows = {
        "checkpoint order to exit, less the key in progress": mechanism,
        "key in progress (keys of 5 ms)": key,
    }
    _print("checkpoint", rows)
    assert _percentile(mechanism, 0.5) < 10


def test_launch(tmp_path: Path) -> None:
    first_keys, forks = [], []

    async def scenario(host: Host) -> None:
        for number in range(_ROUNDS):
            name = f"c{number}"
            launched = await host.launch(name, keys=20, key_s=0.001, job="one")
            first_key = await host.event("first_key", name)
            forks.append(launched["forked_real_ns"] - launched["received_real_ns"])
            first_keys.append(first_key["real_ns"] - launched["received_real_ns"])
            await host.event("exited", name)
            (tmp_path / "output/one/part-r-00000").unlink()

    in_host(tmp_path, scenario, _ROUNDS)
    rows = {
        "launch order to first key, local input": first_keys,
        "launch order to fork done": forks,
    }
    _print("launch", rows)
    assert _percentile(first_keys, 0.5) < 15


def test_two_hundred_stopped_together(tmp_path: Path) -> None:
    last_stops = []

    async def scenario(host: Host) -> None:
        names = [f"c{number}" for number in range(200)]
        for name in names:
            host.client.send(host.reduce(name, keys=1, key_s=600, localised=False, maps=1))
        await host.until(lambda: len(host.events) == 200)
        await asyncio.sleep(0.5)
        for _ in range(5):
            before = len(host.events)
            for op in ("suspend", "resume"):
                for name in names:
                    host.client.send({"op": op, "id": name})
            await host.until(lambda: len(host.events) == before + 400)  # noqa: B023 - awaited in this round
            stopped = [e for e in host.events[before:] if e["event"] == "suspended"]
            received = min(e["received_real_ns"] for e in stopped)
            last_stops.append(max(e["stopped_real_ns"] for e in stopped) - received)

    in_host(tmp_path, scenario, 200)
    _print("burst", {"200 suspended together, first order to last stop": last_stops})
    assert statistics.median(last_stops) < 400_000_000

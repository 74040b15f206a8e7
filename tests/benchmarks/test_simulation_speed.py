"""Events a second of the simulation, beside a bare heap and SimPy doing as many timeouts in the same run.

``pytest -s tests/benchmarks/test_simulation_speed.py`` prints a table; ``SCALE=0.1 pytest -s ...`` takes a tenth of the
synthetic day (60,000 tasks), ``SCALE=1`` all of it.  Times are those of the processor, so that a busy machine counts
for little.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pyarrow.parquet
import pytest
import simpy
from bare_heap import PROCESSES, bare_heap, cpu_s
from synthetic_day import day_experiment, day_jobs

from analysis.whole_run import run_experiment
from emulator.core.job import JobSpec

SCALE = float(os.environ.get("SCALE", "0.01"))
MOST_S, MOST_GIB = 120, 2
"""What the whole day is to take.  The time is known to be missed: a flat profile, of which no part is large, 18 events
and 17 records of the journal a task."""


def simpy_timeouts(events: int) -> None:
    environment = simpy.Environment()

    def process(first: int):
        yield environment.timeout(first)
        while True:
            yield environment.timeout(PROCESSES)

    for number in range(PROCESSES):
        environment.process(process(number))
    for _ in range(events):
        environment.step()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_events_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = day_jobs(SCALE)
    monkeypatch.setattr("emulator.run.expand", lambda experiment, seed: jobs)
    summary = {}
    simulated_s = cpu_s(
        lambda: summary.update(run_experiment(day_experiment(SCALE), tmp_path / "day", lambda status: None))
    )
    memory_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    events = summary["events"]
    heap_s, simpy_s = cpu_s(lambda: bare_heap(events)), cpu_s(lambda: simpy_timeouts(events))
    tasks = pyarrow.parquet.read_table(tmp_path / "day/tasks.parquet", columns=["suspensions", "outcome"]).to_pydict()
    preempted = sum(count > 0 for count in tasks["suspensions"])
    print(f"\n{preempted / len(tasks['suspensions']):.1%} of the tasks preempted")
    print("tasks | jobs | nodes | processor time | memory")  # a row of the table in docs/limits.md
    print(f"{_shape(jobs)} | {simulated_s:.1f} s | {memory_gib:.2f} GiB")
    for name, spent_s in (("simulation", simulated_s), ("bare heap", heap_s), ("SimPy", simpy_s)):
        print(f"{name:<12}{events:>12,} events{spent_s:>9.2f} s{events / spent_s:>14,.0f} a second", end="")
        print(f"{simulated_s / spent_s:>8.1f} times as fast as the simulation" if spent_s != simulated_s else "")
    if SCALE == 1:
        for name, value, limit in (("seconds", simulated_s, MOST_S), ("GiB", memory_gib, MOST_GIB)):
            print(f"{name}: {value:.1f}, asked for at most {limit}: {'met' if value <= limit else 'MISSED'}")
    assert set(tasks["outcome"]) == {"succeeded"}
    if SCALE >= 0.1:  # fewer jobs take turns at being full
        assert preempted >= len(tasks["suspensions"]) / 10


def _shape(jobs: tuple[JobSpec, ...]) -> str:
    tasks = sum(len(job.map_ns) + len(job.reduce_ns) for job in jobs)
    return f"{tasks:,} | {len(jobs):,} | {day_experiment(SCALE).cluster.nodes:,}"

"""How much faster a campaign on all cores is than its runs one after another in one process.

``pytest -s tests/benchmarks/test_campaign_speed.py`` prints both, and beside them what the machine's cores can do
together: two that share one core's units are far from twice as fast.  Run it on an otherwise idle machine.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from bare_heap import bare_heap

from analysis.whole_run import run_experiment
from emulator.campaign.definition import load_campaign
from emulator.campaign.directory import CampaignDirectory, planned_runs
from emulator.campaign.runner import run_campaign
from emulator.campaign.worker import RunTask, run_batch
from emulator.display.work_display import WorkStatus

FIG5 = Path(__file__).resolve().parents[2] / "workloads/catalog/natjam-fig4.yaml"
CAMPAIGN = f"""
name: fig5
experiment: {FIG5}
set: {{engine: sim}}
grid: {{scheduler.task_eviction: [srt, lrt, random]}}
seeds: 67
"""
WARM_UP = 10
"""Runs before the clock starts, here and there: imports, and the start of the workers."""


def heap_loop(events: int = 2_000_000) -> float:
    """How long, in seconds, a bare loop takes."""
    began_s = time.perf_counter()
    bare_heap(events)
    return time.perf_counter() - began_s


def speed_of_cores(cores: int) -> float:
    """How much more that loop does on all cores than on one."""
    with ProcessPoolExecutor(cores) as executor:
        list(executor.map(heap_loop, [10_000] * cores))
        alone_s = heap_loop()
        together_s = max(executor.map(heap_loop, [2_000_000] * cores))
    return cores * alone_s / together_s


@pytest.mark.slow
def test_a_campaign_of_201_runs(tmp_path: Path) -> None:
    file = tmp_path / "fig5.yaml"
    file.write_text(CAMPAIGN)
    runs = planned_runs(load_campaign(file).variants)
    tasks = [
        RunTask(run.name, run.experiment, tmp_path / "alone" / str(n), run_experiment, inputs_sha256="")
        for n, run in enumerate(runs)
    ]
    run_batch(tasks[:WARM_UP])
    began_s = time.perf_counter()
    run_batch(tasks[WARM_UP:])
    alone_s = (time.perf_counter() - began_s) / (len(tasks) - WARM_UP)

    seen: list[tuple[int, float]] = []

    def note(status: WorkStatus) -> None:
        if (done := round(status.done * len(runs))) >= WARM_UP:
            seen.append((done, time.perf_counter()))

    with CampaignDirectory(tmp_path / "campaign").held() as directory:
        run_campaign("fig5", runs, directory, run_experiment, note)
    (first, first_s), (last, last_s) = seen[0], seen[-1]
    together_s = (last_s - first_s) / (last - first)
    cores = len(os.sched_getaffinity(0))
    print(f"\n{len(runs)} simulations of Fig. 5: {1000 * alone_s:.1f} ms each one after another in one process,")
    print(f"{1000 * together_s:.1f} ms each in a campaign on {cores} cores: {alone_s / together_s:.2f} times as fast;")
    print(f"a bare loop is {speed_of_cores(cores):.2f} times as fast on these cores as on one")
    assert last == len(runs)
    assert alone_s / together_s >= 0.8 * min(cores, 8)

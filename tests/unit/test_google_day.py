"""The Google-like day: what it draws comes from the slice, and its totals are those asked for."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from emulator.errors import ConfigError
from emulator.experiment.catalog import catalog_directory
from emulator.experiment.load import load_experiment
from emulator.resolved import resolve
from emulator.sim.session import simulate
from workloads.google_day import google_day_jobs
from workloads.schema import GOOGLE_BANDS, GoogleDayEntry

DAY = catalog_directory() / "ckpt-google-day.yaml"


def test_the_totals_and_the_bands_are_those_asked_for() -> None:
    jobs = google_day_jobs(GoogleDayEntry(jobs=500, tasks=20_000), 4 * 2**30, seed=3)
    assert sum(len(job.map_ns) for job in jobs) == pytest.approx(20_000, rel=0.02)
    assert [job.submit_ns for job in jobs] == sorted(job.submit_ns for job in jobs)
    assert all(0 <= job.submit_ns < 86_400 * 10**9 and 0 < job.facts.memory_bytes <= 4 * 2**30 for job in jobs)
    shares = Counter(job.queue for job in jobs)
    assert set(shares) == set(GOOGLE_BANDS)
    assert shares["production"] < 100 < shares["free"]
    levels = {"production": range(9, 12), "middle": range(2, 9), "free": range(2)}
    assert all(job.facts.priority in levels[job.queue] for job in jobs)


def test_the_same_seed_draws_the_same_day() -> None:
    entry = GoogleDayEntry(jobs=50, tasks=500)
    assert google_day_jobs(entry, 2**30, 1) == google_day_jobs(entry, 2**30, 1)
    assert google_day_jobs(entry, 2**30, 1) != google_day_jobs(entry, 2**30, 2)


def test_a_small_day_runs_to_its_end() -> None:
    day = "workload.google_day={jobs: 40, tasks: 400, span_s: 3600}"
    scheduler = ["scheduler.mechanism=adaptive", "scheduler.placement=cost"]
    experiment = load_experiment(DAY, [day, "cluster.nodes=1", *scheduler])
    done = simulate(resolve(experiment), lambda records: None)
    for machine in done.machines.values():
        machine.validate_state()


def test_its_queues_must_be_there(tmp_path: Path) -> None:
    text = DAY.read_text().replace("free: {capacity: 0.33}", "cheap: {capacity: 0.33}")
    (tmp_path / "day.yaml").write_text(text)
    with pytest.raises(ConfigError, match="there is no queue 'free'"):
        load_experiment(tmp_path / "day.yaml")

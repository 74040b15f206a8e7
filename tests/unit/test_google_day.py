"""The Google-like day: what it draws comes from the slice, and its totals are those asked for."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from emulator.errors import ConfigError
from emulator.experiment.catalog import catalog_directory
from emulator.experiment.load import load_experiment
from emulator.resolved import resolve
from emulator.sim.session import simulate
from workloads.paper_jobs import google_day_jobs
from workloads.schema import GOOGLE_BANDS, GoogleDayEntry

WORKLOADS = Path(__file__).parents[2] / "workloads"
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


def test_its_queues_must_be_there(tmp_path: Path) -> None:
    text = DAY.read_text().replace("free: {capacity: 0.33}", "cheap: {capacity: 0.33}")
    (tmp_path / "day.yaml").write_text(text)
    with pytest.raises(ConfigError, match="there is no queue 'free'"):
        load_experiment(tmp_path / "day.yaml")


def test_with_sizes_jobs_ask_for_what_jobs_of_their_band_ask_for_together() -> None:
    entry = GoogleDayEntry(jobs=2000, tasks=4000, machine_cpu=100, machine_memory_gb=100)

    def request(resources: dict[str, float], memory_gb: float) -> tuple[int, ...]:
        return round(resources["cpu"] * 1000), round(memory_gb * 1000)

    jobs, of_one_size = (google_day_jobs(entry, 2**30, 1, each) for each in (request, None))
    assert [(job.submit_ns, job.queue, job.map_ns) for job in jobs] == [
        (job.submit_ns, job.queue, job.map_ns) for job in of_one_size
    ]
    bands = json.loads((WORKLOADS / "data/google-2011-jobs.json").read_text())
    for band, of in bands.items():
        known = {
            (round(max(0.001, round(cpu * 100, 3)) * 1000), round(round(memory * 100, 3) * 1000)): jobs
            for cpu, memory, jobs in of["requests"]
        }
        assert sum(jobs for *_, jobs in of["requests"]) == of["jobs"]
        found = Counter(job.facts.groups[0].request for job in jobs if job.queue == band)
        assert set(found) <= set(known)
        commonest = max(known, key=lambda pair: known[pair])
        assert found[commonest] / found.total() == pytest.approx(known[commonest] / of["jobs"], abs=0.05)


def test_a_day_with_requests_runs_to_its_end_and_a_machine_that_is_too_small_is_named() -> None:
    file, day = (
        catalog_directory() / "ckpt-google-requests.yaml",
        "workload.google_day={jobs: 40, tasks: 400, span_s: 3600}",
    )
    adaptive = ["scheduler.mechanism=adaptive", "scheduler.placement=cost", "scheduler.task_eviction=cost-aware"]
    done = simulate(resolve(load_experiment(file, [day, *adaptive])), lambda records: None)
    for machine in done.machines.values():
        machine.validate_state()
    small = "cluster.node_groups=[{count: 9, resources: {cpu: 1, memory_gb: 96}}]"
    with pytest.raises(ConfigError, match=r"workload\.google_day: job job-\d+: a task asks for .* fits no empty node"):
        resolve(load_experiment(file, [day, small]))

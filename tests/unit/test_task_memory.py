"""What tasks hold: from the experiment file to the order that launches them, and to what policies see."""

from __future__ import annotations

from pathlib import Path
from random import Random
from statistics import median

import pytest
from experiment_files import VALID, refusal, write
from msgspec import structs
from simulated import GIB_BYTES, make_job, make_settings, run_checked

from emulator.core.effects import Launch
from emulator.experiment.expand import expand
from emulator.experiment.load import load_experiment
from emulator.policies.axes import TASK_EVICTION
from emulator.policies.views import ClusterView, Known, TaskView
from emulator.resolved import resolve
from emulator.sim.session import simulated_history
from emulator.vocabulary import MAP, MASTER, REDUCE

DATA = Path(__file__).resolve().parents[2] / "workloads/data"
MEMORY = VALID.replace("container_memory_gb: 1", "container_memory_gb: 2")


def test_a_list_is_cycled_over_the_maps_and_over_the_reduces(tmp_path: Path) -> None:
    path = write(tmp_path, MEMORY.replace("submit_s: 50,", "submit_s: 50, memory_gb: [0.5, 2],"))
    alone, first = expand(load_experiment(path), 1)
    assert alone.facts.held_by(REDUCE, 3) is None
    assert alone.facts.footprint_bytes(REDUCE, 3) == 2 * GIB_BYTES
    assert [first.facts.held_by(REDUCE, task) for task in range(3)] == [GIB_BYTES // 2, 2 * GIB_BYTES, GIB_BYTES // 2]
    assert first.facts.footprint_bytes(REDUCE, 2) == GIB_BYTES // 2
    path = write(tmp_path, MEMORY.replace("submit_s: 50,", "submit_s: 50, memory_gb: 0,"))
    assert expand(load_experiment(path), 1)[1].facts.held_by(REDUCE, 7) == 0


def test_a_task_that_does_not_fit_its_container_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, MEMORY.replace("submit_s: 50,", "submit_s: 50, memory_gb: [1, 2.5],"))
    line = "jobs.1.memory_gb: a task that holds 2.5 GB does not fit a container of 2 GB; raise container_memory_gb"
    assert line in refusal(path)


@pytest.mark.parametrize("scale", [0, -1, 1.5, ".nan"])
def test_the_scale_of_real_memory_is_a_share(tmp_path: Path, scale: float) -> None:
    assert "live.memory_scale" in refusal(write(tmp_path, VALID), f"live.memory_scale={scale}")
    assert load_experiment(write(tmp_path, VALID), ["live.memory_scale=0.25"]).live.memory_scale == 0.25


def test_a_launch_says_what_the_task_holds() -> None:
    job = make_job("research", maps_s=(1.0,), reduces_s=(2.0, 3.0))
    job = structs.replace(job, facts=structs.replace(job.facts, task_memory_bytes=(1 << 20, 1 << 21)))
    cluster = run_checked(make_settings(containers=4), (job,))
    launches = [effect for record in cluster.records for effect in record.effects if isinstance(effect, Launch)]
    told = {(launch.group, launch.task): launch.memory_bytes for launch in launches}
    assert told == {
        (MASTER, 0): None,
        (MAP, 0): 1 << 20,
        (REDUCE, 0): 1 << 20,
        (REDUCE, 1): 1 << 21,
    }


def test_the_smallest_goes_first_and_what_is_not_known_last() -> None:
    held = {"a": 30, "b": None, "c": 10, "d": 20}
    tasks = tuple(TaskView(name, "j", MAP, "n", 0, memory_bytes=size) for name, size in held.items())
    order = TASK_EVICTION.by_name["smallest-memory"].function(ClusterView(0, Known()), tasks, Random(1))
    assert order == ("c", "d", "a", "b")


def test_what_is_paged_in_a_simulation_is_said_of_the_attempts() -> None:
    """Low and high hold 4.5 GB of 3.8."""
    published = ["engine=sim", "overheads=hadoop-0.23", "calibration=null"]
    options = [*published, "workload.jobs.0.memory_gb=2.5", "workload.jobs.1.memory_gb=2"]
    experiment = load_experiment("catalog:os-assisted", options)
    jobs = expand(experiment, 1)
    low, high = (row for row in simulated_history(resolve(experiment, jobs)).attempts if row.kind == REDUCE)
    assert low.swapped_bytes == pytest.approx(0.7 * GIB_BYTES, abs=2)
    (written,), (read,) = high.paging_spans, low.paging_spans
    assert (written.out_bytes, written.in_bytes) == (low.swapped_bytes, 0)
    assert (read.out_bytes, read.in_bytes) == (0, low.swapped_bytes)
    assert (high.first_key_ns, high.ended_ns) < (read.began_ns, low.ended_ns)
    assert written.began_ns == high.first_key_ns


TRACE = """\
workload:
  trace: {{format: swim, path: {path}, window_s: 600, task_memory: {{research: {{median_gb: 0.4, p95_gb: {p95}}}}},
          production_fraction: 0.5}}
"""


def test_memory_is_drawn_for_the_tasks_of_a_queue_no_more_than_a_container(tmp_path: Path) -> None:
    hour = DATA / "FB-2009_samples_24_times_1hr_0_first50jobs.tsv"
    text = VALID.partition("workload:")[0] + TRACE.format(path=hour, p95=0.9)
    jobs = expand(load_experiment(write(tmp_path, text)), 1)
    assert jobs == expand(load_experiment(write(tmp_path, text)), 1)
    assert {job.facts.task_memory_bytes for job in jobs if job.queue == "production"} == {()}
    sizes = [size for job in jobs for size in job.facts.task_memory_bytes]
    assert 0.3 * GIB_BYTES < median(sizes) < 0.5 * GIB_BYTES
    assert max(sizes) <= GIB_BYTES
    assert "must not be below" in refusal(write(tmp_path, text.replace("p95_gb: 0.9", "p95_gb: 0.1")))
    unknown = refusal(write(tmp_path, text.replace("task_memory: {research", "task_memory: {reserch")))
    assert "there is no queue 'reserch'; did you mean 'research'?" in unknown


def test_jobs_of_a_trace_weigh_what_their_queue_says(tmp_path: Path) -> None:
    hour = DATA / "FB-2009_samples_24_times_1hr_0_first50jobs.tsv"
    text = VALID.partition("workload:")[0] + TRACE.format(path=hour, p95=0.9)
    weights = "weights: {production: 4}, production_fraction"
    jobs = expand(load_experiment(write(tmp_path, text.replace("production_fraction", weights))), 1)
    assert {(job.queue, job.facts.weight_ppm) for job in jobs} == {("production", 4_000_000), ("research", 1_000_000)}
    unknown = refusal(write(tmp_path, text.replace("production_fraction", weights.replace("production:", "prod:"))))
    assert "workload.trace.weights.prod: there is no queue 'prod'" in unknown
    assert "weights" in refusal(write(tmp_path, text.replace("production_fraction", weights.replace("4", ".nan"))))

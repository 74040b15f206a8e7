"""What a trace has measured is not modelled again: the time to start, to fetch and to write is in its lengths."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.core.job import JobSpec
from emulator.costs.calibration import dump_calibration
from emulator.experiment.expand import expand
from emulator.experiment.load import load_experiment
from emulator.experiment.model import Experiment
from emulator.resolved import resolve
from emulator.sim.session import simulated_history
from tests.calibrations import make_calibration
from tests.traces import FIRST_50, FIVE_JOBS, GOOGLE, SLS, SWF, SYNTH, TWO_JOBS
from workloads.errors import Problems
from workloads.importers import open_trace
from workloads.store import write_workload

S = 10**9


def experiment_of(folder: Path, workload: str, *options: str, nodes: int = 4) -> Experiment:
    calibration = folder / "calibration.yaml"
    calibration.write_text(dump_calibration(make_calibration()))
    file = folder / "experiment.yaml"
    file.write_text(
        f"name: measured\nengine: sim\noverheads: {calibration}\n"
        f"cluster: {{nodes: {nodes}, containers_per_node: 8}}\n"
        "scheduler:\n  allocation:\n    name: two-queue\n"
        "    queues: {production: {capacity: 0.25}, research: {capacity: 0.75}}\n"
        f"workload: {workload}\n"
    )
    return load_experiment(file, options)


def trace(path: Path, format: str, more: str = "") -> str:
    return f"{{trace: {{format: {format}, path: {path}, production_fraction: 0.0, lenient: true{more}}}}}"


def completions_s(experiment: Experiment, jobs: tuple[JobSpec, ...]) -> list[float]:
    return [(job.completion_ns or 0) / S for job in simulated_history(resolve(experiment, jobs)).jobs]


@pytest.mark.parametrize(
    ("path", "format", "measured"),
    [
        (FIVE_JOBS, "rumen", True),
        (TWO_JOBS, "rumen", True),
        (SLS, "sls", True),
        (SWF, "swf", True),
        (GOOGLE, "google", True),
        (FIRST_50, "swim", False),
        (SYNTH, "synth", False),
    ],
)
def test_measured_jobs_move_no_bytes_and_their_starts_are_not_padded(
    tmp_path: Path, path: Path, format: str, measured: bool
) -> None:
    recorded = {job.job: job for job in open_trace(path, format, Problems(True)).jobs}  # type: ignore[arg-type]
    jobs = expand(experiment_of(tmp_path, trace(path, format)), 1)
    assert jobs
    for job in jobs:
        mine = measured and any(task.source == "measured" for task in recorded[job.name].tasks or ())
        assert job.starts_measured is mine
        if mine:
            assert (job.shuffle_bytes, job.output_bytes) == (None, None)
    if format == "swim":
        assert all(job.output_bytes for job in jobs)
    write_workload(tmp_path / "same.parquet", open_trace(path, format, Problems(True)))  # type: ignore[arg-type]
    assert expand(experiment_of(tmp_path, trace(tmp_path / "same.parquet", "natjam")), 1) == jobs


def test_bytes_that_are_asked_for_are_moved(tmp_path: Path) -> None:
    for scale, moved in (("", [None, None]), (", data_scale: 0.001", [40_000_000] * 2)):
        jobs = expand(experiment_of(tmp_path, trace(TWO_JOBS, "rumen", scale)), 1)
        assert [job.output_bytes for job in jobs] == moved


def test_two_jobs_of_96_maps_take_what_they_took(tmp_path: Path) -> None:
    """96 maps of TeraGen on 32 containers: YARN 3.4.1 took 84.5 s for them."""
    experiment = experiment_of(tmp_path, trace(TWO_JOBS, "rumen"))
    jobs = expand(experiment, 1)
    written = ", ".join(
        f"{{name: {job.name}, queue: research, submit_s: {job.submit_ns / S}, maps: 96, "
        f"map_s: [{', '.join(str(length / S) for length in job.map_ns)}]}}"
        for job in jobs
    )
    by_hand = experiment_of(tmp_path, f"{{jobs: [{written}]}}")
    took_s = completions_s(experiment, jobs)
    assert took_s == completions_s(by_hand, expand(by_hand, 1))
    assert 82 <= took_s[0] <= 84.5
    padded_s = completions_s(experiment_of(tmp_path, trace(TWO_JOBS, "rumen"), "overheads=hadoop-0.23"), jobs)
    assert padded_s[0] - took_s[0] < 3.5, "the ApplicationMaster's start alone is padded"

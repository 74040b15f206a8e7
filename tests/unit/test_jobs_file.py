"""Workloads in a file of their own: read like a list of jobs, and written where a run has many."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from experiment_files import VALID, refusal, write

from analysis.load import read_configuration
from emulator.experiment.jobs_file import JOBS_NAME, encode_jobs
from emulator.experiment.load import load_experiment
from emulator.experiment.model import Experiment
from emulator.files.yaml_positions import read_bytes
from emulator.records.run_directory import MAX_JOBS_IN_YAML, RunDirectory
from tests.refusals import refused

WITHOUT_JOBS = VALID.partition("  jobs:")[0]


def with_jobs(folder: Path, *lines: str) -> Path:
    (folder / "jobs.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return write(folder, WITHOUT_JOBS + "  jobs: {file: jobs.jsonl}\n")


def many(folder: Path, count: int) -> Experiment:
    experiment = load_experiment(write(folder, VALID))
    assert experiment.workload.jobs is not None
    jobs = tuple(job for n in range(count) for job in (experiment.workload.jobs[n % 2],))
    named = tuple(job.model_copy(update={"name": f"{job.name}-{n}"}) for n, job in enumerate(jobs))
    return experiment.model_copy(update={"workload": experiment.workload.model_copy(update={"jobs": named})})


def test_a_file_of_jobs_is_a_list_of_jobs(tmp_path: Path) -> None:
    experiment = load_experiment(write(tmp_path, VALID))
    assert experiment.workload.jobs is not None
    path = with_jobs(tmp_path, *encode_jobs(experiment.workload.jobs).decode().splitlines())
    assert load_experiment(path) == experiment
    changed = load_experiment(path, ["workload.jobs.1.maps=9"]).workload.jobs
    assert changed is not None
    assert [job.maps for job in changed] == [4, 9]


@pytest.mark.parametrize("count", [MAX_JOBS_IN_YAML, MAX_JOBS_IN_YAML + 1])
def test_what_a_run_writes_loads_back_equal(tmp_path: Path, count: int) -> None:
    experiment = many(tmp_path, count)
    directory = RunDirectory(tmp_path / "run")
    directory.path.mkdir()
    sha256 = directory.write_experiment(experiment)
    assert (directory.path / JOBS_NAME).exists() == (count > MAX_JOBS_IN_YAML)
    assert load_experiment(directory.path / "experiment.yaml") == experiment
    assert len(read_configuration(directory.path)["workload"]["jobs"]) == count
    again = RunDirectory(tmp_path / "again")
    again.path.mkdir()
    assert again.write_experiment(experiment) == sha256


def test_another_file_than_the_run_wrote_is_refused(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path / "run")
    directory.path.mkdir()
    directory.write_experiment(many(tmp_path, MAX_JOBS_IN_YAML + 1))
    jobs = directory.path / JOBS_NAME
    jobs.write_text(jobs.read_text().replace("47", "46"))
    assert refusal(directory.path / "experiment.yaml").startswith(f"{jobs}: was changed after")
    jobs.unlink()
    assert refusal(directory.path / "experiment.yaml") == f"{jobs}: there is no such file"


def test_a_file_that_is_too_large_is_refused_in_words_that_fit_any_file(tmp_path: Path) -> None:
    path = tmp_path / "jobs.jsonl"
    path.write_bytes(bytes(2**20 + 1))
    too_large = f"{path}: is larger than 1 MiB, the most that natjam reads of such a file"
    assert refused(read_bytes, path, 2**20) == too_large
    assert len(read_bytes(path, 2**20 + 1)) == 2**20 + 1


GOOD = json.dumps({"name": "a", "queue": "research", "maps": 1})


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"name": "b", "queue": "reserch", "maps": 1}', "workload.jobs.1.queue: there is no queue 'reserch'"),
        ('{"name": "a", "queue": "research", "maps": 1}', "jobs.0 has the same name, 'a'"),
        ('{"name": "b", "queue": "research", "mapps": 1}', "workload.jobs.1.mapps: unknown key; did you mean 'maps'?"),
        ('{"name": "b", "queue": "research", "maps": 1, "map_s": [1, -2]}', "workload.jobs.1.map_s.1: must be"),
        ("[1, 2]", "Expected `object`, got `array`"),
        ("{", "not JSON"),
        ("", "not JSON"),
        ('{"a":' * 5000, "not JSON"),
    ],
)
def test_what_is_wrong_is_told_with_file_and_line(tmp_path: Path, line: str, words: str) -> None:
    message = refusal(with_jobs(tmp_path, GOOD, line))
    assert message.splitlines()[0].startswith(f"{tmp_path / 'jobs.jsonl'}:2: ")
    assert words in message


def test_a_wrong_name_of_the_file_is_told(tmp_path: Path) -> None:
    path = write(tmp_path, WITHOUT_JOBS + "  jobs: {file: [1]}\n")
    assert refusal(path) == f"{path}:17: workload.jobs: must be a list of jobs or {{file: ..., sha256: ...}}"
    assert "is a directory" in refusal(write(tmp_path, WITHOUT_JOBS + "  jobs: {file: .}\n"))

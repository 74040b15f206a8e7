"""Programs of an experiment: their files are beside it, and what is missing is said before anything starts."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from emulator.core.job import ProgramSpec
from emulator.errors import ConfigError
from emulator.experiment.expand import expand
from emulator.experiment.load import load_experiment
from tests.commands import invoked
from tests.experiment_files import complaints


def experiment_file(directory: Path, tasks: Any, engine: str = "live", mechanism: Any = "kill") -> Path:
    path = directory / "mine.yaml"
    allocation = {"name": "two-queue", "queues": {"a": {"capacity": 0.5}, "b": {"capacity": 0.5}}}
    scheduler = {"allocation": allocation, **({} if mechanism is None else {"mechanism": mechanism})}
    cluster = {"nodes": 1, "containers_per_node": 4}
    workload = {"jobs": [{"name": "train", "queue": "a", "tasks": tasks}]}
    content = {"name": "mine", "engine": engine, "cluster": cluster, "scheduler": scheduler, "workload": workload}
    path.write_text(yaml.safe_dump(content))
    return path


def program_of(path: Path) -> ProgramSpec:
    (job,) = expand(load_experiment(path), 1)
    assert job.program is not None
    return job.program


def test_program_script_input_and_directory_are_beside_the_experiment(tmp_path: Path) -> None:
    for name in ("train.py", "run.sh", "data.txt"):
        (tmp_path / name).touch(mode=0o755)
    tasks = {
        "command": ["{python}", "-u", "train.py", "{here}/data.txt", "--out=model.npy", "data.txt"],
        "length_s": 1,
        "input": "data.txt",
        "directory": ".",
        "environment": {"DATA": "{here}/data.txt"},
    }
    program = program_of(experiment_file(tmp_path, tasks))
    data = str(tmp_path / "data.txt")
    assert program.command == ("{python}", "-u", f"{tmp_path}/train.py", data, "--out=model.npy", "data.txt")
    assert (program.directory, program.input, program.environment) == (str(tmp_path), data, (("DATA", data),))
    assert program_of(experiment_file(tmp_path, {"command": ["./run.sh"], "length_s": 1})).command == (
        f"{tmp_path}/run.sh",
    )
    shell = {"command": ["sh", "run.sh"], "length_s": 1}
    assert program_of(experiment_file(tmp_path, shell)).command == ("sh", f"{tmp_path}/run.sh")
    plain = {"command": ["{python}", "-c", "print(1)"], "length_s": 1}
    assert program_of(experiment_file(tmp_path, plain)) == ProgramSpec(("{python}", "-c", "print(1)"))


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        ({"command": ["{python}", "train.py"]}, "tasks.command.1: there is no file train.py in "),
        ({"command": ["./run.sh"]}, "tasks.command.0: there is no program ./run.sh, neither in "),
        ({"command": ["sleep", "1"], "environment": {"PATH": "/nowhere"}}, "there is no program sleep"),
        ({"command": ["true"], "input": "in.txt"}, "tasks.input: there is no such file: "),
        ({"command": ["true"], "directory": "data\0"}, "tasks.directory: there is no such directory: "),
        ({"command": ["true"], "environment": {"A=B": "c"}}, "tasks.environment"),
    ],
)
def test_what_is_missing_is_said_before_anything_starts(tmp_path: Path, tasks: dict[str, Any], said: str) -> None:
    path = experiment_file(tmp_path, {**tasks, "length_s": 1})
    (problem,) = complaints(path)
    assert problem.startswith(f"{path}:")
    assert said in problem
    if "environment" not in tasks:
        load_experiment(experiment_file(tmp_path, {**tasks, "length_s": 1}, "sim"))  # a simulation starts nothing


def test_tasks_are_counted_apart_from_reduces(tmp_path: Path) -> None:
    path = experiment_file(tmp_path, {"command": [sys.executable, "-c", "pass"], "length_s": 1, "count": 3})
    said = invoked("validate", path).stdout
    assert "valid: 1 job, 3 program tasks on 4 containers" in said


@pytest.mark.parametrize("mechanism", [None, "checkpoint", {"name": "adaptive", "among": ["kill", "checkpoint"]}])
def test_a_program_under_checkpoint_is_refused_with_what_works(tmp_path: Path, mechanism: Any) -> None:
    tasks = {"command": ["{python}", "-c", "pass"], "length_s": 1}
    path = experiment_file(tmp_path, tasks, "sim", mechanism)
    (problem,) = complaints(path)
    assert (
        "workload.jobs.0.tasks: a program has no keys to save: under mechanism checkpoint it would run to its end"
        in problem
    )
    assert all(
        words in problem for words in ("as under wait", "suspend", "kill", "checkpoint_period_s", "image", "criu")
    )
    (tmp_path / "mine.yaml").write_text(
        path.read_text().replace("  - name: train", "  - name: train\n    mechanism: kill")
    )
    load_experiment(path)


values = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=8), st.lists, max_leaves=5)


@given(command=values, directory=values, given_input=values, environment=st.dictionaries(st.text(max_size=4), values))
def test_nothing_that_can_be_written_there_breaks_the_reader(
    command: Any, directory: Any, given_input: Any, environment: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tasks = {"command": command, "directory": directory, "input": given_input, "environment": environment}
    path = experiment_file(tmp_path_factory.getbasetemp(), {**tasks, "length_s": 1})
    with contextlib.suppress(ConfigError):
        load_experiment(path)

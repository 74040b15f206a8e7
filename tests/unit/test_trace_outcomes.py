"""Runs of a trace beside what the trace recorded: ``natjam workload compare``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analysis.trace_outcomes import trace_outcomes
from emulator.errors import ConfigError
from emulator.files.yaml_values import dump_yaml
from tests.commands import run_natjam
from tests.simulated_runs import simulate
from workloads.record import Header, Outcome, Trace, WorkloadJob, WorkloadTask, measured
from workloads.store import write_workload

S = 10**9


def job(name: str, submit_s: int, reduces_s: list[int], priority: int, took_s: int | None, **more: int) -> WorkloadJob:
    tasks = tuple(
        WorkloadTask("reduce", length_s * S, evictions=more.get("evictions"), lost_ns=more.get("lost_s", 0) * S)
        for length_s in reduces_s
    )
    outcome: Outcome | None = None if took_s is None else "succeeded"
    finish_ns = None if took_s is None else (submit_s + took_s) * S
    return WorkloadJob(
        name, submit_s * S, priority=priority, tasks=tasks, shuffle_bytes=0, finish_ns=finish_ns, outcome=outcome
    )


JOBS = (
    job("low", 0, [60, 50, 40], 0, 100, evictions=2, lost_s=30),
    job("high", 20, [10, 10], 9, 25),
    job("open", 30, [5], 0, None),
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    columns = {name: measured(name) for name in ("priority", "finish_ns", "tasks", "tasks.length_ns")}
    write_workload(folder / "trace.jsonl", Trace(Header("x", "zero", columns), iter(JOBS)))
    experiment = {
        "name": "classes",
        "cluster": {"nodes": 2, "containers_per_node": 2},
        "scheduler": {
            "allocation": {
                "name": "two-queue",
                "queues": {"production": {"capacity": 0.5}, "research": {"capacity": 0.5}},
            },
            "job_eviction": "mr",
            "task_eviction": "srt",
            "mechanism": "checkpoint",
        },
        "workload": {"trace": {"format": "natjam", "path": "trace.jsonl", "production_priority": 9}},
    }
    (folder / "classes.yaml").write_text(dump_yaml(experiment))
    return {
        mechanism: simulate(folder, mechanism, f"scheduler.mechanism={mechanism}", file=folder / "classes.yaml")
        for mechanism in ("kill", "checkpoint")
    }


def test_the_traces_own_beside_each_run(runs: dict[str, Path]) -> None:
    found = trace_outcomes(list(runs.values()))
    assert list(found.own) == ["low", "high", "open"]
    assert [one["completion_s"] for one in found.own.values()] == [100, 25, None]
    told = found.to_json()
    assert told["low"]["trace"] == {"completion_s": 100, "evictions": 6, "lost_s": 90}
    assert found.priorities == {"low": 0, "high": 9, "open": 0}
    for name, path in runs.items():
        jobs = {one["name"]: one for one in json.loads((path / "summary.json").read_text())["jobs"]}
        outcomes = {job: one["runs"][name] for job, one in told.items()}
        assert {job: one["completion_s"] for job, one in outcomes.items()} == {
            job: one["completion_s"] for job, one in jobs.items()
        }
        assert outcomes["low"]["evictions"] == jobs["low"]["kills"] + jobs["low"]["suspensions"] > 0
    assert told["low"]["runs"]["kill"]["lost_s"] > told["low"]["runs"]["checkpoint"]["lost_s"]


def test_the_command_prints_classes_and_jobs(runs: dict[str, Path], tmp_path: Path) -> None:
    arguments = ["workload", "compare", *map(str, runs.values()), "--json", str(tmp_path / "told.json")]
    result = run_natjam(*arguments)
    for words in ("by priority", "evictions", "checkpoint", "kill", "trace", "high", "0.0"):
        assert words in result.stdout
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["high"]["trace"] == {"completion_s": 25, "evictions": 0, "lost_s": 0}
    assert set(told["low"]["runs"]) == {"kill", "checkpoint"}


def test_what_it_refuses(tmp_path: Path, runs: dict[str, Path]) -> None:
    without = simulate(tmp_path, "fig4", "workload.only={jobs: [production-S]}")
    with pytest.raises(ConfigError, match="there is no trace to compare with"):
        trace_outcomes([runs["kill"], without])
    with pytest.raises(ConfigError, match="no such directory"):
        trace_outcomes([tmp_path / "none"])

"""Loading run directories: every figure of the frames is that of the run's own files; what is no run is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analysis import metrics
from analysis.frames import DataFrame
from analysis.load import Results, load
from analysis.run_paths import find_runs
from emulator.errors import ConfigError
from tests.simulated_runs import simulate


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs of Fig. 4: one of two repeats, one suspended, one killed."""
    directory = tmp_path_factory.mktemp("runs")
    simulate(directory, "checkpoint", "repeats=2", "scheduler.task_eviction=random")
    simulate(directory, "suspend", "scheduler.mechanism=suspend")
    simulate(directory / "others", "kill", "scheduler.mechanism=kill")
    return directory


@pytest.fixture(scope="module")
def results(runs: Path) -> Results:
    return load(runs / "checkpoint", str(runs / "suspend"), runs / "others")


def test_a_jobs_name_is_called_the_same_in_every_frame(results: Results) -> None:
    for frame in (results.jobs, results.tasks, results.attempts, results.suspensions, results.operations):
        assert set(frame["job"]) <= {"research-XL", "production-S"}, frame.columns
    assert "name" not in results.jobs


def test_one_row_a_run_with_its_summary_and_configuration(results: Results) -> None:
    assert results.runs[["run", "repeat", "seed", "mechanism", "task_eviction"]].to_numpy().tolist() == [
        ["checkpoint", 1, 1, "checkpoint", "random"],
        ["checkpoint", 2, 2, "checkpoint", "random"],
        ["suspend", 1, 1, "suspend", "srt"],
        ["others/kill", 1, 1, "kill", "srt"],
    ]
    assert set(results.runs["containers"]) == {48}
    for row in results.runs.itertuples():
        summary = json.loads(Path(str(row.path), "summary.json").read_text())
        assert row.makespan_s == summary["makespan_s"]
        assert row.utilization == summary["work"]["utilization"]


def test_metrics_of_the_frames_are_those_of_the_summaries(results: Results) -> None:
    containers = results.runs.set_index(metrics.RUN)["containers"]
    jobs = metrics.job_metrics(results.jobs, results.tasks, containers)
    for row in results.runs.itertuples():
        summary = json.loads(Path(str(row.path), "summary.json").read_text())
        attempts = _of(results.attempts, row)
        useful_s, lost_s = (float(attempts[column].sum()) for column in ("useful_s", "lost_s"))
        assert lost_s / (useful_s + lost_s) == pytest.approx(summary["work"]["wasted_fraction"])
        times_s, busy = metrics.busy_containers(attempts, _of(results.suspensions, row))
        area_s = float((busy[:-1] * (times_s[1:] - times_s[:-1])).sum())
        assert area_s / (48 * summary["makespan_s"]) == pytest.approx(summary["work"]["utilization"])
        assert 0 <= busy.min() <= busy.max() <= 48
        for job in summary["jobs"]:
            (mine,) = _of(jobs, row).loc[lambda frame, name=job["name"]: frame["job"] == name].itertuples()
            assert (mine.completion_s, mine.suspensions) == (job["completion_s"], job["suspensions"])
            assert mine.queueing_s == job["start_s"] - job["submit_s"]
            assert mine.stretch > 1
            assert mine.missed is None
        for name, overhead in summary["overheads"].items():
            found = _of(results.operations, row).loc[lambda frame, name=name: frame["operation"] + "_s" == name]
            assert len(found) == overhead["n"]
            if overhead["n"]:
                assert found["total_s"].mean() == pytest.approx(overhead["mean"])
                assert found["total_s"].quantile(0.99) == pytest.approx(overhead["p99"])


def test_suspensions_and_suspended_time(results: Results) -> None:
    stopped = results.suspensions
    assert set(stopped["run"]) == {"suspend"}
    assert len(stopped) == results.jobs.loc[results.jobs["run"] == "suspend", "suspensions"].sum() > 0
    assert (stopped["asked_s"] <= stopped["stopped_s"]).all()
    assert (stopped["stopped_s"] < stopped["freed_s"]).all()
    assert (stopped["freed_s"] <= stopped["resume_ready_s"]).all()
    assert (stopped["resume_ready_s"] < stopped["resumed_s"]).all()
    by_run = results.attempts.groupby("run")["suspended_s"].sum()
    assert by_run["suspend"] == pytest.approx((stopped["resumed_s"] - stopped["stopped_s"]).sum())


def test_queue_metrics(results: Results) -> None:
    jobs = metrics.job_metrics(results.jobs, results.tasks, 48)
    queues = metrics.queue_metrics(jobs)
    assert len(queues) == 8
    assert set(queues["jobs"]) == {1}
    assert (queues["completion_mean_s"] == queues["completion_p99_s"]).all()
    assert queues["kills"].sum() == results.jobs["kills"].sum() > 0


def test_without_suspensions_the_frames_keep_their_columns(runs: Path) -> None:
    killed = load(runs / "others/kill")
    assert killed.runs["run"].tolist() == ["kill"]
    assert len(killed.suspensions) == 0
    assert {"stopped_s", "resumed_s", "asked_s", "freed_s", "resume_ready_s"} <= set(killed.suspensions.columns)


def test_runs_of_one_name_are_told_apart(runs: Path, tmp_path: Path) -> None:
    other = simulate(tmp_path, "suspend", "scheduler.mechanism=suspend")
    assert [run.run for run in find_runs([runs / "suspend", other])] == [str(runs / "suspend"), str(other)]
    (tmp_path / "checkpoint").symlink_to(runs / "checkpoint")
    named = [(run.run, run.repeat) for run in find_runs([runs / "checkpoint", tmp_path / "checkpoint"])]
    assert named == [(str(path / "checkpoint"), number) for path in (runs, tmp_path) for number in (1, 2)]
    with pytest.raises(ConfigError, match="the same run is named twice"):
        find_runs([runs / "suspend", runs / "suspend"])


def test_what_is_no_run_is_named(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="name at least one"):
        load()
    with pytest.raises(ConfigError, match=r"gone: there is no such directory"):
        load(tmp_path / "gone")
    with pytest.raises(ConfigError, match="has no finished run"):
        load(tmp_path)
    (tmp_path / "journal.jsonl.zst.unfinished").touch()
    with pytest.raises(ConfigError, match=r"has no summary.json: the run has not ended"):
        load(tmp_path)
    (tmp_path / "summary.json").write_text("{")
    with pytest.raises(ConfigError, match=r"summary.json: not JSON: Input data was truncated"):
        load(tmp_path)
    (tmp_path / "summary.json").write_bytes((runs / "suspend/summary.json").read_bytes())
    with pytest.raises(ConfigError, match=r"jobs.parquet: is missing"):
        load(tmp_path)
    (tmp_path / "jobs.parquet").write_text("no Parquet")
    with pytest.raises(ConfigError, match=r"jobs.parquet: cannot be read"):
        load(tmp_path)


def _of(frame: DataFrame, row: object) -> DataFrame:
    return frame[(frame["run"] == row.run) & (frame["repeat"] == row.repeat)]  # type: ignore[attr-defined]

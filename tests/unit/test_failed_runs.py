"""A run that fails or is killed leaves what there is of it, says so, and is never taken for one that has ended well."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from analysis.load import load
from emulator.records.run_directory import RunDirectory
from tests.commands import invoked, run_natjam
from tests.full_disk import file_size_limit
from tests.run_results import RunResults
from tests.simulated_runs import CATALOGUE, FIG4, simulate

MADE = {
    *("jobs.parquet", "tasks.parquet", "attempts.parquet", "operations.parquet", "decisions.parquet"),
    *("report.html", "timeline.perfetto.json", "summary.json"),
}
POLICY = """
def late(*given):
    # It is asked when production comes, 50 s after research.
    raise LookupError("nobody to be found")
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("whole")
    return simulate(directory, "run", "sim.journal=full", file=CATALOGUE / "facebook-50.yaml")


def killed(whole: Path, into: Path, share: float) -> Path:
    """What a run leaves whose driver is killed when that share of its journal was written."""
    into.mkdir()
    shutil.copy(whole / "experiment.yaml", into)
    journal = (whole / "journal.jsonl.zst").read_bytes()
    (into / "journal.jsonl.zst.unfinished").write_bytes(journal[: int(len(journal) * share)])
    return into


@pytest.mark.parametrize("share", [0.3, 0.7, 1.0])
def test_report_makes_of_a_killed_run_what_there_is(whole: Path, tmp_path: Path, share: float) -> None:
    run = killed(whole, tmp_path / "killed", share)
    result = invoked("report", run, "--out", tmp_path / "report.html")
    assert (result.exit_code, result.stderr) == (0, "")
    assert {path.name for path in run.iterdir()} == MADE | {"experiment.yaml", "journal.jsonl.zst.unfinished"}
    summary = RunResults(run).summary
    assert summary["state"] == "failed"
    assert "did not come to its end; its journal goes up to" in summary["reason"]
    attempts = RunResults(run).table("attempts")
    ended = {row["container"]: row["ended_s"] for row in attempts if row["outcome"] == "succeeded"}
    assert ended
    assert ended.items() <= {row["container"]: row["ended_s"] for row in RunResults(whole).table("attempts")}.items()
    for page in (tmp_path / "report.html", run / "report.html"):
        assert "did not come to its end" in page.read_text()
    assert len(load(run).attempts) == len(attempts)


def test_a_killed_run_in_which_nothing_had_happened_has_nothing_to_report(whole: Path, tmp_path: Path) -> None:
    for share in (0.0, 0.002):
        run = killed(whole, tmp_path / f"killed-{share}", share)
        result = invoked("report", run, "--out", tmp_path / "report.html")
        assert (result.exit_code, "Traceback" in result.output) == (2, False)
        assert not (run / "summary.json").exists()


def test_a_run_that_is_going_on_is_left_alone(whole: Path, tmp_path: Path) -> None:
    run = killed(whole, tmp_path / "running", 0.5)
    with RunDirectory(run).held():
        result = invoked("report", run, "--out", tmp_path / "report.html")
    assert (result.exit_code, result.stderr) == (2, f"natjam: {run}: the run is still going on\n")
    assert not (run / "summary.json").exists()


def test_the_repeats_of_a_killed_run_are_reported_too(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "run/repeat-1")
    killed(whole, tmp_path / "run/repeat-2", 0.5)
    run_natjam("report", tmp_path / "run", "--out", tmp_path / "report.html")
    states = [RunResults(tmp_path / f"run/repeat-{number}").summary["state"] for number in (1, 2)]
    assert states == ["finished", "failed"]


def test_a_run_that_fails_leaves_tables_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "failing_late.py").write_text(POLICY)
    shutil.copy(FIG4, tmp_path / "mine.yaml")
    policy = "scheduler.task_eviction=failing_late:late"
    options = ["--engine", "sim", "--set", "overheads=hadoop-0.23", "--set", policy]
    result = run_natjam("run", tmp_path / "mine.yaml", *options, "--out", tmp_path / "out", status=1)
    assert f"the results so far are in {tmp_path / 'out'}" in result.stderr
    summary = RunResults(tmp_path / "out").summary
    assert summary["state"] == "failed"
    assert "nobody to be found" in summary["reason"]
    assert {job["state"] for job in summary["jobs"]} == {"running"}
    assert {path.name for path in (tmp_path / "out").iterdir()} >= MADE


def test_a_disk_that_is_full_ends_the_run_and_what_there_is_is_reported_when_it_is_not(tmp_path: Path) -> None:
    out = tmp_path / "out"
    limit_bytes = 20_000
    with file_size_limit(limit_bytes):
        options = ["--engine", "sim", "--set", "overheads=hadoop-0.23", "--set", "sim.journal=full"]
        result = invoked("run", FIG4, *options, "--out", out)
    assert result.exit_code == 1
    assert "journal.jsonl.zst.unfinished: cannot be written: File too large" in result.stderr
    assert not (out / "summary.json").exists()
    run_natjam("report", out, "--out", tmp_path / "report.html")
    assert RunResults(out).summary["state"] == "failed"


def test_a_disk_that_is_full_leaves_no_half_a_table_and_no_half_a_report(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with file_size_limit(12_000):
        options = ["--engine", "sim", "--set", "overheads=hadoop-0.23", "--set", "sim.journal=off"]
        result = invoked("run", FIG4, *options, "--out", out)
    assert result.exit_code == 1
    assert "attempts.parquet: cannot be written" in result.stderr
    assert [path.name for path in out.glob("*.unfinished")] == []


def test_a_failed_run_is_made_again_by_a_campaign(whole: Path, tmp_path: Path) -> None:
    failed = killed(whole, tmp_path / "failed", 0.5)
    run_natjam("report", failed, "--out", tmp_path / "report.html")
    assert RunDirectory(whole).finished_summary() == RunResults(whole).summary
    assert RunDirectory(failed).finished_summary() is None

"""``natjam status`` of runs and campaigns that were not started with ``--detach``, and of what is none."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from emulator.records.run_directory import RunDirectory
from tests.commands import invoked, run_natjam
from tests.simulated_runs import simulate


def test_a_run_in_a_terminal_is_running_then_finished(tmp_path: Path) -> None:
    run = simulate(tmp_path, "run")
    (tmp_path / "run.log").write_text("what the user's own shell has put here\n")
    with RunDirectory(run).held():
        assert invoked("status", run).stdout == f"{run}: running, in the terminal where it was started\n"
    assert invoked("status", run).stdout == f"{run}: finished\n"


def test_attach_and_stop_say_that_a_run_is_in_another_terminal(tmp_path: Path) -> None:
    with RunDirectory(tmp_path).held():
        for command in ("attach", "stop"):
            said = invoked(command, tmp_path)
            assert (said.exit_code, "was not started with --detach" in said.stderr) == (2, True)


def test_a_run_that_failed_or_was_killed(tmp_path: Path) -> None:
    run = simulate(tmp_path, "run")
    summary = json.loads((run / "summary.json").read_text())
    (run / "summary.json").write_text(json.dumps({**summary, "state": "failed", "reason": "the disk was full"}))
    said = invoked("status", run)
    assert (said.exit_code, said.stderr) == (1, f"natjam: {run}: has failed: the disk was full\n")
    (run / "summary.json").unlink()
    said = run_natjam("status", run, status=1)
    assert f"has ended without results; 'natjam report {run}' shows how far it got" in said.stderr


@pytest.mark.parametrize("content", ['{"state": ', "", "[]"])
def test_a_run_whose_summary_is_damaged(tmp_path: Path, content: str) -> None:
    (tmp_path / "summary.json").write_text(content)
    said = invoked("status", tmp_path)
    words = "is damaged, it is no JSON object; run the experiment again"
    assert (said.exit_code, said.stderr) == (1, f"natjam: {tmp_path / 'summary.json'}: {words}\n")


def test_what_is_no_run(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        said = invoked("status", path)
        assert (said.exit_code, said.stderr) == (2, f"natjam: {path}: there is no run, campaign or measurement\n")


def test_a_campaign_of_the_catalogue_finds_the_policies_beside_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "beside_campaign.py").write_text(
        "def last(view, tasks, random):\n    return sorted((task.container for task in tasks), reverse=True)\n"
    )
    (tmp_path / "mine.yaml").write_text(
        "name: mine\nexperiment: catalog:natjam-fig4\nset: {engine: sim, overheads: hadoop-0.23}\nseeds: 1\n"
        "grid: {scheduler.task_eviction: ['beside_campaign:last']}\n"
    )
    run_natjam("campaign", tmp_path / "mine.yaml", "--out", tmp_path / "out")
    assert invoked("status", tmp_path / "out").stdout == f"{tmp_path / 'out'}: finished\n"

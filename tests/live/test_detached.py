"""``natjam run --detach``, and the commands about runs that go on by themselves."""

from __future__ import annotations

import os
import shutil
import stat
import urllib.request
from pathlib import Path

import pytest

from emulator.live.session.detached import log_path, printed, process_of
from tests.commands import invoked
from tests.live_runs import ENDLESS, SMALL, RayCluster, natjam, short_directory, until
from tests.other_user import reached_by_another_user

BOUND_S = 90


def test_a_run_goes_on_by_itself_until_its_end(
    ray_node: RayCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", ray_node.address)
    monkeypatch.setenv("RAY_AUTH_TOKEN", ray_node.token)
    (tmp_path / "out.page").write_text("the page of a run that was killed\n")
    out = _started(tmp_path, SMALL)
    assert natjam("status", out).stdout == f"{out}: running\n"
    attached = natjam("attach", out)
    assert attached.returncode == 0
    assert "verified" in attached.stdout
    assert attached.stdout == log_path(out).read_text()
    assert (out / "summary.json").exists()
    assert natjam("status", out).stdout == f"{out}: finished\n"


def test_a_run_is_stopped_and_has_kept_its_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with short_directory() as temporary:
        monkeypatch.setenv("TMPDIR", str(temporary))
        out = _started(tmp_path, ENDLESS, "--watch")
        until(lambda: "running" in log_path(out).read_text(), "the run at work", BOUND_S)
        address = next(printed(out)).decode().removeprefix("watch it at ").strip()
        assert b"<canvas" in urllib.request.urlopen(address, timeout=BOUND_S).read()
        assert address not in log_path(out).read_text()
        assert f"watch it with 'natjam attach {out}'" in log_path(out).read_text()
        files = [path for path in tmp_path.glob("out.*") if path.is_file()]
        assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in files} == {"out.log": 0o600, "out.page": 0o600}
        if os.geteuid() == 0:
            assert reached_by_another_user(temporary) == []
        assert natjam("stop", out).returncode == 0
        assert not (tmp_path / "out.page").exists()
    assert process_of(out) is None
    said = natjam("status", out)
    assert said.returncode == 1
    assert f"{out}: has ended without results; {log_path(out)} says why" in said.stderr
    assert "interrupted" in log_path(out).read_text()


@pytest.mark.slow
def test_a_campaign_goes_on_by_itself_and_what_failed_is_said(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(SMALL)
    (tmp_path / "many.yaml").write_text(
        "name: many\nexperiment: mine.yaml\nset: {engine: sim, overheads: hadoop-0.23}\nseeds: 2\n"
    )
    out = tmp_path / "campaign"
    assert natjam("campaign", tmp_path / "many.yaml", "--detach", "--out", out).returncode == 0
    assert natjam("attach", out).returncode == 0
    assert (out / "campaign.parquet").exists()
    assert natjam("status", out).stdout == f"{out}: finished\n"
    journal = next((out / "runs").rglob("summary.json"))
    shutil.rmtree(journal.parent)
    journal.parent.touch()  # the run cannot be repeated
    assert natjam("campaign", tmp_path / "many.yaml", "--detach", "--out", out).returncode == 0
    said = natjam("attach", out)
    assert said.returncode == 1
    assert f"{out}: has failed: 1 of 2 runs failed" in said.stderr


def test_what_is_no_detached_run_is_said(tmp_path: Path) -> None:
    for command in ("attach", "status", "stop"):
        said = invoked(command, tmp_path / "nowhere")
        assert said.exit_code == 2, command
        assert "nowhere: there is no run" in said.stderr or "no run that was started with --detach" in said.stderr


def _started(directory: Path, experiment: str, *options: str) -> Path:
    (directory / "mine.yaml").write_text(experiment)
    out = directory / "out"
    started = natjam("run", directory / "mine.yaml", "--detach", "--out", out, *options)
    assert started.returncode == 0, started.stderr
    assert process_of(out) is not None
    assert f"natjam stop {out}" in started.stdout
    return out

"""A run that is interrupted, terminated or killed leaves nothing behind, and nobody else's Ray is touched."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from emulator.core.completions import Suspended
from emulator.live.janitor import process_with_arguments
from tests.commands import run_natjam
from tests.live_runs import SMALL, NatjamRun, RayCluster, gone, send, until

INTERRUPTED = 130
KILLED = -signal.SIGKILL


ENDLESS = SMALL.replace("reduce_s: [30]", "reduce_s: [5000]").replace("reduce_s: [10]", "reduce_s: [5000]")
ENDLESS = ENDLESS.replace("submit_s: 12", "submit_s: 100")
"""Once production has its containers, some reduces of research are stopped for good; research has five real seconds to
take them all before."""


def test_an_interrupted_and_a_killed_run_leave_nothing(ray_cluster: RayCluster, tmp_path: Path) -> None:
    others = ray_cluster.processes()
    assert others
    for name in ("interrupted", "killed"):
        (tmp_path / name).mkdir()
    with (
        NatjamRun(tmp_path / "interrupted", "--watch", experiment=ENDLESS) as interrupted,
        NatjamRun(tmp_path / "killed", "--watch", experiment=ENDLESS) as killed,
    ):
        for run, number, status in ((interrupted, signal.SIGINT, INTERRUPTED), (killed, signal.SIGKILL, KILLED)):
            run.until(run.stopped, "a suspended reduce")
            assert killed.process.poll() is None, "it is not touched by the other's end"
            run.until(run.journalled(Suspended), "a suspension in the journal on the disk")
            host = run.host("applications-1")
            send(run.process, number)
            if run is interrupted:  # signals that follow do not stop the cleaning up
                run.until(lambda run=run: "cleaning up" in run.log, "the cleaning up")
                send(run.process, signal.SIGINT)
                until(lambda host=host: gone([host]), "the end of Ray's processes")
                send(run.process, signal.SIGTERM)
            _check_ended(run, status)
            _check_reported(run)
    assert others <= ray_cluster.processes()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
@pytest.mark.parametrize("sign", ["gcs_server", "raylet", "starting hosts", "NodeHostActor", "running"])
def test_a_run_ended_at_any_time_leaves_nothing(tmp_path: Path, number: signal.Signals, sign: str) -> None:
    with NatjamRun(tmp_path, experiment=ENDLESS) as run:
        run.until(lambda: sign in run.log or any(sign in process for process in run.left()), sign)
        send(run.process, number)
        _check_ended(run, KILLED if number == signal.SIGKILL else INTERRUPTED)


def _check_reported(run: NatjamRun) -> None:
    """Of what is on the disk tables and a report can be made."""
    run_natjam("report", run.out, "--out", run.out / "again.html")
    assert run.summary["state"] == "failed"
    assert any(row["suspended_spans"] for row in run.table("attempts"))


def test_the_next_run_ends_what_a_driver_killed_with_its_janitor_has_left(tmp_path: Path) -> None:
    with NatjamRun(tmp_path, experiment=ENDLESS) as run:
        run.walking("research")
        (sockets,) = run.socket_directories()
        os.kill(run.janitor(), signal.SIGKILL)
        if of_ray := process_with_arguments(os.getuid(), "--run-id", sockets.name.removeprefix("natjam-")):
            os.kill(of_ray, signal.SIGKILL)
        run.process.kill()
        run.wait()
        assert run.left()
        assert sockets.is_dir()
        (tmp_path / "next").mkdir()
        nowhere = {"RAY_ADDRESS": "127.0.0.1:1", "TMPDIR": str(run.temporary)}
        with NatjamRun(tmp_path / "next", variables=nowhere) as following:
            following.check_failed("cannot reach the cluster")
        assert not sockets.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_under_a_long_temporary_directory_sockets_are_in_a_short_one_that_is_removed(
    tmp_path: Path, number: signal.Signals
) -> None:
    long = tmp_path / ("batch-system-" * 12)
    long.mkdir()
    with NatjamRun(tmp_path, experiment=ENDLESS, variables={"TMPDIR": str(long)}) as run:
        run.walking("research")
        (sockets,) = run.socket_directories()
        assert {"plasma_store", "raylet"} == {each.name for each in sockets.rglob("*") if each.is_socket()}
        assert (sockets.stat().st_mode & 0o777, sockets.stat().st_uid) == (0o700, os.getuid())
        assert all(each.stat().st_mode & 0o077 == 0 for each in long.iterdir()), "other users cannot enter the data"
        assert sum(each.is_file() for each in long.rglob("*")) > 10, "data is where TMPDIR says"
        send(run.process, number)
        _check_ended(run, KILLED if number == signal.SIGKILL else INTERRUPTED)
        until(lambda: not sockets.exists(), "the end of the sockets' directory")


def _check_ended(run: NatjamRun, status: int) -> None:
    assert run.wait() == status, run.log
    run.check_nothing_left()
    assert "Traceback" not in run.log
    assert "SIGTERM received" not in run.log, "Ray's own words"
    assert not (run.out / "summary.json").exists()

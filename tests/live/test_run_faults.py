"""Processes of a run are killed: it goes on to the right output where it can, and says clearly why where it cannot."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.hosts_here import HostsHere
from tests.live_runs import ENDLESS, SMALL, NatjamRun, RayCluster
from tests.run_results import job_of, matching

LONGER = SMALL.replace("reduce_s: [30]", "reduce_s: [40]").replace("submit_s: 12", "submit_s: 15")


def test_killed_reduces_and_a_killed_supervisor_are_made_good(tmp_path: Path) -> None:
    with HostsHere(tmp_path, experiment=LONGER) as run:
        os.kill(run.walking("research", keys=4)[0].pid, signal.SIGKILL)
        os.kill(run.until(run.stopped, "a suspended reduce")[0].pid, signal.SIGKILL)
        run.until(lambda: run.committed("production") == 3, "production's end")
        before = run.supervisor()
        os.kill(before, signal.SIGKILL)
        run.until(lambda: run.supervisor() != before, "a new supervisor")
        summary = run.check_verified()
        attempts = run.table("attempts")
    research = job_of(summary, "research")
    assert research["suspensions"] > 0
    assert research["kills"] == 0, "nobody has killed for preemption"
    crashed = [row for row in attempts if row["outcome"] == "crashed"]
    killed = [row for row in crashed if row["reason"] == "killed by SIGKILL"]
    assert len(killed) == 2
    assert sorted(len(row["suspended_spans"]) for row in killed) == [0, 1]
    assert killed[0]["lost_s"] > 0
    assert killed[1]["lost_s"] > 0
    swept_away = [row for row in crashed if row["reason"].startswith("its supervisor died: ")]
    assert len(swept_away) >= 4
    assert len(crashed) == len(swept_away) + 2
    tasks = 2 + 7
    assert research["attempts"] == tasks + len([row for row in crashed if row["job"] == "research"])
    of_research = sum(row["lost_s"] for row in crashed if row["job"] == "research")
    assert research["lost_work_s"] == pytest.approx(of_research)
    assert summary["work"]["wasted_fraction"] > 0


def test_map_outputs_that_are_lost_are_made_again_and_no_reduce_fails(tmp_path: Path) -> None:
    two_waves = SMALL.replace("reduces: 7, reduce_s: [30]", "reduces: 12, reduce_s: [60]")
    with HostsHere(tmp_path, experiment=two_waves) as run:
        run.walking("research")
        outputs = [path for directory in run.work_directories() for path in matching(directory, "node-*/map/research")]
        assert outputs
        for path in outputs:
            shutil.rmtree(path)
        run.check_verified()
        attempts = [row for row in run.table("attempts") if row["job"] == "research"]
    assert {row["outcome"] for row in attempts if row["kind"] == "reduce"} <= {"succeeded", "killed"}
    assert "crashed" not in {row["outcome"] for row in attempts}
    succeeded = [row["task"] for row in attempts if row["kind"] == "map" and row["outcome"] == "succeeded"]
    assert sorted(succeeded) == [0, 0, 1, 1], "each map ran once more"


@pytest.mark.slow
def test_a_reduce_stopped_from_outside_times_out_and_one_with_a_long_key_does_not(tmp_path: Path) -> None:
    long_key = SMALL.replace("reduce_s: [30]", "reduce_s: [30, 900]").replace("key_s: 1}", "key_s: 900}", 1)
    settings = ("protocol.task_timeout_s=600", "scheduler.mechanism=wait")
    with HostsHere(tmp_path, *settings, experiment=long_key) as run:
        frozen = run.until(lambda: [task for task in run.tasks() if task.writes == "research"], "a reduce")[0]
        os.kill(frozen.pid, signal.SIGSTOP)
        run.check_verified()
        crashed = [row for row in run.table("attempts") if row["outcome"] == "crashed"]
    assert [row["reason"] for row in crashed] == ["no sign of life for 30 real seconds"]


def test_the_only_node_host_cannot_be_done_without(ray_node: RayCluster, tmp_path: Path) -> None:
    with NatjamRun(tmp_path, experiment=ENDLESS, cluster=ray_node) as run:
        run.walking("research")
        os.kill(run.host("nodes-1"), signal.SIGKILL)
        run.check_failed("nodes-1 has died and no node is left to go on with", f"are in {run.out}")
        check_failed_summary(run, "nodes-1 has died and no node is left to go on with")


def test_a_killed_shuffle_service_is_replaced_where_it_was(tmp_path: Path) -> None:
    two_waves = SMALL.replace("reduces: 7, reduce_s: [30]", "reduces: 12, reduce_s: [30]")
    with HostsHere(tmp_path, experiment=two_waves) as run:
        run.walking("research")
        before = run.shuffle_service()
        os.kill(before, signal.SIGKILL)
        run.until(lambda: run.shuffle_service() != before, "a new shuffle service")
        run.check_verified()
        attempts = [row for row in run.table("attempts") if row["kind"] != "application_master"]
    assert "crashed" not in {row["outcome"] for row in attempts}
    assert len([row for row in attempts if row["kind"] == "map"]) == 4, "no output was taken for lost"


def check_failed_summary(run: NatjamRun, reason: str) -> None:
    """It says that and why the run has failed, and the tables have what research had begun."""
    assert run.summary["state"] == "failed"
    assert reason in run.summary["reason"]
    assert job_of(run.summary, "research")["state"] == "running"
    assert {row["job"] for row in run.table("attempts") if row["first_key_s"] is not None} >= {"research"}
    assert (run.out / "report.html").exists()

"""Runs over two Ray nodes: a reduce resumes on the other one, one of them is lost, the driver is killed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.live_runs import (
    ENDLESS,
    LEFT_BOUND_S,
    SMALL,
    TWO_QUEUES,
    NatjamRun,
    RayCluster,
    gone,
    listening,
    ray_nodes,
    until,
)
from tests.run_results import job_of, matching

CROWDED = (
    TWO_QUEUES
    + """\
name: crowded
cluster: {nodes: 2, containers_per_node: 2}
workload:
  jobs:
    - {name: research, queue: research, submit_s: 0, maps: 3, map_s: 1, reduces: 3, reduce_s: [20], key_s: 1}
    - {name: production, queue: production, submit_s: 10, maps: 1, map_s: 1, reduces: 1, reduce_s: [50], key_s: 1}
"""
)
"""Four containers.  Production takes two of the three in which research has reduces, and keeps them until research has
ended: both stopped reduces go on in the fourth, and one of them at least comes from the other node."""


SPREAD = SMALL.replace("maps: 2, map_s: 1, reduces: 7", "maps: 6, map_s: 1, reduces: 7").replace("12", "35")
"""More maps than a node has containers, so that both have some; production comes when all is over."""


def test_a_reduce_resumes_on_the_other_ray_node(ray_cluster: RayCluster, tmp_path: Path) -> None:
    inputs: set[tuple[str, int]] = set()
    """(node, task): where the input of research's reduces has been seen."""
    with NatjamRun(tmp_path, experiment=CROWDED, cluster=ray_cluster) as run:
        run.walking("research")
        for name, expected in (("nodes-1", "127.0.0.1"), ("nodes-2", "127.0.0.2")):
            assert {address for address, _ in listening(run.shuffle_service(name))} == {expected}
        assert {path.stat().st_mode & 0o777 for path in run.work_directories()} == {0o700}
        while run.process.poll() is None:
            for directory in run.work_directories():
                reduces = matching(directory, "node-*/local/research/[0-9]*")
                inputs |= {(path.parts[-4], int(path.name)) for path in reduces}
            time.sleep(0.05)
        summary = run.check_verified()
        assert summary["shuffle_http_bytes"] > 0
        (machine,) = summary["machines"]
        assert {"nodes-1", "nodes-2"} < set(machine["hosts"])
        attempts = {row["attempt"]: row for row in run.table("attempts")}
    assert {row["node"] for row in attempts.values()} == {"node-1", "node-2"}
    resumed = [row for row in attempts.values() if row["resumed_from"]]
    moved = [row for row in resumed if row["node"] != attempts[row["resumed_from"]]["node"]]
    assert moved, resumed
    for row in moved:
        assert row["outcome"] == "succeeded"
        assert row["keys_start"] == attempts[row["resumed_from"]]["keys_done"] > 0
        assert {("node-1", row["task"]), ("node-2", row["task"])} <= inputs, "fetched again where it went on"


def test_the_run_goes_on_without_a_lost_node_host(ray_cluster: RayCluster, tmp_path: Path) -> None:
    with NatjamRun(tmp_path, experiment=SPREAD, cluster=ray_cluster) as run:
        run.walking("research", keys=12)  # half a second: what its journal says of them has been collected
        # Eight containers: where there is no ApplicationMaster, which the job could not do without, are four reduces.
        victim = next(name for name in ("nodes-1", "nodes-2") if len(run.tasks(name)) == 4)
        node, other = ("node-1", "node-2") if victim == "nodes-1" else ("node-2", "node-1")
        (lost_directory,) = [path for path in run.work_directories() if path.name.endswith(victim)]
        lost = [run.host(victim), run.supervisor(victim), run.shuffle_service(victim)]
        lost += [task.pid for task in run.tasks(victim)]
        os.kill(lost[0], signal.SIGKILL)
        until(lambda: gone(lost), "the lost host's processes gone", LEFT_BOUND_S)
        until(lambda: not lost_directory.exists() or victim == "nodes-1", "its directory gone", LEFT_BOUND_S)
        assert run.process.poll() is None, run.log
        summary = run.check_verified()
        assert job_of(summary, "research")["lost_work_s"] > 0
        attempts = run.table("attempts")
    ended = [row for row in attempts if row["outcome"] == "lost"]
    assert {row["node"] for row in ended} == {node}
    assert all(f"its host {victim} has died" in row["reason"] for row in ended)
    last_lost_s = max(row["ended_s"] for row in ended)
    later = [row for row in attempts if row["launched_s"] and row["launched_s"] > last_lost_s]
    assert {row["node"] for row in later} == {other}
    maps = [row for row in attempts if row["kind"] == "map" and row["job"] == "research"]
    rerun = {row["task"] for row in maps if row["node"] == node}
    assert rerun, "a map's output was lost"
    for task in rerun:
        assert [row["node"] for row in maps if row["task"] == task] == [node, other]


@pytest.mark.slow
def test_a_node_host_ends_with_its_raylet(tmp_path: Path) -> None:
    longer = SPREAD.replace("reduce_s: [30]", "reduce_s: [150]")
    with ray_nodes(2) as cluster, NatjamRun(tmp_path, experiment=longer, cluster=cluster) as run:
        run.walking("research")
        theirs = [run.host("nodes-2"), run.supervisor("nodes-2"), *(task.pid for task in run.tasks("nodes-2"))]
        os.kill(cluster.raylet("127.0.0.2"), signal.SIGKILL)
        until(lambda: gone(theirs), "the processes of its node gone", LEFT_BOUND_S)
        assert run.process.poll() is None, "the run goes on without them"
        run.check_verified()
        assert all(row["start_s"] is not None for row in run.table("tasks")), "the journal shows all that was done"


def test_an_ended_driver_leaves_nothing_on_either_node(ray_cluster: RayCluster, tmp_path: Path) -> None:
    before = ray_cluster.processes()
    with _both(tmp_path, "terminated", "killed", cluster=ray_cluster) as (terminated, killed):
        for run, number, status in ((terminated, signal.SIGTERM, 130), (killed, signal.SIGKILL, -signal.SIGKILL)):
            run.walking("research")
            assert len(run.work_directories()) == 2
            run.process.send_signal(number)
            assert run.wait() == status
            run.check_nothing_left()
            assert "SIGTERM received" not in run.log, "Ray's own words"
            assert not (run.out / "summary.json").exists()
    assert before <= ray_cluster.processes(), "the cluster is as it was"


@contextmanager
def _both(directory: Path, *names: str, cluster: RayCluster) -> Iterator[list[NatjamRun]]:
    """Runs of these names, side by side: they are not touched by each other's end."""
    with ExitStack() as running:
        for name in names:
            (directory / name).mkdir()
        runs = (NatjamRun(directory / name, experiment=ENDLESS, cluster=cluster) for name in names)
        yield [running.enter_context(run) for run in runs]

"""Runs whose tasks hold memory: paged out and in on a swap file of their own, of which nothing is ever left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from emulator.live.memory.held import swapped_bytes_of
from tests.commands import run_natjam
from tests.hosts_here import HostsHere
from tests.live_runs import LiveRun, NatjamRun, RayCluster
from tests.memory import MIB, groups_of, needs_swap

pytestmark = needs_swap

SIZE_BYTES = 48 * MIB
PAGED = """\
name: paged
time_scale: 20
cluster: {nodes: 1, containers_per_node: 1, container_memory_gb: 1, memory_gb: 1, swap_gb: 2,
          application_masters: outside}
live: {memory_scale: 0.046875}
scheduler:
  allocation:
    name: two-queue
    queues: {production: {capacity: 0.5, maximum: 1.0}, research: {capacity: 0.5, maximum: 1.0}}
  mechanism: suspend
workload:
  jobs:
    - {name: low, queue: research, submit_s: 0, maps: 0, reduces: 1, reduce_s: 60, key_s: 1, memory_gb: 1}
    - {name: high, queue: production, submit_s: 20, maps: 0, reduces: 1, reduce_s: 20, key_s: 1, memory_gb: 1}
"""
"""Of two tasks that fill a node the first is stopped for the second."""
JOBS = ("low", "high")
ENDLESS = PAGED.replace("reduce_s: 20", "reduce_s: 9000")


def test_a_run_says_how_much_was_paged_out_and_leaves_nothing(tmp_path: Path) -> None:
    with HostsHere(tmp_path, experiment=PAGED) as run:
        run.until(run.stopped, "a suspended reduce")
        assert len(groups_of(run.run_id)) == 1
        summary = run.check_verified()
    emulated_bytes = SIZE_BYTES / 0.046875
    assert 0.7 * emulated_bytes < summary["swap_bytes"] < 1.3 * emulated_bytes
    assert sum(row["swapped_bytes"] for row in run.table("attempts") if row["job"] == "low") == summary["swap_bytes"]
    (resume,) = [row for row in run.table("operations") if row["operation"] == "resume"]
    assert resume["swapped_bytes"] == summary["swap_bytes"]
    low, high = [
        [span for row in run.table("attempts") if row["job"] == job for span in row["paging_spans"]] for job in JOBS
    ]
    assert high[0]["in_bytes"] == 0
    # The kernel's choice is approximate: it may page out a little of the task that writes, which is read in at its end.
    assert sum(span["in_bytes"] for span in high) < 0.3 * emulated_bytes
    assert high[0]["out_bytes"] == pytest.approx(summary["swap_bytes"], rel=0.3)
    assert low[-1]["in_bytes"] == pytest.approx(summary["swap_bytes"], rel=0.1)
    assert all(span["began_s"] < span["ended_s"] for span in (*low, *high))
    assert [job["suspensions"] for job in summary["jobs"]] == [1, 0]
    assert summary["work"]["lost_s"] == 0


def paged_out(run: LiveRun) -> list[int]:
    """Stopped tasks, once most of the memory of one is in swap."""
    pids = [task.pid for task in run.stopped()]
    return [pid for pid in pids if swapped_bytes_of(pid) > SIZE_BYTES / 2]


def _killed(run: NatjamRun) -> None:
    run.process.kill()
    run.wait()


def _host_killed(run: NatjamRun) -> None:
    os.kill(run.host("nodes-1"), signal.SIGKILL)
    run.check_failed("nodes-1 has died")


@pytest.mark.parametrize("end", [_killed, pytest.param(_host_killed, marks=pytest.mark.slow)])
def test_nothing_of_it_is_left_however_a_run_ends(
    ray_node: RayCluster, tmp_path: Path, end: Callable[[NatjamRun], None]
) -> None:
    with NatjamRun(tmp_path, experiment=ENDLESS, cluster=ray_node) as run:
        run.until(lambda: paged_out(run), "a task that is paged out")
        assert len(groups_of(run.run_id)) == 1
        end(run)


def test_tasks_start_again_in_the_same_swap_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    with HostsHere(tmp_path, experiment=PAGED) as run:
        run.until(lambda: paged_out(run), "a task that is paged out")
        os.kill(run.supervisor(), signal.SIGKILL)
        run.check_verified()


_HOG = """
import sys, time
open(sys.argv[1], "w").write("0")
open("/proc/self/oom_score_adj", "w").write("-1000")
taken = bytearray(b"natjam") * (int(sys.argv[2]) // 6)
open(sys.argv[1].rsplit("/", 2)[0] + "/cgroup.procs", "w").write("0")  # what it has taken stays charged to the group
time.sleep(600)
"""


@pytest.mark.slow
def test_a_full_swap_fails_the_run_with_the_numbers(ray_node: RayCluster, tmp_path: Path) -> None:
    """Somebody takes the room that was promised to the node's tasks: the kernel kills every attempt."""
    with NatjamRun(tmp_path, experiment=ENDLESS, cluster=ray_node) as run:
        run.until(lambda: paged_out(run), "a task that is paged out")
        (group,) = groups_of(run.run_id)
        command = [sys.executable, "-c", _HOG, str(group / "cgroup.procs"), str(190 * MIB)]
        with subprocess.Popen(command) as hog:
            try:
                run.check_failed("the kernel killed it: node-1 had no memory left, of 56 MiB, nor swap, of 160 MiB")
            finally:
                hog.kill()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            "live.memory_scale=1.0 cluster.nodes=1000",
            "live.memory_scale: at 1 the tasks of 1000 nodes hold up to 1024000 MiB",
        ),
        ("cluster.swap_gb=100000000", "cluster.swap_gb: "),
        ("cluster.container_memory_gb=0.5", "a task that holds 1 GB does not fit a container of 0.5 GB"),
        ("cluster.memory_gb=0.5", "1 container of 1 GB needs 1 and a node has 0.5"),
    ],
)
def test_what_this_machine_has_not_is_said_before_anything_starts(tmp_path: Path, change: str, said: str) -> None:
    options = [part for one in change.split() for part in ("--set", one)]
    (tmp_path / "paged.yaml").write_text(PAGED)
    done = run_natjam("run", tmp_path / "paged.yaml", *options, "--out", tmp_path / "out", status=2)
    assert said in done.stderr
    assert not (tmp_path / "out").exists()

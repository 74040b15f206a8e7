"""What goes wrong only once a run is under way: one clear message, status 1, no traceback, no half of a summary."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import run_natjam
from tests.full_disk import small_disk
from tests.hosts_here import HostsHere
from tests.live_runs import NatjamRun, RayCluster
from tests.run_results import job_of

POLICY = '''
def raising(view, jobs, random):
    """A job eviction policy."""
    raise LookupError("nobody to be found")
'''


def test_a_policy_of_the_users_that_fails(ray_node: RayCluster, tmp_path: Path) -> None:
    (tmp_path / "bad_policies.py").write_text(POLICY)
    options = ("--set", "scheduler.job_eviction=bad_policies:raising")
    with NatjamRun(tmp_path, *options, cluster=ray_node, variables={"PYTHONPATH": str(tmp_path)}) as run:
        run.check_failed("eviction", "bad_policies:raising", "nobody to be found")
        assert run.summary["state"] == "failed"
        assert "nobody to be found" in run.summary["reason"]


def test_a_cluster_that_is_not_there(tmp_path: Path) -> None:
    with NatjamRun(tmp_path, variables={"RAY_ADDRESS": "127.0.0.1:1"}) as run:
        run.check_failed("cannot reach the cluster at RAY_ADDRESS=127.0.0.1:1: Connection refused")


def test_a_temporary_directory_whose_name_ray_cannot_take(tmp_path: Path) -> None:
    with (
        tempfile.TemporaryDirectory(suffix="é") as temporary,
        NatjamRun(tmp_path, variables={"TMPDIR": temporary}) as run,
    ):
        run.check_failed(f"TMPDIR={temporary}: ", "ASCII")


def test_a_cluster_with_another_token(ray_node: RayCluster, tmp_path: Path) -> None:
    # Ray tries twenty times, unless told otherwise.
    variables = {"RAY_AUTH_TOKEN": "0" * 64, "RAY_NUM_REDIS_GET_RETRIES": "1"}
    with NatjamRun(tmp_path, cluster=ray_node, variables=variables) as run:
        run.check_failed("cannot start or reach the cluster at RAY_ADDRESS=")
        assert "InvalidAuthToken" in run.log


@pytest.fixture
def few_processes() -> Iterator[Path]:
    """A control group with room for three processes; a process limit would not bind root."""
    group = Path("/sys/fs/cgroup/pids", f"natjam-test-{os.getpid()}")
    try:
        group.mkdir()
        (group / "pids.max").write_text("3")
    except OSError as error:
        pytest.skip(f"cannot make a control group for process numbers: {error}")
    yield group
    group.rmdir()


def test_more_containers_than_the_machine_can_fork(tmp_path: Path, few_processes: Path) -> None:
    with HostsHere(tmp_path) as run:
        (few_processes / "cgroup.procs").write_text(str(run.supervisor()))
        assert run.wait() == 1
    assert re.search("cannot fork another process.*run fewer containers", job_of(run.summary, "research")["reason"])


def test_an_output_directory_on_a_full_disk(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with small_disk(disk, "32k"), HostsHere(tmp_path, out=disk / "out") as run:
        assert run.wait() == 1
        assert str(run.out) in run.log
        assert "No space left on device" in run.log
        assert not (run.out / "summary.json").exists()
        assert all(path.stat().st_size for path in (run.out / "output").glob("*/part-*"))
        subprocess.run(["mount", "-o", "remount,size=10m", str(disk)], check=True)
        run_natjam("report", run.out, "--out", tmp_path / "report.html")
        assert run.summary["state"] == "failed"

"""The web service of a live run: it answers, its users follow the availability, and nothing of it stays."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from emulator.errors import RunError
from emulator.experiment.load import load_experiment
from emulator.experiment.model import Experiment
from emulator.live.janitor import find_run_processes
from emulator.live.session.web import web_service
from emulator.resolved import resolve
from tests.experiment_files import write
from tests.live_runs import NatjamRun, RayCluster, until

RUN_ID = "0web0web"
DAY = """\
name: day
time_scale: 20
overheads: native
cluster:
  nodes: 2
  containers_per_node: 2
  application_masters: outside
  availability:
    steps: [[0, 4], [20, 1], [60, 4]]
    grace_s: 20
    transactional: {kind: web, requests_real_s: 40, request_real_ms: 1}
scheduler: {allocation: {name: reverse-adaptive}, mechanism: suspend}
workload:
  jobs:
    - {name: first, queue: default, reduces: 4, reduce_s: [50], key_s: 1, deadline_s: 200}
"""


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return load_experiment(write(tmp_path, DAY))


def processes() -> list[int]:
    return find_run_processes(RUN_ID)


def test_latencies_are_beside_the_jobs(ray_node: RayCluster, tmp_path: Path) -> None:
    with NatjamRun(tmp_path, experiment=DAY, cluster=ray_node) as run:
        run.check_verified()
        web = run.summary["web"]
        assert "web service" in run.log
        assert (run.out / "holders.svg").exists()
    assert web["failed"] == 0
    assert 0 < web["preempting"]["requests"] < web["requests"], "the grace is half of the time that it wants containers"
    assert 1 <= web["p50_real_ms"] <= web["p95_real_ms"] <= web["p99_real_ms"], "a request takes a millisecond at least"


def test_users_come_only_while_containers_are_withheld(experiment: Experiment) -> None:
    past_ns = time.monotonic_ns() - 100 * 10**9  # emulated time is long after the last step
    with web_service(RUN_ID, resolve(experiment), past_ns) as facts:
        until(lambda: len(processes()) == 1 + experiment.cluster.containers, "a server for each container")
    assert facts["requests"] == 0
    assert facts["p99_real_ms"] is None
    assert not processes()


def test_a_service_that_dies_fails_the_run(experiment: Experiment) -> None:
    def run() -> None:
        with web_service(RUN_ID, resolve(experiment), time.monotonic_ns()):
            until(lambda: len(processes()) == 1 + experiment.cluster.containers, "a server for each container")
            min(map(psutil.Process, processes()), key=lambda process: process.create_time()).kill()

    with pytest.raises(RunError, match=r"web service .* did not last"):
        run()
    until(lambda: not processes(), "its servers are gone")


def test_an_exception_in_the_run_ends_it(experiment: Experiment) -> None:
    def run() -> None:
        with web_service(RUN_ID, resolve(experiment), time.monotonic_ns()):
            until(processes, "it has started")
            raise KeyError

    with pytest.raises(KeyError):
        run()
    until(lambda: not processes(), "its servers are gone")

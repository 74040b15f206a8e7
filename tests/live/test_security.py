"""What a run opens to others: loopback only, Ray by token, the shuffle by the run's secret, files to nobody."""

from __future__ import annotations

import http.client
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from emulator.live.janitor import find_run_processes
from tests.live_runs import ENDLESS, NatjamRun, command_line, listening, variable_of
from tests.other_user import needs_root, reached_by_another_user


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatjamRun]:
    """A run at work, on a Ray of its own."""
    with NatjamRun(tmp_path_factory.mktemp("security"), experiment=ENDLESS) as run:
        run.walking("research")
        yield run
        run.process.send_signal(signal.SIGINT)
        run.wait()


def test_all_that_listens_is_on_loopback(running: NatjamRun) -> None:
    pids = [running.process.pid, *running.processes()]
    assert {"gcs_server", "raylet", "ray::NodeHostActor", "python"} <= {_name(pid) for pid in pids}
    assert {address for address, _ in listening(*pids)} == {"127.0.0.1"}


def test_what_no_run_uses_of_ray_does_not_run(running: NatjamRun) -> None:
    lines = [command_line(pid) for pid in running.processes()]
    assert any("dashboard/agent.py" in line or "DashboardAgent" in line for line in lines), (
        "which Ray cannot do without"
    )
    unused = ("autoscaler", "log_monitor.py", "dashboard/dashboard.py")
    assert [line for line in lines if any(program in line for program in unused)] == []


def test_ray_refuses_who_has_not_the_token(running: NatjamRun) -> None:
    (server,) = [pid for pid in running.processes() if _name(pid) == "gcs_server"]
    ((_, port),) = listening(server)
    token = variable_of(server, "RAY_AUTH_TOKEN")
    assert token
    assert len(token) == 64
    with (
        _client(port, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=token) as friend,
        _client(port, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN="0" * 64) as stranger,
        _client(port, RAY_AUTH_MODE="disabled") as careless,
    ):
        assert friend.wait(60) == 0
        assert stranger.wait(60) != 0
        assert careless.wait(60) != 0


def _client(port: int, **variables: str) -> subprocess.Popen[bytes]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    # One try to connect, not twenty.
    environment |= {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_NUM_REDIS_GET_RETRIES": "1", **variables}
    program = f"import ray; ray.init('127.0.0.1:{port}', log_to_driver=False); ray.nodes()"
    return subprocess.Popen([sys.executable, "-c", program], env=environment)


def test_the_shuffle_refuses_who_has_not_the_secret(running: NatjamRun) -> None:
    ((_, port),) = listening(running.shuffle_service())
    for node in ("node-1", "node-2"):
        of_node = f"/shuffle?job=research&reduce=0&maps={node}:0"
        for target in (of_node, "/", "/../../../../etc/passwd", "/shuffle/%2e%2e/x"):
            for headers in ({}, {"Natjam-Signature": "0" * 64}):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
                connection.putrequest("GET", target)
                for name, value in headers.items():
                    connection.putheader(name, value)
                connection.endheaders()
                response = connection.getresponse()
                assert response.status in (403, 404), target
                assert b"root:" not in response.read()
                connection.close()


def test_work_directories_are_closed_to_others(running: NatjamRun) -> None:
    root = running.temporary / f"natjam-{running.run_id}"
    (host,) = running.work_directories()
    directories = [root, host, host / "node-1", host / "node-2"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in directories} == {0o700}
    pages = {path.is_dir(): stat.S_IMODE(path.stat().st_mode) for path in host.glob("page-*")}
    assert pages == {False: 0o600, True: 0o700}, "progress, and what processes that are made ahead rehearse with"


@needs_root
def test_another_user_reaches_nothing_of_a_run(running: NatjamRun) -> None:
    assert reached_by_another_user(running.temporary) == []


def test_no_secret_is_in_a_command_line(running: NatjamRun) -> None:
    pids = running.processes()
    tokens = {variable_of(pid, "RAY_AUTH_TOKEN") for pid in pids} - {None}
    assert len(tokens) == 1
    for pid in pids:
        assert not any(token in command_line(pid) for token in tokens if token)


def test_only_ray_has_its_token(running: NatjamRun) -> None:
    ours = [pid for pid in find_run_processes(running.run_id) if "emulator.live." in command_line(pid)]
    tasks = [child for pid in ours for child in psutil.Process(pid).children()]
    assert len(ours) >= 2, "supervisor and shuffle service"
    assert tasks
    for pid in (*ours, *(task.pid for task in tasks)):
        assert variable_of(pid, "NATJAM_RUN") == running.run_id
        assert variable_of(pid, "RAY_AUTH_TOKEN") is None, command_line(pid)


def _name(pid: int) -> str:
    """Of the program, without its path and what Ray adds to it."""
    return Path(command_line(pid).partition(" ")[0]).name.partition(".")[0]

"""Tasks that are programs: started, stopped, killed with all they have started, committed once."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from emulator.live import cgroups
from emulator.live.janitor import find_run_processes
from emulator.live.program_members import group_name, group_parent, is_stopped, is_told_to_stop, remove_program_groups
from emulator.live.tasks.command import directory_of
from emulator.live.tasks.containers import ContainerProcess, PendingCommand
from emulator.live.tasks.program_work import ProgramWork
from emulator.storage.tree_digest import tree_digest
from tests.live_runs import until
from tests.programs import criu_or_skip, hidden, image_parameters, of_place, running_of
from tests.supervision import Host, becomes_true, in_host, on_host


def program(host: Host, container: str, *command: str, parent: Path | None = None, **params: Any) -> dict[str, Any]:
    """The launch command of a program, with a cgroup below ``parent``."""
    directory = directory_of(str(host.directory / "output"), "job", 0, container)
    own: dict[str, Any] = {
        "command": list(command),
        "directory": directory,
        "works_in": directory,
        "saves_in": None,
        "environment": {},
        "input": None,
        "program_group": parent and str(parent / group_name(host.run_id, container)),
    }
    return {**host.reduce(container, localised=False, job="job", **{**own, **params}), "kind": "command"}


async def printed(host: Host, container: str, text: str) -> None:
    """Wait until a program has printed something."""
    path = Path(directory_of(str(host.directory / "output"), "job", 0, container), "stdout")
    await becomes_true(lambda: path.exists() and text in path.read_text(), text)


def states(host: Host) -> list[str]:
    """The states of the processes of the host."""
    return [psutil.Process(pid).status() for pid in find_run_processes(host.run_id)]


@on_host
async def test_a_program_is_done_when_it_ends_with_0_and_what_it_leaves_is_committed_once(host: Host) -> None:
    script = "echo $NATJAM_JOB $NATJAM_TASK; echo oh >&2; mkdir d; echo x > d/y"
    for name, command in {"bad": ["false"], "none": ["/no/such/program"], "good": ["sh", "-c", script]}.items():
        host.client.send(program(host, name, *command))
    assert (await host.event("exited", "bad"))["code"] == 1
    assert "/no/such/program: cannot be started: No such file" in (await host.event("exited", "none"))["reason"]
    exited = await host.event("exited", "good")
    assert exited["code"] == 0
    left = host.directory / "output" / "job" / "part-c-00000"
    assert exited["output_sha256"] == tree_digest(left).sha256
    files = {str(path.relative_to(left)): path.read_text() for path in left.rglob("*") if path.is_file()}
    assert files == {"stdout": "job 0\n", "stderr": "oh\n", "d/y": "x\n"}
    assert list((host.directory / "output" / "_partial" / "job").iterdir()) == []


@on_host
async def test_the_attempt_after_one_whose_commit_was_never_reported_succeeds_with_its_output(host: Host) -> None:
    """The supervisor was killed between the rename and the report: nobody knows of the first attempt's success."""
    host.client.send(program(host, "first", "sh", "-c", "echo first"))
    committed = await host.event("exited", "first")
    host.client.send(program(host, "again", "sh", "-c", "echo again"))
    exited = await host.event("exited", "again")
    assert (exited["code"], exited["output_sha256"]) == (0, committed["output_sha256"])
    assert (host.directory / "output/job/part-c-00000/stdout").read_text() == "first\n"
    assert list((host.directory / "output" / "_partial" / "job").iterdir()) == []


@on_host
async def test_a_program_has_its_input_environment_and_directory(host: Host) -> None:
    (host.directory / "in.txt").write_text("from a file\n")
    script = "cat; pwd; echo $LR; echo there > $NATJAM_OUTPUT/here"
    given: dict[str, Any] = {
        "works_in": str(host.directory),
        "saves_in": None,
        "input": str(host.directory / "in.txt"),
        "environment": {"LR": "0.1"},
    }
    host.client.send(program(host, "p", "sh", "-c", script, **given))
    assert (await host.event("exited", "p"))["code"] == 0
    left = host.directory / "output" / "job" / "part-c-00000"
    assert (left / "stdout").read_text() == f"from a file\n{host.directory}\n0.1\n"
    assert (left / "here").read_text() == "there\n"


@on_host
async def test_a_program_that_fails_says_what_it_printed_last(host: Host) -> None:
    host.client.send(program(host, "p", sys.executable, "-c", "print(1 / 0)"))
    reason = (await host.event("exited", "p"))["reason"]
    assert reason.startswith("exit status 1, and its standard error ends with: ")
    assert reason.endswith("ZeroDivisionError: division by zero")
    script = "rm stderr; mkfifo stderr; exit 3"
    host.client.send(program(host, "q", "sh", "-c", script))
    assert (await host.event("exited", "q"))["reason"] == "exit status 3"
    host.client.send(program(host, "r", "cat", input="/no/such/file"))
    assert "/no/such/file: cannot be opened: No such file" in (await host.event("exited", "r"))["reason"]


@on_host
async def test_a_program_that_ignores_sigtstp_is_stopped_and_killed_with_its_children(host: Host) -> None:
    script = "trap '' TSTP; sleep 1000 & echo up; while :; do sleep 0.05; echo on; done"
    host.client.send(program(host, "p", "sh", "-c", script))
    await printed(host, "p", "on")
    assert (await host.do("suspend", "p"))["event"] == "suspended"
    stopped = find_run_processes(host.run_id)
    assert len(stopped) > 2, "the supervisor, the shell, and what it has started"
    assert (await host.do("resume", "p"))["event"] == "resumed"
    assert (await host.do("kill", "p"))["event"] == "killed"
    await becomes_true(lambda: len(find_run_processes(host.run_id)) == 1, "only the supervisor is left")


STARTS_SLOWLY = """\
import os, sys
os.mkfifo("door")
print("up", flush=True)
door = (os.POSIX_SPAWN_OPEN, 0, "door", os.O_RDONLY, 0)
child = os.posix_spawn("/bin/sleep", ["sleep", "1000"], os.environ, file_actions=[door])
os.waitpid(child, 0)
"""


@on_host
async def test_a_program_that_is_starting_another_when_it_is_stopped_is_stopped_all_the_same(host: Host) -> None:
    host.client.send(program(host, "p", sys.executable, "-c", STARTS_SLOWLY))
    await printed(host, "p", "up")
    suspending = asyncio.create_task(host.do("suspend", "p"))
    await becomes_true(lambda: psutil.STATUS_STOPPED in states(host), "the child has stopped, without its program")
    assert psutil.STATUS_DISK_SLEEP in states(host), "its parent waits for it in vfork"
    door = os.open(Path(directory_of(str(host.directory / "output"), "job", 0, "p"), "door"), os.O_RDWR)
    assert (await suspending)["event"] == "suspended"
    os.close(door)
    assert states(host).count(psutil.STATUS_STOPPED) == 2
    assert (await host.do("kill", "p"))["event"] == "killed"


# ---- what a program has started, wherever it hides ----


def _unified() -> Path | None:
    found = group_parent()
    return found if found is not None and (found / "cgroup.controllers").exists() else None


def _freezer() -> Path | None:
    found = cgroups.mounted("freezer")
    return found.folder if found is not None and os.access(found.folder, os.W_OK) else None


@pytest.fixture(params=["cgroups version 2", "cgroups version 1", "descent"])
def parent(request: pytest.FixtureRequest) -> Path | None:
    """Where the groups of programs are made; None: there are none, and members are found by descent."""
    if request.param == "descent":
        return None
    found = _unified() if request.param == "cgroups version 2" else _freezer()
    if found is None:
        pytest.skip(f"{request.param}: cannot be had here")
    return found


def grown(file: Path) -> Callable[[], bool]:
    """A test whether a file is longer than now."""
    size_bytes = file.stat().st_size
    return lambda: file.stat().st_size > size_bytes


def no_group_left(host: Host) -> None:
    """No cgroup of a program of the host is left."""
    for at in (cgroups.unified(), cgroups.mounted("freezer")):
        assert at is None or list(at.own_group().glob(group_name(host.run_id, "*"))) == []


@on_host
async def test_all_that_a_program_has_started_is_suspended_resumed_and_killed_with_it(
    host: Host, parent: Path | None
) -> None:
    place = host.directory / "place"
    place.mkdir()
    script = hidden(place) + "sleep 1000"
    host.client.send(program(host, "p", "sh", "-c", script, parent=parent))
    await printed(host, "p", "hidden")
    for _ in range(3):
        assert (await host.do("suspend", "p"))["event"] == "suspended"
        assert len(of_place(place)) > 10
        assert running_of(place) == []
        size_bytes = (place / "lines").stat().st_size
        assert running_of(place) == []
        assert (place / "lines").stat().st_size == size_bytes
        os.kill(next(event["pid"] for event in host.events if event["event"] == "launched"), signal.SIGCONT)
        await becomes_true(lambda: running_of(place) == [], "it is stopped again")
        assert (await host.do("resume", "p"))["event"] == "resumed"
        await becomes_true(grown(place / "lines"), "what was stopped continues")
    assert (await host.do("suspend", "p"))["event"] == "suspended"
    goes_on = grown(place / "lines")
    lines = {process: (process.info["cmdline"] or [""])[-1] for process in psutil.process_iter(["cmdline"])}
    (writer,) = [process for process, line in lines.items() if line.startswith("trap") and str(place) in line]
    for process in (*writer.children(), writer):  # it reaps those that have ended
        process.send_signal(signal.SIGCONT)
    await becomes_true(goes_on, "somebody else has continued one that it has started")
    await becomes_true(lambda: running_of(place) == [], "it is stopped again")
    assert (await host.do("kill", "p"))["event"] == "killed"
    assert of_place(place) == []
    assert (await host.do("kill", "p"))["reason"] == "no such container here"
    no_group_left(host)


@on_host
async def test_output_is_moved_when_nothing_of_the_program_is_left(host: Host, parent: Path | None) -> None:
    place = Path(directory_of(str(host.directory / "output"), "job", 0, "p"))
    script = hidden(place) + "exec 7>>lines"
    host.client.send(program(host, "p", "sh", "-c", script, parent=parent))
    exited = await host.event("exited", "p")
    assert (exited["code"], of_place(place)) == (0, [])
    assert exited["output_sha256"] == tree_digest(host.directory / "output" / "job" / "part-c-00000").sha256
    assert not place.exists()
    no_group_left(host)


HOPS = """\
import os, sys, time
if os.fork():
    while not os.path.exists(sys.argv[1] + "/hops"):
        time.sleep(0.01)
    print("hopping", flush=True)
    time.sleep(1000)
os.setsid()
end = time.monotonic() + 30
open(sys.argv[1] + "/hops", "w").close()
while time.monotonic() < end:
    if os.fork():
        os._exit(0)
"""
"""Starts a process that starts the next one and ends, again and again, before a signal could reach it."""


def test_a_process_that_is_never_the_same_is_caught_in_its_cgroup(tmp_path: Path, parent: Path | None) -> None:
    if parent is None:
        pytest.skip("by descent it is caught by chance only")

    place = tmp_path / "place"
    place.mkdir()

    async def scenario(host: Host) -> None:
        host.client.send(program(host, "p", sys.executable, "-c", HOPS, str(place), parent=parent))
        await printed(host, "p", "hopping")
        assert (await host.do("suspend", "p"))["event"] == "suspended"
        assert len(of_place(place)) > 1
        assert running_of(place) == []
        assert (await host.do("kill", "p"))["event"] == "killed"
        assert of_place(place) == []
        no_group_left(host)

    in_host(tmp_path, scenario)


def test_a_supervisor_that_is_killed_leaves_nothing_of_its_programs(tmp_path: Path, parent: Path | None) -> None:
    if parent is None:
        pytest.skip("needs a cgroup")

    async def scenario(host: Host) -> None:
        script = hidden(tmp_path) + "sleep 1000"
        host.client.send(program(host, "p", "sh", "-c", script, parent=parent))
        await printed(host, "p", "hidden")
        os.kill(host.client.pid, signal.SIGKILL)
        await host.until(lambda: host.lost)
        assert of_place(tmp_path) != []
        remove_program_groups(host.run_id)
        assert of_place(tmp_path) == []
        no_group_left(host)

    in_host(tmp_path, scenario)


@pytest.mark.parametrize("op", ["dump", "suspend"])
def test_no_stop_signal_waits_for_a_program_that_is_saved(op: str) -> None:
    """criu gives up ("task interruption") where SIGSTOP and SIGCHLD wait for a process that SIGTSTP has stopped.

    SIGSTOP is sent to those that seem to run, and again to all if they take long.
    """
    rounds: deque[Callable[[], None]] = deque()
    work = ProgramWork(lambda _: 0, lambda *_, **__: None, os.kill, lambda _, call: rounds.append(call), lambda _: [])
    ended: list[bool] = []

    def goes_on() -> bool:
        if rounds:
            rounds.popleft()()
        elif not ended and is_stopped(process.pid, told=False):  # as when the kernel reports that it has stopped
            work.stop(container, lambda: ended.append(True))
        return bool(ended)

    with subprocess.Popen(["sh", "-c", "while :; do sleep 0.01; done"], process_group=0) as process:
        try:
            container = ContainerProcess("c", "command", 0, {"images": {}}, 0, pid=process.pid)
            work.begin(container)
            container.request(PendingCommand(op, 0))
            assert container.next_signal(lambda *_, **__: None) == signal.SIGTSTP
            for number in (signal.SIGTSTP, signal.SIGSTOP):
                os.kill(process.pid, number)
                until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED, "it is stopped")
            assert is_told_to_stop(process.pid)
            until(goes_on, "none runs")
            assert is_told_to_stop(process.pid) == (op == "suspend")
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_what_a_program_has_started_is_in_its_image_and_belongs_to_what_is_made_of_it(
    tmp_path: Path, parent: Path | None
) -> None:
    place = tmp_path / "place"
    place.mkdir()

    async def scenario() -> None:
        async with Host(tmp_path, first_pid=1000) as host:
            given: dict[str, Any] = {
                "images": image_parameters(tmp_path, "images", criu_or_skip().name),
                "parent": parent,
            }
            script = hidden(place) + "sleep 1000"
            host.client.send(program(host, "p", "sh", "-c", script, **given))
            await printed(host, "p", "hidden")
            dumped = await host.do("dump", "p")
            assert dumped["event"] == "dumped", dumped
            assert of_place(place) == []
            again = grown(place / "lines")
            source = {**{name: dumped[name] for name in ("folder", "number", "checksum")}, "brought_real_ns": 0}
            host.client.send(program(host, "q", "sh", "-c", script, restore=source, **given))
            await host.event("launched", "q")
            await becomes_true(again, "what was saved goes on")
            assert (await host.do("suspend", "q"))["event"] == "suspended"
            assert len(of_place(place)) > 10
            assert running_of(place) == []
            assert (await host.do("kill", "q"))["event"] == "killed"
            assert of_place(place) == []
            no_group_left(host)

    asyncio.run(scenario())

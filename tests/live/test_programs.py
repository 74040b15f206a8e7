"""Tasks that are programs: started, stopped, killed with all they have started, committed once."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from emulator.live.command import directory_of
from emulator.live.janitor import find_run_processes
from tests.supervision import Host, in_host


def program(host: Host, container: str, *command: str) -> dict[str, Any]:
    """The launch command of a program."""
    output = str(host.directory / "output")
    params = {
        "origin_real_ns": time.monotonic_ns(),
        "scale": 1,
        "container_id": container,
        "job": "job",
        "task": 0,
        "first_key_at_ns": 0,
        "node": "node-1",
        "work_dir": str(host.directory / "node-1"),
        "output_dir": output,
        "command": list(command),
        "directory": directory_of(output, "job", 0, container),
    }
    slot = host.slots[container] = len(host.slots)
    return {"op": "launch", "id": container, "kind": "command", "slot": slot, "params": params}


async def becomes_true(true: Callable[[], bool], what: str) -> None:
    """Ask often until ``true()`` holds."""
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.005)


async def printed(host: Host, container: str, text: str) -> None:
    """Wait until a program has printed something."""
    path = Path(directory_of(str(host.directory / "output"), "job", 0, container), "stdout")
    await becomes_true(lambda: path.exists() and text in path.read_text(), text)


def states(host: Host) -> list[str]:
    """The states of the processes of the host."""
    return [psutil.Process(pid).status() for pid in find_run_processes(host.run_id)]


def test_a_program_is_done_when_it_ends_with_0_and_what_it_leaves_is_committed_once(tmp_path: Path) -> None:
    async def scenario(host: Host) -> None:
        script = "echo $NATJAM_JOB $NATJAM_TASK; echo oh >&2; mkdir d; echo x > d/y"
        for name, command in {"bad": ["false"], "none": ["/no/such/program"], "good": ["sh", "-c", script]}.items():
            host.client.send(program(host, name, *command))
        assert (await host.event("exited", "bad"))["code"] == 1
        assert "/no/such/program: cannot be started: No such file" in (await host.event("exited", "none"))["reason"]
        assert (await host.event("exited", "good"))["code"] == 0
        left = tmp_path / "output" / "job" / "part-c-00000"
        files = {str(path.relative_to(left)): path.read_text() for path in left.rglob("*") if path.is_file()}
        assert files == {"stdout": "job 0\n", "stderr": "oh\n", "d/y": "x\n"}
        assert list((tmp_path / "output" / "_partial" / "job").iterdir()) == []
        host.client.send(program(host, "again", "sh", "-c", "echo again"))
        exited = await host.event("exited", "again")
        assert exited["code"] != 0
        assert "another attempt has been committed" in exited["reason"]
        assert (left / "stdout").read_text() == "job 0\n"

    in_host(tmp_path, scenario)


def test_a_program_that_ignores_sigtstp_is_stopped_and_killed_with_its_children(tmp_path: Path) -> None:
    async def scenario(host: Host) -> None:
        script = "trap '' TSTP; sleep 1000 & echo up; while :; do sleep 0.05; echo on; done"
        host.client.send(program(host, "p", "sh", "-c", script))
        await printed(host, "p", "on")
        assert (await host.do("suspend", "p"))["event"] == "suspended"
        stopped = find_run_processes(host.run_id)
        assert len(stopped) > 2, "the supervisor, the shell, and what it has started"
        assert (await host.do("resume", "p"))["event"] == "resumed"
        assert (await host.do("kill", "p"))["event"] == "killed"
        await becomes_true(lambda: len(find_run_processes(host.run_id)) == 1, "only the supervisor is left")

    in_host(tmp_path, scenario)


STARTS_SLOWLY = """\
import os, sys
os.mkfifo("door")
print("up", flush=True)
door = (os.POSIX_SPAWN_OPEN, 0, "door", os.O_RDONLY, 0)
child = os.posix_spawn("/bin/sleep", ["sleep", "1000"], os.environ, file_actions=[door])
os.waitpid(child, 0)
"""


def test_a_program_that_is_starting_another_when_it_is_stopped_is_stopped_all_the_same(tmp_path: Path) -> None:
    async def scenario(host: Host) -> None:
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

    in_host(tmp_path, scenario)

"""Processes that a supervisor makes before their tasks are launched."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil

from emulator.live.tasks.progress_page import AHEAD_SUFFIX
from tests.supervision import Host, becomes_true, on_host

AHEAD = 3


def _children(host: Host) -> set[int]:
    return {child.pid for child in psutil.Process(host.client.pid).children()}


async def _ready(host: Host, tasks: set[int]) -> set[int]:
    """The processes made ahead, once there are enough and all of them wait for a task."""

    def ready() -> tuple[set[int]] | None:
        ahead = _children(host) - tasks
        return (ahead,) if len(ahead) == AHEAD - len(tasks) and all(map(_waits_for_a_task, ahead)) else None

    return (await becomes_true(ready, "enough processes made ahead"))[0]


def _waits_for_a_task(pid: int) -> bool:
    """It sleeps, and its rehearsal has left no file open."""
    status = psutil.Process(pid).status()
    return status == psutil.STATUS_SLEEPING and "sigtimedwait" in Path(f"/proc/{pid}/wchan").read_text()


@on_host(ahead=AHEAD)
async def test_a_task_that_gets_a_process_made_ahead_does_what_a_forked_one_does(host: Host) -> None:
    assert not _children(host), "nothing is made before it is known that there are tasks"
    forked = (await host.launch("forked", keys=40, key_s=0.5, job="other"))["pid"]
    ahead = await _ready(host, {forked})
    pid = (await host.launch("made-ahead", keys=9, key_s=0.03))["pid"]
    assert pid in ahead
    assert os.getpgid(pid) == pid
    await host.keys_done("made-ahead", 2)
    suspended = await host.do("suspend", "made-ahead")
    assert suspended["event"] == "suspended"
    assert host.state("made-ahead") == "T"
    assert (await host.do("resume", "made-ahead"))["event"] == "resumed"
    exited = await host.event("exited", "made-ahead")
    assert (exited["code"], exited["keys_done"]) == (0, 9)
    await _ready(host, {forked})
    output = host.output("job of made-ahead")
    assert (await host.do("kill", "forked"))["event"] == "killed"
    await host.launch("again", keys=9, key_s=0.01, job="job of made-ahead", output_dir=str(host.directory / "again"))
    await host.event("exited", "again")
    assert (host.directory / "again/job%20of%20made-ahead/part-r-00000").read_bytes() == output
    await _ready(host, set())  # others are made in their places
    assert not list(host.directory.glob("page-*-ahead/*")), "no rehearsal and no task is left there"


@on_host(ahead=AHEAD)
async def test_commands_right_after_the_launch_reach_the_task(host: Host) -> None:
    first = (await host.launch("first", keys=400, key_s=0.5))["pid"]
    await _ready(host, {first})
    host.client.send(host.reduce("second", keys=400, key_s=0.5))
    host.client.send({"op": "suspend", "id": "second"})
    assert (await host.event("suspended", "second"))["stopped_real_ns"]
    await _ready(host, {first, (await host.event("launched", "second"))["pid"]})
    host.client.send(host.reduce("third", keys=400, key_s=0.5))
    host.client.send({"op": "checkpoint", "id": "third"})
    assert (await host.event("checkpointed", "third"))["checkpoint"]["keys_done"] <= 1


@on_host(ahead=AHEAD)
async def test_a_process_made_ahead_that_is_killed_is_replaced(host: Host) -> None:
    first = (await host.launch("first", keys=400, key_s=0.5))["pid"]
    ahead = await _ready(host, {first})
    for pid in ahead:
        os.kill(pid, signal.SIGKILL)
    assert not ahead & await _ready(host, {first})
    await host.launch("second", keys=2, key_s=0.01)
    assert (await host.event("exited", "second"))["code"] == 0
    assert not host.lost


@on_host(ahead=AHEAD)
async def test_tasks_that_are_launched_while_a_process_is_made_ahead_count(host: Host) -> None:
    tasks = {(await host.launch("first", keys=400, key_s=0.5))["pid"]}
    while len(_children(host)) == 1:
        pass  # now one is being made
    for name in ("second", "third"):
        host.client.send(host.reduce(name, keys=400, key_s=0.5))
    for name in ("second", "third"):
        tasks.add((await host.event("launched", name))["pid"])
    assert await _ready(host, tasks) == set()


@on_host(ahead=AHEAD)
async def test_where_no_process_can_be_made_ahead_tasks_are_forked(host: Host) -> None:
    folder = Path(f"{host.client._page_path}{AHEAD_SUFFIX}")
    folder.write_text("a file, where the folder should be")
    for name in ("first", "second"):
        await host.launch(name, keys=3, key_s=0.01)
        assert (await host.event("exited", name))["code"] == 0
    assert not _children(host)
    folder.unlink()

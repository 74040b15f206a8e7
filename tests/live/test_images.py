"""Images of a supervisor's tasks: saved, ended, made again there or at another one, whatever is killed meanwhile."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from emulator.live.tasks.partial_output import sound_partials
from emulator.live.tasks.progress_page import WorkState
from emulator.storage.images import ImageChain
from tests.damage import flip_a_bit
from tests.full_disk import small_disk
from tests.programs import criu_or_skip, image_parameters
from tests.supervision import Host, becomes_true

DUMPERS = ("pages", "criu")
KEYS = 150
SLOW_BYTES_S = 2_000_000
"""So that an image takes some seconds."""


class Job:
    """A reduce and its images, in a directory that several hosts share."""

    def __init__(self, directory: Path, dumper: str) -> None:
        self.directory = directory
        self.dumper = dumper
        self.folder = directory / "images" / "task"

    def params(self, **changed: Any) -> dict[str, Any]:
        """Launch parameters; ``changed`` of the device, which is not held back."""
        images = image_parameters(self.directory, "images/task", self.dumper, **changed)
        return {"images": images, "job": "job", "output_dir": str(self.directory / "output"), "keys": KEYS}

    async def restore(self, host: Host, container: str, event: dict[str, Any], **changed: Any) -> None:
        """Launch what goes on from an image."""
        source = {**{name: event[name] for name in ("folder", "number", "checksum")}, "brought_real_ns": 0}
        command = host.reduce(container, **self.params(**changed), restore=source)
        host.client.send(command)

    async def check_done(self, host: Host, container: str) -> None:
        """It ends well, with the output of an undisturbed one; nothing of images is under way."""
        assert (await host.event("exited", container))["code"] == 0
        await host.launch("plain", job="job", keys=KEYS, key_s=0.0005, output_dir=str(self.directory / "undisturbed"))
        assert (await host.event("exited", "plain"))["code"] == 0
        outputs = [self.directory / name / "job" / "part-r-00000" for name in ("output", "undisturbed")]
        assert outputs[0].read_bytes() == outputs[1].read_bytes()
        assert list((self.directory / "staging").iterdir()) == []


def in_hosts(
    directory: Path, dumper: str, scenario: Callable[..., Awaitable[None]], count: int = 1, first: int = 0
) -> None:
    """Run a scenario with a job and fresh hosts, in namespaces of their own where criu needs that."""
    if dumper == "criu":
        criu_or_skip()

    async def run(hosts: list[Host]) -> None:
        if len(hosts) == count:
            await scenario(Job(directory, dumper), *hosts)
            return
        number = first + len(hosts)
        place = directory / f"host-{number}"
        place.mkdir()
        first_pid = 1000 * (1 + number) if dumper == "criu" else None
        async with Host(place, first_pid=first_pid) as host:
            await run([*hosts, host])

    asyncio.run(run([]))


def on_hosts(test: Callable[..., Awaitable[None]] | None = None, count: int = 1) -> Callable[..., Any]:
    """A test with each dumper, whose arguments are a job and so many fresh hosts."""
    if test is None:
        return partial(on_hosts, count=count)

    @pytest.mark.parametrize("dumper", DUMPERS)
    def run(tmp_path: Path, dumper: str) -> None:
        in_hosts(tmp_path, dumper, test, count)

    run.__name__ = test.__name__
    return run


async def dump(host: Host, container: str) -> dict[str, Any]:
    """Save a container; its image."""
    event = await host.do("dump", container)
    assert event["event"] == "dumped", event
    await host.event("exited", container)
    return event


async def saved(job: Job, host: Host, keys: int = 3) -> dict[str, Any]:
    """The image of a first container, ``c0``, that has done that many keys."""
    await host.launch("c0", **job.params())
    await host.keys_done("c0", keys)
    return await dump(host, "c0")


async def shown(host: Host, container: str) -> int:
    """The key counter that a process first shows on its page: one made again joins the page only as it goes on."""
    read = partial(host.client.page.read, host.slots[container])
    await becomes_true(lambda: read().state is not WorkState.EMPTY, f"{container} on its page")
    return read().keys_done


async def helper(host: Host, besides: int = 0) -> int:
    """The process that does something about an image, when the supervisor has ``besides`` others."""
    supervisor = psutil.Process(host.client.pid)
    await becomes_true(lambda: len(supervisor.children()) > besides, "a helper")
    return max(supervisor.children(), key=lambda child: (child.create_time(), child.pid)).pid


@on_hosts(count=2)
async def test_a_reduce_is_saved_and_goes_on_again_and_again_here_and_there(job: Job, *hosts: Host) -> None:
    await hosts[0].launch("c0", **job.params())
    await hosts[0].event("first_key", "c0")
    keys = 0
    for turn in range(1, 5):
        before, host = hosts[(turn - 1) // 2 % 2], hosts[turn // 2 % 2]
        await before.keys_done(f"c{turn - 1}", keys + 3)
        event = await dump(before, f"c{turn - 1}")
        assert event["keys_done"] >= keys + 3
        done = [f"c{number}" for number in range(turn)]
        assert sum(sound_partials(str(job.directory / "output"), "job", 0, done)) == event["keys_done"]
        if job.dumper == "criu" and turn > 1:
            assert event["written_bytes"] < event["memory_bytes"] / 2, "most of it is in the image before"
        keys, before_ns = event["keys_done"], time.monotonic_ns()
        await job.restore(host, f"c{turn}", event)
        found = (await host.event("first_key", f"c{turn}"))["past"]
        assert found == done, "the others' work would count as lost"
        assert await shown(host, f"c{turn}") >= keys
        await host.keys_done(f"c{turn}", keys + 1)
        progress = host.client.page.read(host.slots[f"c{turn}"])
        instants = (progress.state_since_real_ns, progress.alive_real_ns, progress.last_key_real_ns)
        assert min(instants) > before_ns, "its clock is not its host's: it seems dead, and its keys old"
    await job.check_done(hosts[0], "c4")


@on_hosts
async def test_a_dump_that_is_killed_costs_no_more_than_the_work_since_the_image_before(job: Job, host: Host) -> None:
    event = await saved(job, host)
    await job.restore(host, "c1", event, write_bytes_real_s=SLOW_BYTES_S // 100)
    await host.keys_done("c1", event["keys_done"] + 3)
    host.client.send({"op": "dump", "id": "c1"})
    os.kill(await helper(host, besides=1), signal.SIGKILL)
    assert "killed" in (await host.event("dump_failed", "c1"))["reason"]
    last = "c1"
    if job.dumper == "criu":  # a part of criu may be left in it
        assert (await host.event("exited", "c1"))["signal"] == signal.SIGKILL
        last = "c2"
        await job.restore(host, last, event)
    await job.check_done(host, last)


@on_hosts
async def test_a_restore_that_is_killed_can_be_done_again(job: Job, host: Host) -> None:
    event = await saved(job, host)
    await job.restore(host, "c1", event, read_bytes_real_s=SLOW_BYTES_S)
    os.kill(await helper(host), signal.SIGKILL)
    assert "killed" in (await host.event("launch_failed", "c1"))["reason"]
    await job.restore(host, "c2", event, read_bytes_real_s=SLOW_BYTES_S)
    await helper(host)
    host.client.send({"op": "kill", "id": "c2"})  # nobody wants it any more
    await host.event("kill_failed", "c2")
    await job.restore(host, "c3", event)
    await job.check_done(host, "c3")


@pytest.mark.parametrize("dumper", DUMPERS)
def test_a_supervisor_that_is_killed_in_a_dump_leaves_the_image_before(tmp_path: Path, dumper: str) -> None:
    images = []

    async def killed(job: Job, host: Host) -> None:
        event = await saved(job, host)
        await job.restore(host, "c1", event, write_bytes_real_s=SLOW_BYTES_S // 100)
        await host.keys_done("c1", event["keys_done"] + 3)
        host.client.send({"op": "dump", "id": "c1"})
        await helper(host, besides=1)
        os.kill(host.client.pid, signal.SIGKILL)
        await host.until(lambda: host.lost)
        assert ImageChain(job.folder).numbers() == [1]
        images.append(event)

    async def made_good(job: Job, host: Host) -> None:
        await job.restore(host, "c2", images[0])
        await job.check_done(host, "c2")

    in_hosts(tmp_path, dumper, killed)
    shutil.rmtree(tmp_path / "staging")  # as the host does with all of its directory
    in_hosts(tmp_path, dumper, made_good, first=1)


@on_hosts
async def test_of_damaged_images_the_one_before_is_taken_or_the_task_begins_anew(job: Job, host: Host) -> None:
    first = await saved(job, host, keys=5)
    await job.restore(host, "c1", first)
    await host.keys_done("c1", first["keys_done"] + 20)
    second = await dump(host, "c1")
    flip_a_bit(job.folder / "2" / "state")
    await job.restore(host, "c2", second)
    begun = await host.event("first_key", "c2")
    assert (begun["past"], begun["keys_done"]) == (["c0"], first["keys_done"])
    assert first["keys_done"] <= await shown(host, "c2") < second["keys_done"]
    await host.do("kill", "c2")
    flip_a_bit(job.folder / "1" / "state")
    await job.restore(host, "c3", second)
    begun = await host.event("first_key", "c3")
    assert (begun["past"], begun["keys_done"]) == ([], 0)
    assert await shown(host, "c3") < first["keys_done"]
    await job.check_done(host, "c3")


@on_hosts
async def test_the_image_of_another_task_is_not_taken(job: Job, host: Host) -> None:
    mine = await saved(job, host)
    other = job.folder.with_name("other")
    await host.launch("o0", **job.params(folder=str(other)))
    await host.keys_done("o0", mine["keys_done"] + 20)
    await dump(host, "o0")
    between = job.folder.rename(job.folder.with_name("between"))
    other.rename(job.folder)
    between.rename(other)
    await job.restore(host, "c1", mine)
    await host.event("first_key", "c1")
    assert await shown(host, "c1") < mine["keys_done"]
    await job.check_done(host, "c1")


@pytest.mark.parametrize("dumper", DUMPERS)
def test_a_disk_that_is_full_in_a_dump_costs_nothing(tmp_path: Path, dumper: str) -> None:
    async def scenario(job: Job, host: Host) -> None:
        await host.launch("c0", **job.params())
        await host.keys_done("c0", 3)
        failed = await host.do("dump", "c0")
        assert failed["event"] == "dump_failed"
        assert "No space left" in failed["reason"]
        assert ImageChain(job.folder).numbers() == []
        assert list(job.folder.iterdir()) == []
        await job.check_done(host, "c0")

    with small_disk(tmp_path / "images", "3m"):
        in_hosts(tmp_path, dumper, scenario)

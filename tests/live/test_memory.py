"""Tasks that hold memory, under a supervisor: written, stopped, paged out to a swap file of the run, read back."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
from pathlib import Path

import pytest

from emulator.core.settings import NodeSettings
from emulator.errors import ConfigError
from emulator.experiment.expand import expand
from emulator.experiment.load import load_experiment
from emulator.live import cgroups
from emulator.live.janitor import clean_up
from emulator.live.memory.fitting import fitted_to_machine
from emulator.live.memory.held import HeldMemory, MemoryChanged
from emulator.live.memory.nodes import NodeMemories
from emulator.live.memory.swap_file import SwapFailed, make_swap_file
from tests.full_disk import file_size_limit
from tests.memory import MIB, groups_of, needs_swap, overwrite_memory, swaps_below
from tests.supervision import Host, in_host, on_host

SIZE_BYTES = 96 * MIB
CYCLES = 3


def node(memory_bytes: int, swap_bytes: int) -> NodeSettings:
    return NodeSettings("node-1", "rack-1", 1, memory_bytes, memory_bytes, swap_bytes, max_suspended=2)


@pytest.mark.parametrize("size_bytes", [1, 65_535, 65_536, 65_537, 70 * 65_536 + 13])
def test_what_was_written_is_read_back(size_bytes: int) -> None:
    held, calls = HeldMemory(size_bytes), []
    held.write(lambda: calls.append("write"))
    held.check(lambda: calls.append("check"))
    chunks = -(-size_bytes // 65_536)
    assert calls == ["write"] * chunks + ["check"] * chunks


def test_a_byte_that_changes_is_found() -> None:
    held = HeldMemory(300_001)
    held.write(lambda: None)
    held.mapping[150_000] ^= 1
    with pytest.raises(MemoryChanged, match="of 300001 bytes it had written, those from 131072 to 196608"):
        held.check(lambda: None)


@on_host
async def test_a_task_whose_memory_changes_fails(host: Host) -> None:
    launched = await host.launch("one", keys=40, memory_bytes=50 * MIB + 1)
    await host.keys_done("one", 1)
    overwrite_memory(launched["pid"])
    ended = await host.event("exited", "one")
    assert ended["code"] == os.EX_IOERR
    assert "the task's memory has changed: of 52428801 bytes" in ended["reason"]


@on_host
async def test_a_stop_may_come_while_memory_is_written(host: Host) -> None:
    await host.launch("one", keys=3, memory_bytes=200 * MIB)
    await host.event("first_key", "one")
    assert (await host.do("suspend", "one"))["event"] == "suspended"
    resumed = await host.do("resume", "one")
    assert (resumed["event"], resumed["swapped_bytes"]) == ("resumed", 0)
    assert (await host.event("exited", "one"))["code"] == 0


async def page_out_and_in(host: Host, name: str, size_bytes: int, group: str) -> int:
    """A task is stopped, another one fills the node, the first goes on and ends; what had been in swap of it."""
    held = {"memory_bytes": size_bytes, "memory_group": group}
    await host.launch(f"{name}-low", keys=20, **held)
    await host.keys_done(f"{name}-low", 1)
    assert (await host.do("suspend", f"{name}-low"))["event"] == "suspended"
    await host.launch(f"{name}-high", keys=2, **held)
    assert (await host.event("exited", f"{name}-high"))["code"] == 0
    resumed = await host.do("resume", f"{name}-low")
    ended = await host.event("exited", f"{name}-low")
    assert (ended["code"], ended["reason"]) == (0, "")
    return resumed["swapped_bytes"]


@needs_swap
@pytest.mark.parametrize(
    ("size_bytes", "cycles"),
    [(SIZE_BYTES, CYCLES), pytest.param(1024 * MIB, 200, marks=[pytest.mark.slow, pytest.mark.timeout(0)])],
)
def test_what_a_stopped_task_holds_is_paged_out_and_comes_back_equal(
    tmp_path: Path, size_bytes: int, cycles: int
) -> None:
    mark = secrets.token_hex(4)
    memories = NodeMemories(mark, tmp_path, 0.5, [node(3 * size_bytes, 4 * size_bytes)])
    assert memories.real_bytes(2 * size_bytes) == size_bytes
    assert memories.emulated_bytes(size_bytes) == 2 * size_bytes
    memories.open()
    try:
        group = memories.processes_file("node-1")
        assert group is not None
        assert swaps_below(tmp_path) == [str(tmp_path / "swap")]

        async def scenario(host: Host) -> None:
            host.bound_s *= size_bytes / SIZE_BYTES  # a gigabyte takes its time on a slow disk
            for number in range(cycles):
                swapped_bytes = await page_out_and_in(host, f"cycle-{number}", size_bytes, group)
                # Two do not fit: half of one has to go, and up to all of it may.
                assert size_bytes * 0.4 < swapped_bytes <= size_bytes * 1.1

        in_host(tmp_path, scenario, slots=2 * cycles)
        assert memories.why_killed("node-1", "large", ()) is None
    finally:
        memories.close()
    assert (swaps_below(tmp_path), groups_of(mark), (tmp_path / "swap").exists()) == ([], [], False)


@needs_swap
def test_a_task_that_is_killed_while_stopped_says_what_of_it_was_in_swap(tmp_path: Path) -> None:
    mark = secrets.token_hex(4)
    memories = NodeMemories(mark, tmp_path, 1.0, [node(SIZE_BYTES, 2 * SIZE_BYTES)])
    memories.open()
    try:

        async def scenario(host: Host) -> None:
            held = {"memory_bytes": SIZE_BYTES, "memory_group": memories.processes_file("node-1")}
            await host.launch("low", keys=20, **held)
            await host.keys_done("low", 1)
            await host.do("suspend", "low")
            await host.launch("high", keys=2, **held)
            await host.event("exited", "high")
            killed = await host.do("kill", "low")
            assert killed["event"] == "killed"
            assert killed["swapped_bytes"] > SIZE_BYTES * 0.5

        in_host(tmp_path, scenario)
    finally:
        memories.close()


@needs_swap
def test_a_node_without_room_says_who_killed_its_task(tmp_path: Path) -> None:
    memories = NodeMemories(secrets.token_hex(4), tmp_path, 1.0, [node(SIZE_BYTES, 16 * MIB)])
    memories.open()
    try:

        async def scenario(host: Host) -> None:
            group = memories.processes_file("node-1")
            await host.launch("large", memory_bytes=2 * SIZE_BYTES, memory_group=group)
            ended = await host.event("exited", "large")
            assert (ended["code"], ended["signal"]) == (None, 9)
            said = memories.why_killed("node-1", "large", ())
            assert said is not None
            assert "node-1 had no memory left, of 104 MiB, nor swap, of 32 MiB" in said
            assert memories.why_killed("node-1", "large", ()) is None

        in_host(tmp_path, scenario)
    finally:
        memories.close()


@needs_swap
def test_what_is_left_of_a_run_is_found_by_its_marks(tmp_path: Path) -> None:
    mark, other = secrets.token_hex(4), secrets.token_hex(4)
    for of in (mark, other):
        (tmp_path / of).mkdir()
        NodeMemories(f"{of}-nodes-1", tmp_path / of, 1.0, [node(SIZE_BYTES, SIZE_BYTES)]).open()
    try:
        (group,) = groups_of(mark)
        with subprocess.Popen(["sleep", "600"]) as member:
            (group / "cgroup.procs").write_text(str(member.pid))
            clean_up(mark, [tmp_path / mark])
            assert member.wait() == -signal.SIGKILL
        assert (swaps_below(tmp_path / mark), groups_of(mark)) == ([], [])
        assert swaps_below(tmp_path / other)
        assert groups_of(other)
    finally:
        clean_up(other, [tmp_path / other])
    assert swaps_below(tmp_path) == groups_of(other) == []


def test_a_swap_file_larger_than_the_disk_is_refused_with_the_numbers(tmp_path: Path) -> None:
    with pytest.raises(SwapFailed, match=r"swap of 1073741824 MiB does not fit: \d+ MiB are free"):
        make_swap_file(tmp_path / "swap", 1 << 50)
    assert list(tmp_path.iterdir()) == []


def test_a_swap_file_that_cannot_be_written_is_refused_with_the_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        file_size_limit(8 * MIB),
        pytest.raises(SwapFailed, match="no swap file of 16 MiB can be made there: File too"),
    ):
        make_swap_file(tmp_path / "swap", 16 * MIB)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SwapFailed, match="mkswap cannot be run: No such file or directory; install util-linux"):
        make_swap_file(tmp_path / "swap", 16 * MIB)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="others have no swap")
def test_a_machine_without_the_memory_controller_is_said_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = load_experiment("catalog:os-assisted", ["workload.jobs.0.memory_gb=1"])
    jobs = expand(experiment, 1)
    mounts = tmp_path / "mounts"
    mounts.write_text("cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n")
    monkeypatch.setattr(cgroups, "_MOUNTS", mounts)
    why = "cluster.swap_gb: 4 GB a node: real swap needs memory cgroups: no memory controller of cgroups is mounted"
    with pytest.raises(ConfigError, match=f"{why}; set it to 0"):
        fitted_to_machine(experiment, jobs)
    memories = NodeMemories("mark", tmp_path, 1.0, [node(MIB, MIB)])
    with pytest.raises(SwapFailed, match="no memory controller of cgroups is mounted, on every machine"):
        memories.open()  # as on another machine of a cluster
    assert list(tmp_path.iterdir()) == [mounts]


@needs_swap
def test_a_swap_file_that_cannot_be_switched_on_is_removed() -> None:
    directory = Path("/dev/shm") / f"natjam-test-{secrets.token_hex(4)}"
    directory.mkdir()
    try:
        with pytest.raises(SwapFailed, match=r"swap of 16 MiB cannot be switched on .*: .*file system of a disk"):
            make_swap_file(directory / "swap", 16 * MIB)
        assert list(directory.iterdir()) == []
    finally:
        directory.rmdir()

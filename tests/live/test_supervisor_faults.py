"""Deaths, bursts and refusals: whatever ends, nothing stays, and nothing blocks."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from threading import Event, Thread

import msgpack
import pytest

from emulator.live.janitor import find_run_processes
from emulator.live.tasks.progress_page import ProgressPage
from emulator.live.tasks.supervisor_client import SupervisorClient, SupervisorLost
from tests.live_runs import gone, until
from tests.supervision import BOUND_S, Host, on_host, open_descriptors, opened_since

_REPOSITORY = Path(__file__).resolve().parents[2]


def check_gone(run_id: str, pids: Sequence[int] = ()) -> None:
    """Wait until no process of a run, nor any of ``pids``, is left."""
    until(lambda: not find_run_processes(run_id) and gone(pids), "nothing left", BOUND_S)


@on_host
async def test_a_supervisor_that_is_killed_takes_all_with_it(host: Host) -> None:
    pids = [(await host.launch(name, key_s=600))["pid"] for name in ("c1", "c2", "c3")]
    await host.event("first_key", "c1")
    await host.do("suspend", "c1")
    os.kill(host.client.pid, signal.SIGKILL)
    await host.until(lambda: host.lost)
    assert "status -9" in host.lost[0]
    check_gone(host.run_id, pids)
    host.client.send({"op": "kill", "id": "c2"})  # nobody is there: dropped


_DOOMED_HOST = """
import asyncio, sys
from pathlib import Path
from tests.supervision import Host

async def main():
    host = Host(Path(sys.argv[1]))
    await host.client.start()
    for name in ("c1", "c2"):
        await host.launch(name, key_s=600)
    await host.event("first_key", "c1")
    await host.do("suspend", "c1")
    print(host.run_id, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def test_a_host_that_is_killed_takes_all_with_it(tmp_path: Path) -> None:
    path = os.pathsep.join([str(_REPOSITORY), str(_REPOSITORY / "tests")])
    with subprocess.Popen(
        [sys.executable, "-c", _DOOMED_HOST, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as host:
        assert host.stdout is not None
        run_id = host.stdout.readline().strip()
        assert len(find_run_processes(run_id)) == 3
        host.kill()
        check_gone(run_id)


def test_the_end_of_the_loops_thread_does_not_end_the_supervisor(tmp_path: Path) -> None:
    # Started from a loop in a thread that ends: PDEATHSIG must not fire.
    clients: list[SupervisorClient] = []

    async def start() -> None:
        client = SupervisorClient("feedbeef", tmp_path, 1, lambda event: None, lambda reason: None)
        await client.start()
        clients.append(client)

    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_until_complete, args=(start(),))
    thread.start()
    thread.join()
    ended = os.pidfd_open(clients[0].pid)
    try:
        assert select.select([ended], [], [], 0.5)[0] == []
    finally:
        os.close(ended)
        loop.run_until_complete(clients[0].close())
        loop.close()
    assert find_run_processes("feedbeef") == []


@pytest.mark.parametrize("sign", ["the end of stdin", "the end of the starting thread"])
def test_one_sign_that_the_host_is_gone_is_enough(tmp_path: Path, sign: str) -> None:
    ProgressPage.create(tmp_path / "page", 1).close()
    command = [sys.executable, "-m", "emulator.live.tasks.supervisor", "--page", str(tmp_path / "page"), "--slots", "1"]
    started: list[subprocess.Popen[bytes]] = []
    go_on = Event()

    def start() -> None:
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=_REPOSITORY))
        go_on.wait()

    thread = Thread(target=start)
    thread.start()
    while not started:
        time.sleep(0.001)
    with started[0] as process:
        assert process.stdin is not None
        events = msgpack.Unpacker(process.stdout, read_size=1)
        process.stdin.write(msgpack.packb(Host(tmp_path).reduce("c1", key_s=600)) or b"")
        process.stdin.flush()
        assert [next(events)["event"] for _ in range(3)] == ["ready", "launched", "first_key"]
        if sign == "the end of stdin":
            process.stdin.close()
        else:
            go_on.set()
            thread.join()
        exited = next(events)
        assert (exited["event"], exited["signal"]) == ("exited", signal.SIGKILL)
        assert process.wait(BOUND_S) == 0
    go_on.set()
    thread.join()


@on_host(slots=200)
async def test_two_hundred_are_launched_stopped_and_ended(host: Host) -> None:
    names = [f"c{number}" for number in range(200)]
    launches = [host.reduce(name, keys=1, key_s=600, localised=False, maps=1) for name in names]
    for launch in launches:
        host.client.send(launch)
    for name in names:
        host.client.send({"op": "suspend", "id": name})
    await host.until(lambda: Counter(e["event"] for e in host.events)["suspended"] == 200)
    for name in names[:100]:
        host.client.send({"op": "resume", "id": name})
    await host.until(lambda: Counter(e["event"] for e in host.events)["resumed"] == 100)
    await host.client.close()
    assert Counter(e["event"] for e in host.events) == {
        "launched": 200,
        "suspended": 200,
        "resumed": 100,
        "exited": 200,
    }
    assert host.lost == []


@on_host
async def test_a_burst_is_taken_while_nobody_reads(host: Host) -> None:
    # Far more than two pipes hold, in both directions, in one turn of the loop; then the loop stands still.
    for number in range(20_000):
        host.client.send({"op": "suspend", "id": f"nobody-{number}"})
    await asyncio.sleep(0)
    time.sleep(0.3)
    await host.until(lambda: len(host.events) == 20_000)
    assert [event["id"] for event in host.events] == [f"nobody-{number}" for number in range(20_000)]


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (b"\xc1", "malformed"),
        (msgpack.packb([1, 2]), "a command is a map, not list"),
        (msgpack.packb({"op": "explode", "id": "c1"}), "unknown op 'explode'"),
        (msgpack.packb({"op": "suspend"}), "suspend: id must be str"),
        (msgpack.packb({"op": "launch", "id": "c1", "kind": "reduce", "slot": "0", "params": {}}), "slot must be int"),
    ],
)
@on_host
async def test_a_malformed_command_ends_the_supervisor_and_its_tasks(host: Host, stream: bytes, message: str) -> None:
    await host.launch("c1", keys=1000)
    host.client._pipe.write(stream)  # beneath the client, which packs nothing malformed
    exited = await host.event("exited", "c1")
    assert exited["signal"] == signal.SIGKILL
    await host.until(lambda: host.lost)
    assert message in host.lost[0]
    assert f"status {os.EX_PROTOCOL}" in host.lost[0]


def test_a_supervisor_that_cannot_start_says_why(tmp_path: Path) -> None:
    async def scenario() -> None:
        client = SupervisorClient("feedbee1", tmp_path, 1, lambda event: None, lambda reason: None)
        create = ProgressPage.create

        def shrink(path: Path, slots: int) -> ProgressPage:
            page = create(path, slots)
            os.truncate(path, 10)
            return page

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ProgressPage, "create", shrink)
            with pytest.raises(SupervisorLost, match="10 bytes, expected 64 bytes"):
                await client.start()

    before = open_descriptors()
    asyncio.run(scenario())
    assert list(tmp_path.iterdir()) == []
    assert opened_since(before) == []


@on_host
async def test_close_is_bounded_when_the_supervisor_hangs(host: Host) -> None:
    await host.launch("c1", keys=1000)
    os.kill(host.client.pid, signal.SIGSTOP)
    await host.client.close(grace_real_s=0.1)
    check_gone(host.run_id)
    assert host.lost == []


_LIMITED = """
import locale, os, resource, sys  # locale: argparse's late import, perhaps unreadable to another user
from emulator.live.tasks import shuffle, supervisor
shuffle.warm_up()
if os.getuid() == 0:
    os.setgid(61234); os.setuid(61234)  # no limit binds root
    resource.setrlimit(resource.RLIMIT_NPROC, (4, 4))
else:
    sys.exit("needs root to be alone with its limit")
sys.exit(supervisor.main())
"""


@pytest.mark.skipif(os.getuid() != 0, reason="a process limit counts all of a user's processes; needs a fresh user")
def test_a_machine_that_refuses_to_fork_fails_the_launch_and_nothing_else() -> None:
    with tempfile.TemporaryDirectory() as directory:  # not pytest's, which only root may enter
        _launch_six_under_a_limit_of_four(Path(directory))


def _launch_six_under_a_limit_of_four(directory: Path) -> None:
    page = directory / "page"
    ProgressPage.create(page, 8).close()
    for path in (directory, page):
        os.chown(path, 61234, 61234)
    host = Host(directory)  # for its launch commands only
    launches = [host.reduce(f"c{n}", keys=1, localised=False, maps=1) for n in range(6)]
    with subprocess.Popen(
        [sys.executable, "-c", _LIMITED, "--page", str(page), "--slots", "8"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=_REPOSITORY,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"".join(msgpack.packb(launch) or b"" for launch in launches))
        process.stdin.flush()
        events = msgpack.Unpacker(process.stdout, read_size=1)
        answers = [next(events) for _ in range(7)][1:]
        process.stdin.write(msgpack.packb({"op": "close"}) or b"")
        process.stdin.close()
        ends = list(events)
    assert Counter(event["event"] for event in answers) == {"launched": 3, "launch_failed": 3}
    assert all("run fewer containers" in e["reason"] for e in answers if e["event"] == "launch_failed")
    assert [event["event"] for event in ends] == ["exited"] * 3
    assert process.returncode == 0

"""One reduce under a real supervisor: launch, suspend, resume, checkpoint, kill, exit."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest

from emulator.live.tasks.partial_output import PartialOutput
from emulator.live.tasks.progress_page import WorkState
from tests.damage import flip_a_bit
from tests.supervision import Host, on_host, open_descriptors


@on_host
async def test_a_reduce_runs_to_its_commit(host: Host) -> None:
    launched = await host.launch("c1", keys=3)
    first_key = await host.event("first_key", "c1")
    committing = await host.event("committing", "c1")
    exited = await host.event("exited", "c1")
    assert launched["received_real_ns"] <= launched["forked_real_ns"]
    assert launched["received_real_ns"] <= first_key["real_ns"], "the fork may return later in the parent"
    assert not first_key["waited"]
    assert committing["real_ns"] - first_key["real_ns"] >= 2 * 20_000_000
    assert (exited["code"], exited["signal"], exited["keys_done"], exited["reason"]) == (0, None, 3, "")
    assert sum(count for _, count in exited["lag"]["buckets"]) == 3
    assert host.output("job of c1").count(b"\n") == 3
    progress = host.client.page.read(0)
    assert (progress.state, progress.keys_done, progress.keys_total) == (WorkState.DONE, 3, 3)


@on_host
async def test_a_suspended_reduce_does_no_work_and_gets_no_time(host: Host) -> None:
    await host.launch("c1", keys=8, key_s=0.05)
    first_key = await host.event("first_key", "c1")
    await host.keys_done("c1", 2)
    suspended = await host.do("suspend", "c1")
    assert suspended["received_real_ns"] <= suspended["signalled_real_ns"] <= suspended["stopped_real_ns"]
    before = host.client.page.read(0)
    assert before.state == WorkState.STOPPED
    assert host.state("c1") == "T"
    time.sleep(0.5)  # ten keys' time: the passing of real time is what is tested
    assert host.client.page.read(0).keys_done == before.keys_done
    resumed = await host.do("resume", "c1")
    assert resumed["signalled_real_ns"] <= resumed["continued_real_ns"]
    committing = await host.event("committing", "c1")
    exited = await host.event("exited", "c1")
    after = host.client.page.read(0)
    assert (exited["code"], exited["keys_done"]) == (0, 8)
    assert after.stopped_real_ns >= 500_000_000
    # All 8 keys took their 50 ms of active time, however long it was stopped.
    assert committing["real_ns"] - first_key["real_ns"] - after.stopped_real_ns >= 8 * 50_000_000 - 10_000_000
    assert host.output("job of c1").count(b"\n") == 8


@on_host
async def test_what_somebody_else_has_stopped_is_told(host: Host) -> None:
    pid = (await host.launch("c1", keys=5, key_s=0.05))["pid"]
    await host.keys_done("c1", 2)
    os.kill(pid, signal.SIGSTOP)
    await host.state_becomes("c1", "T")
    stopped_real_ns = time.monotonic_ns()
    os.kill(pid, signal.SIGCONT)
    stood_still = await host.event("stood_still", "c1")
    assert 0 < stood_still["late_real_ns"] < time.monotonic_ns() - stopped_real_ns + 10**9
    assert (await host.event("exited", "c1"))["code"] == 0
    pid = (await host.launch("c2", keys=5, key_s=60))["pid"]
    await host.event("first_key", "c2")
    os.kill(pid, signal.SIGSTOP)
    await host.state_becomes("c2", "T")
    await host.do("kill", "c2")
    assert "stood_still" in [event["event"] for event in host.events if event["id"] == "c2"]


@on_host
async def test_a_suspended_task_that_somebody_else_continues_is_stopped_again(host: Host) -> None:
    pid = (await host.launch("c1", keys=4, key_s=0.2))["pid"]
    await host.keys_done("c1", 1)
    await host.do("suspend", "c1")
    for _ in range(3):
        since_real_ns = host.client.page.read(0).state_since_real_ns
        os.kill(pid, signal.SIGCONT)
        await host.state_becomes("c1", "T", since_real_ns)
    assert host.client.page.read(0).keys_done == 1
    assert (await host.do("resume", "c1"))["event"] == "resumed"
    assert (await host.event("exited", "c1"))["code"] == 0
    kinds = [event["event"] for event in host.events]
    assert (kinds.count("suspended"), kinds.count("resumed"), kinds.count("stood_still")) == (1, 1, 0)


@on_host
async def test_nothing_is_open_while_suspended_and_no_descriptor_of_the_supervisor_ever(host: Host) -> None:
    pid = (await host.launch("c1", keys=50))["pid"]
    await host.event("first_key", "c1")
    errors = os.readlink(f"/proc/{host.client.pid}/fd/2")
    own = {line.partition(" ")[2] for line in open_descriptors()}
    supervisors = {link for link in _links(host.client.pid) & own if link.startswith("pipe:")} - {errors}
    assert len(supervisors) == 2, "commands and events"
    running = _links(pid)
    await host.do("suspend", "c1")
    stopped = _links(pid)
    assert any("_partial" in link for link in running)
    # The progress page stays mapped; no input, no output.
    assert not any(str(host.directory) in link and "/page-" not in link for link in stopped)
    assert not supervisors & (running | stopped)


def _links(pid: int) -> set[str]:
    return {os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")}


@on_host
async def test_a_checkpoint_resumed_twice_gives_the_bytes_of_an_uninterrupted_run(host: Host) -> None:
    job = "the same job"
    await host.launch("whole", keys=9, key_s=0.01, job=job)
    assert (await host.event("exited", "whole"))["code"] == 0
    expected = host.output(job)
    other = {"job": job, "output_dir": str(host.directory / "resumed")}
    saved = None
    for number, done in enumerate(await checkpoints(host, (3, 6), **other)):
        name, stop_at = f"attempt-{number}", 3 * (number + 1)
        instants = ("received", "signalled", "key_done", "written", "exited")
        assert [done[f"{i}_real_ns"] for i in instants] == sorted(done[f"{i}_real_ns"] for i in instants)
        assert done["bytes"] == (host.directory / f"node-1/containers/{name}/checkpoint.msgpack").stat().st_size
        exited = await host.event("exited", name)
        saved = done["checkpoint"]
        assert (exited["code"], exited["keys_done"]) == (75, saved["keys_done"])
        assert saved["keys_done"] > stop_at
        assert saved["past_containers"] == [f"attempt-{n}" for n in range(number + 1)]
    await host.launch("last", keys=9, key_s=0.01, checkpoint=saved, **other)
    assert (await host.event("exited", "last"))["code"] == 0
    resumed = (host.directory / "resumed/the%20same%20job/part-r-00000").read_bytes()
    assert resumed == expected


async def checkpoints(host: Host, stops: tuple[int, ...], **params: Any) -> list[dict[str, Any]]:
    """The events of the checkpoints of ``attempt-0``, ..., each of which goes on from the one before, at these keys."""
    done: list[dict[str, Any]] = []
    for number, stop_at in enumerate(stops):
        name, saved = f"attempt-{number}", done[-1]["checkpoint"] if done else None
        await host.launch(name, keys=9, key_s=0.03, checkpoint=saved, **params)
        await host.keys_done(name, stop_at)
        done.append(await host.do("checkpoint", name))
        assert done[-1]["event"] == "checkpointed"
    return done


@pytest.mark.parametrize(("damaged", "goes_on_from"), [("attempt-1", 1), ("attempt-0", 0), (None, 2)])
@on_host
async def test_a_damaged_checkpoint_means_the_last_good_one(host: Host, damaged: str | None, goes_on_from: int) -> None:
    await host.launch("whole", keys=9, key_s=0.01, job="j")
    assert (await host.event("exited", "whole"))["code"] == 0
    expected = host.output("j")
    other = {"job": "j", "output_dir": str(host.directory / "resumed")}
    first, second = [event["checkpoint"] for event in await checkpoints(host, (3, 6), **other)]
    counters = [0, first["keys_done"], second["keys_done"]]
    if damaged is not None:
        flip_a_bit(host.directory / f"resumed/_partial/j/part-r-00000.{damaged}")
    await host.launch("last", keys=9, key_s=0.3, checkpoint=second, **other)
    await host.event("first_key", "last")
    assert host.client.page.read(host.slots["last"]).keys_done in range(counters[goes_on_from], 10)
    saved = (await host.do("checkpoint", "last"))["checkpoint"]
    assert saved["past_containers"] == [*(f"attempt-{n}" for n in range(goes_on_from)), "last"]
    await host.launch("end", keys=9, key_s=0.01, checkpoint=saved, **other)
    assert (await host.event("exited", "end"))["code"] == 0
    assert (host.directory / "resumed/j/part-r-00000").read_bytes() == expected


@on_host
async def test_damage_done_while_the_last_attempt_walks_is_found_before_anything_is_committed(host: Host) -> None:
    (saved,) = [event["checkpoint"] for event in await checkpoints(host, (3,), job="j")]
    await host.launch("c2", keys=9, key_s=0.1, job="j", checkpoint=saved)
    await host.event("first_key", "c2")
    flip_a_bit(host.directory / "output/_partial/j/part-r-00000.attempt-0")
    exited = await host.event("exited", "c2")
    assert exited["code"] == 74
    assert "has changed since" in exited["reason"]
    assert not (host.directory / "output/j/part-r-00000").exists()


@on_host
async def test_a_resumed_reduce_does_only_the_work_that_is_left(host: Host) -> None:
    saved = {
        "version": 1,
        "past_containers": ["c1"],
        "keys_done": 1999,
        "input_path": str(host.directory / "not here any more"),
        "hostname": "node-1",
    }
    before = PartialOutput(str(host.directory / "output"), "job of c2", 0, "c1", [2000], None)
    for number in range(1999):
        before.append(b"%016x" % number, [b"a value"])
    before.seal()
    # One key of 50 ms is left; the 1,999 before it took a hundred seconds, more than this test waits.
    await host.launch("c2", keys=2000, key_s=0.05, checkpoint=saved)
    await host.event("committing", "c2")
    exited = await host.event("exited", "c2")
    assert (exited["code"], exited["keys_done"]) == (0, 2000)


@on_host
async def test_suspended_then_checkpointed_after_resume(host: Host) -> None:
    await host.launch("c1", keys=30, key_s=0.02)
    await host.keys_done("c1", 1)
    # Sent together: each waits for the one before, and SIGCONT for the confirmed stop.
    for op in ("suspend", "resume", "suspend", "resume", "checkpoint"):
        host.client.send({"op": op, "id": "c1"})
    await host.event("exited", "c1")
    names = [event["event"] for event in host.events]
    done = ["suspended", "resumed", "suspended", "resumed", "checkpointed", "exited"]
    assert [name for name in names if name in done] == done


@pytest.mark.parametrize("waits_for", ["input", "first key"])
@on_host
async def test_preemption_before_the_first_key(host: Host, waits_for: str) -> None:
    late = {"maps": 2, "localised": False} if waits_for == "input" else {"first_key_at_ns": 3600 * 10**9}
    await host.launch("c1", keys=4, **late)
    assert (await host.do("suspend", "c1"))["event"] == "suspended"
    assert (await host.do("resume", "c1"))["event"] == "resumed"
    done = await host.do("checkpoint", "c1")
    assert done["event"] == "checkpointed"
    assert done["checkpoint"]["keys_done"] == 0
    await host.launch("c2", keys=4, checkpoint=done["checkpoint"], job="job of c1")
    assert (await host.event("exited", "c2"))["code"] == 0
    assert host.output("job of c1").count(b"\n") == 4


@on_host
async def test_time_stopped_before_the_first_key_is_no_credit(host: Host) -> None:
    await host.launch("c1", keys=4, key_s=0.05, first_key_at_ns=100_000_000)
    await host.do("suspend", "c1")
    time.sleep(0.4)
    resumed = await host.do("resume", "c1")
    committing = await host.event("committing", "c1")
    assert committing["real_ns"] - resumed["signalled_real_ns"] >= 4 * 50_000_000


@on_host
async def test_a_stopped_reduce_can_be_killed(host: Host) -> None:
    await host.launch("c1", keys=100)
    await host.event("first_key", "c1")
    await host.do("suspend", "c1")
    killed = await host.do("kill", "c1")
    exited = await host.event("exited", "c1")
    assert killed["event"] == "killed"
    assert (exited["code"], exited["signal"], exited["reason"]) == (None, signal.SIGKILL, "killed by SIGKILL")


@on_host
async def test_kill_overtakes_what_waits(host: Host) -> None:
    await host.launch("c1", keys=2, key_s=60)
    await host.event("first_key", "c1")
    for op in ("checkpoint", "suspend", "kill"):  # the checkpoint waits for a key of a minute
        host.client.send({"op": op, "id": "c1"})
    await host.event("exited", "c1")
    completions = [event["event"] for event in host.events if event["event"] not in ("launched", "first_key")]
    assert completions == ["checkpoint_failed", "suspend_failed", "killed", "exited"]


@on_host
async def test_a_reduce_killed_from_outside(host: Host) -> None:
    pid = (await host.launch("c1", keys=100))["pid"]
    await host.keys_done("c1", 2)
    os.kill(pid, signal.SIGKILL)
    exited = await host.event("exited", "c1")
    assert (exited["code"], exited["signal"]) == (None, signal.SIGKILL)
    assert exited["keys_done"] >= 2


@on_host(slots=16)
async def test_a_suspend_that_meets_the_exit_is_answered(host: Host) -> None:
    for number in range(10):
        name = f"c{number}"
        await host.launch(name, keys=1, key_s=0.001)
        await host.event("committing", name)
        done = await host.do("suspend", name)
        if done["event"] == "suspended":  # it was still on its way
            await host.do("resume", name)
        assert (await host.event("exited", name))["code"] == 0
    unknown = await host.do("suspend", "c0")
    assert (unknown["event"], unknown["reason"]) == ("suspend_failed", "no such container here")


@on_host
async def test_operations_that_make_no_sense_fail_and_harm_nothing(host: Host) -> None:
    await host.launch("c1", keys=100)
    await host.event("first_key", "c1")
    assert "not suspended" in (await host.do("resume", "c1"))["reason"]
    await host.do("suspend", "c1")
    assert "is suspended" in (await host.do("suspend", "c1"))["reason"]
    assert "is suspended" in (await host.do("checkpoint", "c1"))["reason"]
    again = host.reduce("c1", keys=100)
    for wrong, reason in [
        ({}, "already here"),
        ({"id": "c9", "kind": "sort"}, "unknown kind"),
        ({"id": "c9", "slot": 99}, "slot 99"),
        ({"id": "../c9"}, "cannot name a directory"),
        ({"id": "c9"}, "container_id"),
        ({"id": "c9", "params": {"container_id": "c9"}}, "work_dir"),
    ]:
        command: dict[str, Any] = {**again, **wrong}
        host.client.send(command)
        failed = await host.event("launch_failed", command["id"])
        assert reason in failed["reason"]
    host.client.send({"op": "input", "id": "nobody", "outputs": []})
    assert (await host.do("resume", "c1"))["event"] == "resumed"


@on_host
async def test_a_crash_says_where_and_failed_output_says_what(host: Host) -> None:
    await host.launch("c1", duration_ns="long")
    crashed = await host.event("exited", "c1")
    assert crashed["code"] == 1
    assert "TypeError" in crashed["reason"]
    assert ".py:" in crashed["reason"]
    (host.directory / "a file").write_text("")
    await host.launch("c2", output_dir=str(host.directory / "a file"))
    failed = await host.event("exited", "c2")
    assert failed["code"] == 74
    assert "a file" in failed["reason"]


def _map(host: Host, container: str, **more: Any) -> None:
    command = host.reduce(container, localised=False)
    extra = {"reduces": 1, "seed": 7, "shuffle_bytes": None, "map_only": False, "duration_ns": 300_000_000, **more}
    host.client.send({**command, "kind": "map", "params": {**command["params"], "maps": 1, **extra}})


@pytest.mark.parametrize("map_only", [False, True])
@on_host
async def test_a_map_is_stopped_and_works_as_long_as_it_should(host: Host, map_only: bool) -> None:
    _map(host, "m1", map_only=map_only)
    pid = (await host.event("launched", "m1"))["pid"]
    first_key = await host.event("first_key", "m1")
    suspended = await host.do("suspend", "m1")
    assert (suspended["event"], host.state("m1")) == ("suspended", "T")
    assert not any(str(host.directory) in link and "/page-" not in link for link in _links(pid))
    assert not [*host.directory.rglob("part-m-00000"), *host.directory.rglob("file.out.index")]
    stopped_real_ns = time.monotonic_ns() - suspended["stopped_real_ns"]  # at least: that it goes on is seen late
    resumed = await host.do("resume", "m1")
    exited = await host.event("exited", "m1")
    assert (resumed["event"], exited["code"]) == ("resumed", 0)
    assert exited["real_ns"] - first_key["real_ns"] >= 300_000_000 + stopped_real_ns
    assert [*host.directory.rglob("part-m-00000" if map_only else "file.out.index")]


@on_host
async def test_a_map_that_waits_for_its_first_key_is_stopped_too(host: Host) -> None:
    _map(host, "m1", first_key_at_ns=3600 * 10**9)
    await host.event("launched", "m1")
    assert (await host.do("suspend", "m1"))["event"] == "suspended"
    assert (await host.do("kill", "m1"))["event"] == "killed"


@on_host
async def test_a_map_runs_and_has_no_checkpoint_to_save(host: Host) -> None:
    _map(host, "m1")
    await host.event("first_key", "m1")
    assert "counts no keys" in (await host.do("checkpoint", "m1"))["reason"]
    assert (await host.event("exited", "m1"))["code"] == 0

    # The reduce waits for the list of outputs, and finds this map's on its own disk.
    job = {"job": "job of m1", "maps": 1, "localised": False}
    await host.launch("r1", keys=5, **job)
    outputs = [{"map": 0, "url": "http://127.0.0.1:1", "version": 3}]
    host.client.send({"op": "input", "id": "r1", "outputs": outputs})
    first_key = await host.event("first_key", "r1")
    assert first_key["waited"]
    assert (await host.event("exited", "r1"))["code"] == 0
    assert host.output("job of m1").count(b"\n") == 5


@on_host
async def test_an_input_that_cannot_be_fetched_is_reported_and_awaited_again(host: Host) -> None:
    outputs = [{"map": 0, "url": "http://127.0.0.1:1", "version": 3}]
    await host.launch("r1", keys=5, maps=1, outputs=outputs, localised=False)
    failed = await host.event("fetch_failed", "r1")
    assert (failed["map"], failed["version"]) == (0, 3)
    assert "127.0.0.1:1" in failed["reason"]
    host.reduce("unused", keys=5, job="job of r1")  # puts the input on the node's disk
    host.client.send({"op": "input", "id": "r1", "outputs": outputs})
    assert (await host.event("exited", "r1"))["code"] == 0


@on_host
async def test_a_task_with_a_grace_works_on_after_sigterm_until_it_is_killed(host: Host) -> None:
    await host.launch("c1", keys=1000, has_grace=True)
    await host.keys_done("c1", 1)
    told = await host.do("terminate", "c1")
    assert (told["event"], told["received_real_ns"] <= told["signalled_real_ns"]) == ("terminated", True)
    await host.keys_done("c1", host.client.page.read(0).keys_done + 2)
    assert (await host.do("kill", "c1"))["event"] == "killed"
    assert (await host.event("exited", "c1"))["signal"] == signal.SIGKILL


@on_host
async def test_a_task_that_saves_by_itself_says_so_and_goes_on_from_there_when_it_was_killed(host: Host) -> None:
    await host.launch("c1", keys=1000, duration_ns=1000 * 20_000_000, save_period_ns=60_000_000, job="j")
    first, second = [(await host.event("saved", "c1"))["checkpoint"] for _ in range(2)]
    assert second["keys_done"] - first["keys_done"] == 3
    assert second["past_containers"] == ["c1"]
    await host.do("kill", "c1")
    await host.launch("c2", keys=1000, job="j", checkpoint=second)
    await host.keys_done("c2", second["keys_done"] + 1)

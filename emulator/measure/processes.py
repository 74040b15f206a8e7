"""Operations on processes: on single ones, launch, first key, suspend, resume, checkpoint, kill and commit; beside many
resident ones, launches; how punctual the keys of many reducers are; and how fast a task writes and reads its memory,
alone and on a node whose memory is full.

The swap is a file in this part's own directory, and the node is a memory cgroup with room for one of two tasks.  The
first task is stopped after it has written its memory.  The second task writes its own, which pages the first one's out.
When the first task continues, it reads its memory back in (os-assisted-preemption, section IV-C).  Without root, only
the first two figures are measured.
"""

from __future__ import annotations

import asyncio
import shutil
import signal

from msgspec.structs import replace

from emulator.core.job import JobSpec
from emulator.core.settings import NodeSettings
from emulator.errors import RunError
from emulator.live.cgroups import NoMemoryGroups
from emulator.live.memory.holder import MemoryHolder
from emulator.live.memory.nodes import NodeMemories, why_no_swap
from emulator.live.memory.swap_file import SwapFailed
from emulator.live.tasks.task import EXIT_CHECKPOINTED
from emulator.measure.host import MeasuredHost, make_job
from emulator.measure.samples import WARM_UP_ROUNDS, Samples, Surroundings
from emulator.records.lag import LagRecorder

REFERENCE_MAPS, REFERENCE_KEYS = 4, 120
_FETCHED = make_job("fetched", REFERENCE_MAPS, 1, REFERENCE_KEYS, real_s=0.002)
_PREEMPTED = make_job("preempted", 1, 1, 40, real_s=0.004)
_SLOWLY = replace(_PREEMPTED, reduce_ns=(600_000_000,))
"""The job with keys of 15 ms: long enough to be stopped, continued and checkpointed, or killed, on a busy machine."""
_TINY = make_job("tiny", 1, 1, 8, map_real_s=0.006)
_MAPS_NODE, _NODE = "node-1", "node-2"
_SLOTS = 16
_TO_ITS_END = ("launched", "first_key", "committing", "exited")
"""What is heard of a reduce that nobody stops."""


def measure_processes(around: Surroundings) -> Samples:
    """Measure all of them; the caches are warm from the round before."""
    return asyncio.run(_measure(around))


async def _measure(around: Surroundings) -> Samples:
    samples = Samples()
    async with MeasuredHost(around.run_id, around.directory, _SLOTS, (_MAPS_NODE, _NODE), _SLOTS) as host:
        for job in (_FETCHED, _PREEMPTED):
            for task in range(len(job.map_ns)):
                await _run_map(host, job, task, f"{job.name}-map-{task}")
        await _run_reduce(host, _PREEMPTED, "first")  # leaves its input on the node's disk
        for number in range(-WARM_UP_ROUNDS, around.rounds):
            into = samples if number >= 0 else Samples()
            await _time_map(host, into, f"map-{number}")
            await _time_fetching_reduce(host, into, f"fetch-{number}")
            await _time_preemption(host, into, f"preempt-{number}")
            await _time_kill(host, into, f"kill-{number}")
            around.progress(max(0, number) / around.rounds)
    return samples


async def _run_map(host: MeasuredHost, job: JobSpec, task: int, name: str) -> None:
    host.launch_map(name, job, task)
    await host.last_answers(name, "exited")


async def _run_reduce(host: MeasuredHost, job: JobSpec, name: str) -> None:
    host.launch_reduce(name, job, 0, _NODE, host.outputs(job))
    await host.last_answers(name, "exited")


async def _time_map(host: MeasuredHost, samples: Samples, name: str) -> None:
    ordered_real_ns = host.launch_map(name, _TINY, 0)
    launched, begun, exited = await host.last_answers(name, "launched", "first_key", "exited")
    samples.add("launch", launched["heard_real_ns"] - ordered_real_ns)
    samples.add("map_begin", begun["real_ns"] - launched["forked_real_ns"])
    samples.add("map_end", exited["heard_real_ns"] - begun["real_ns"] - _TINY.map_ns[0])


async def _time_fetching_reduce(host: MeasuredHost, samples: Samples, name: str) -> None:
    shutil.rmtree(host.directory / _NODE / "local" / _FETCHED.name, ignore_errors=True)
    host.launch_reduce(name, _FETCHED, 0, _NODE, host.outputs(_FETCHED))
    launched, begun, committing, exited = await host.last_answers(name, *_TO_ITS_END)
    samples.add("input_fetch", begun["real_ns"] - launched["forked_real_ns"])
    samples.add("commit", exited["heard_real_ns"] - committing["real_ns"])
    shutil.rmtree(host.directory / "output", ignore_errors=True)


async def _time_preemption(host: MeasuredHost, samples: Samples, name: str) -> None:
    """A reduce is stopped, continues and saves a checkpoint; another one continues from that."""
    outputs = host.outputs(_PREEMPTED)
    host.launch_reduce(name, _SLOWLY, 0, _NODE, outputs)
    await host.answer(name, "first_key")
    ordered_real_ns = host.order("suspend", name)
    suspended = await host.answer(name, "suspended")
    samples.add("suspend", suspended["heard_real_ns"] - ordered_real_ns)
    samples.add("signal_stop", suspended["stopped_real_ns"] - suspended["signalled_real_ns"])
    ordered_real_ns = host.order("resume", name)
    resumed = await host.answer(name, "resumed")
    samples.add("resume", resumed["heard_real_ns"] - ordered_real_ns)
    samples.add("signal_continue", resumed["continued_real_ns"] - resumed["signalled_real_ns"])
    host.order("checkpoint", name)
    saved, exited = await host.last_answers(name, "checkpointed", "exited")
    assert exited["code"] == EXIT_CHECKPOINTED
    samples.add("checkpoint", exited["heard_real_ns"] - saved["key_done_real_ns"])
    resumed_name = f"{name}-resumed"
    host.launch_reduce(resumed_name, _PREEMPTED, 0, _NODE, outputs, saved["checkpoint"])
    launched, begun, committing, exited = await host.last_answers(resumed_name, *_TO_ITS_END)
    samples.add("input_local", begun["real_ns"] - launched["forked_real_ns"])
    samples.add("commit_resumed", exited["heard_real_ns"] - committing["real_ns"])
    shutil.rmtree(host.directory / "output", ignore_errors=True)


async def _time_kill(host: MeasuredHost, samples: Samples, name: str) -> None:
    host.launch_reduce(name, _SLOWLY, 0, _NODE, host.outputs(_SLOWLY))
    await host.answer(name, "first_key")
    ordered_real_ns = host.order("kill", name)
    (exited,) = await host.last_answers(name, "exited")
    samples.add("kill", exited["heard_real_ns"] - ordered_real_ns)


_RESIDENTS, _RESIDENTS_QUICK = (1, 10, 100, 1000, 2000), (1, 100, 1000)
_SIDE = 100
"""How many launches below and above a number of residents count as samples for this number."""
_WAITING = make_job("waiting", 1, 1, 1)
_WALKERS, _WALKERS_QUICK = (1, 48, 200), (1, 48)
_WALK_REAL_S, _WALK_QUICK_REAL_S = 10.0, 2.2
_KEYS_A_SECOND, _KEYS_A_SECOND_ALONE = 10, 100


def measure_residents(around: Surroundings) -> Samples:
    """Launch processes that stay, up to two thousand; end them all; then time reducers' keys."""
    samples = Samples()
    asyncio.run(_grow(around, samples))
    asyncio.run(_walk(around, samples))
    return samples


async def _grow(around: Surroundings, samples: Samples) -> None:
    levels = _RESIDENTS_QUICK if around.quick else _RESIDENTS
    most = levels[-1] + _SIDE
    async with MeasuredHost(around.run_id, around.directory, most + 16) as host:
        residents = 0
        for level in levels:
            side = min(_SIDE, level // 2)
            while residents < level - side:
                await _launch(host, residents)
                residents += 1
                around.progress(0.6 * residents / most)
            if side < _SIDE:
                # With few residents a launch changes their number, so each launched process is ended again.
                for number in range(-WARM_UP_ROUNDS, around.rounds):
                    real_ns = await _launch(host, residents, f"passing-{level}-{number}")
                    await _kill(host, f"passing-{level}-{number}")
                    if number >= 0:
                        samples.add("fork", real_ns, level)
            else:
                while residents < level + side:
                    samples.add("fork", await _launch(host, residents), level)
                    residents += 1
            around.progress(0.6 * residents / most)


async def _launch(host: MeasuredHost, number: int, name: str | None = None) -> int:
    """Launch a reduce that waits for map outputs for ever.  Returns the time until its node is told."""
    container = name or f"resident-{number}"
    ordered_real_ns = host.launch_reduce(container, _WAITING, 0, "node-1")
    (launched,) = await host.last_answers(container, "launched")
    return launched["heard_real_ns"] - ordered_real_ns


async def _kill(host: MeasuredHost, container: str) -> None:
    host.order("kill", container)
    await host.last_answers(container, "exited")


async def _walk(around: Surroundings, samples: Samples) -> None:
    """Time keys.  Reducers report a histogram of their lag at their end; samples are its buckets' upper edges."""
    counts = _WALKERS_QUICK if around.quick else _WALKERS
    real_s = _WALK_QUICK_REAL_S if around.quick else _WALK_REAL_S
    for index, count in enumerate(counts):
        directory = around.directory / f"walkers-{count}"
        directory.mkdir()
        keys = round(real_s * (_KEYS_A_SECOND if count > 1 else _KEYS_A_SECOND_ALONE))
        walked = make_job("walked", 1, count, keys, real_s=real_s)
        async with MeasuredHost(around.run_id, directory, count + 16) as host:
            host.launch_map("map", walked, 0)
            await host.answer("map", "exited")
            host.lags.clear()
            for task in range(count):
                host.launch_reduce(f"walker-{task}", walked, task, "node-1", host.outputs(walked))
            for task in range(count):
                await host.answer(f"walker-{task}", "exited")
            lag = LagRecorder()
            for record in host.lags:
                lag.merge(record)
            for real_ns, times in lag.values():
                for _ in range(times):
                    samples.add("key_lag", real_ns, count)
        around.progress(0.6 + 0.4 * (index + 1) / len(counts))


# ---- memory and swap ----

_SIZE_BYTES, _QUICK_SIZE_BYTES = 256 << 20, 64 << 20
_MEMORY_ROUNDS = 10
_MEMORY_NODE = "measured"


def measure_memory(around: Surroundings) -> Samples:
    """Measure memory and, if possible, swap.  Raises RunError."""
    samples, rounds = Samples(), min(around.rounds, _MEMORY_ROUNDS)
    size_bytes = _QUICK_SIZE_BYTES if around.quick else _SIZE_BYTES
    node = NodeSettings(_MEMORY_NODE, "rack-1", 1, size_bytes, size_bytes, 2 * size_bytes, max_suspended=1)
    memories = NodeMemories(around.run_id, around.directory, 1.0, [node] if why_no_swap() is None else [])
    try:
        memories.open()
    except (SwapFailed, NoMemoryGroups) as error:
        raise RunError(f"swap cannot be measured: {error}") from None
    try:
        group = memories.processes_file(_MEMORY_NODE)
        for number in range(rounds):
            _time_memory(around.run_id, size_bytes, group, samples)
            around.progress((number + 1) / rounds)
    finally:
        memories.close()
    return samples


def _time_memory(run_id: str, size_bytes: int, group: str | None, samples: Samples) -> None:
    with MemoryHolder(run_id, size_bytes, group) as low:
        samples.add("memory_write", low.write(), size_bytes)
        if group is None:
            samples.add("memory_read", low.check(), size_bytes)
            return
        low.send(signal.SIGSTOP)
        with MemoryHolder(run_id, size_bytes, group) as high:
            samples.add("swap_out", high.write(), size_bytes)
            samples.add("memory_read", high.check(), size_bytes)
        low.send(signal.SIGCONT)
        samples.add("swap_in", low.check(), size_bytes)

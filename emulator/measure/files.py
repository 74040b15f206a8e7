"""Reading and writing by size: map output, shuffle, checkpoints, storage.  In this process, one at a time."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from emulator.core.job import JobSpec
from emulator.live.tasks import checkpoint, mapper, records, shuffle
from emulator.measure.host import MeasuredHost, make_job, records_of
from emulator.measure.processes import REFERENCE_KEYS, REFERENCE_MAPS
from emulator.measure.samples import WARM_UP_ROUNDS, Samples, Surroundings
from emulator.storage.local import atomic_file


@dataclass(frozen=True, slots=True)
class _Sizes:
    """The sizes at which the series are measured."""

    reduce_keys: tuple[int, ...]
    map_records: tuple[int, ...]
    data_bytes: tuple[int, ...]
    sources: tuple[int, ...]
    checkpoint_containers: tuple[int, ...]
    """Numbers of past containers in a checkpoint: usual, many, extremely many."""


_FULL = _Sizes((12, 120, 1200), (100, 1000, 5000), (1 << 12, 1 << 20, 16 << 20), (1, 2, 4), (1, 500, 20_000))
_QUICK = _Sizes((12, 600), (100, 500), (1 << 12, 1 << 20), (1, 4), (1, 500))
_LARGE_KEYS = 8
_NODES = ("node-1", "node-2", "node-3", "node-4")
_REDUCER_NODE = "node-9"


def measure_files(around: Surroundings) -> Samples:
    """Measure all series of files in ``emulator.costs.calibration``."""
    return asyncio.run(_measure(around))


async def _measure(around: Surroundings) -> Samples:
    samples, sizes = Samples(), _QUICK if around.quick else _FULL
    async with MeasuredHost(around.run_id, around.directory, 16, _NODES) as host:
        cases = [
            *_checkpoint_cases(samples, sizes, around.directory),
            *_storage_cases(samples, sizes, around.directory),
            *_map_cases(samples, sizes, around.directory),
            *await _fetch_cases(samples, sizes, host),
        ]
        for number in range(-WARM_UP_ROUNDS, around.rounds):  # sizes in turn, so that a busy moment affects all
            for case in cases:
                case(number < 0)
            around.progress(max(0, number + 1) / around.rounds)
    return samples


Case = Callable[[bool], None]
"""One repetition; its argument says whether it belongs to the warm-up."""


def _timed(samples: Samples, operation: str, at: int, act: Callable[[], object], anew: Path | None = None) -> Case:
    """``anew``: the file that ``act`` makes; it is removed first, because replacing a large file takes long."""

    def case(warm_up: bool) -> None:
        if anew is not None:
            _remove(anew)
        began_real_ns = time.monotonic_ns()
        act()
        if not warm_up:
            samples.add(operation, time.monotonic_ns() - began_real_ns, at)

    return case


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _checkpoint_cases(samples: Samples, sizes: _Sizes, directory: Path) -> Iterator[Case]:
    for containers in sizes.checkpoint_containers:
        past = tuple(f"container-{number:06d}" for number in range(containers))
        saved = checkpoint.CheckpointFile(past, 100, str(directory / "local/job/0/input"), "node-1")
        path = str(directory / f"checkpoint-{containers}")
        size_bytes = checkpoint.write(path, saved)

        def write(path: str = path, saved: checkpoint.CheckpointFile = saved) -> None:
            checkpoint.write(path, saved)

        def read(path: str = path) -> None:
            checkpoint.read(path)

        yield _timed(samples, "checkpoint_write", size_bytes, write)
        yield _timed(samples, "checkpoint_read", size_bytes, read)


def _storage_cases(samples: Samples, sizes: _Sizes, directory: Path) -> Iterator[Case]:
    stored = directory / "stored"
    for size_bytes in sizes.data_bytes:
        data = bytes(size_bytes)
        kept = directory / f"stored-{size_bytes}"
        with atomic_file(str(kept)) as file:
            file.write(data)

        def write(data: bytes = data) -> None:
            with atomic_file(str(stored)) as file:
                file.write(data)

        yield _timed(samples, "storage_write", size_bytes, write, stored)
        yield _timed(samples, "storage_read", size_bytes, lambda kept=kept: _read_from_device(kept))


def _read_from_device(path: Path) -> None:
    with open(path, "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # it may still be in memory
        file.readall()


def _map_cases(samples: Samples, sizes: _Sizes, directory: Path) -> Iterator[Case]:
    mapped = directory / "mapped"
    for count in sizes.map_records:
        data = mapper.JobData(1, "mapped", 1, (count,), None)
        yield _timed(samples, "map_by_records", count, _mapping(mapped, data), mapped)
    for size_bytes in sizes.data_bytes:
        data = mapper.JobData(1, "mapped", 1, (_LARGE_KEYS,), size_bytes)
        yield _timed(samples, "map_by_bytes", size_bytes, _mapping(mapped, data), mapped)


def _mapping(directory: Path, data: mapper.JobData) -> Callable[[], object]:
    return lambda: records.write_map_output(str(directory), [data.partition(0, 0)])


async def _fetch_cases(samples: Samples, sizes: _Sizes, host: MeasuredHost) -> list[Case]:
    cases = []
    for keys in sizes.reduce_keys:
        job = make_job(f"records-{keys}", REFERENCE_MAPS, 1, keys)
        await _run_maps(host, job)
        cases.append(_fetching(samples, "fetch_by_records", records_of(job), host, job))
    for size_bytes in sizes.data_bytes:
        job = make_job(f"bytes-{size_bytes}", REFERENCE_MAPS, 1, _LARGE_KEYS, shuffle_bytes=size_bytes)
        await _run_maps(host, job)
        cases.append(_fetching(samples, "fetch_by_bytes", size_bytes, host, job))
    for sources in sizes.sources:
        job = make_job(f"sources-{sources}", REFERENCE_MAPS, 1, REFERENCE_KEYS)
        await _run_maps(host, job, sources)
        cases.append(_fetching(samples, "fetch_by_requests", sources, host, job, sources))
    return cases


async def _run_maps(host: MeasuredHost, job: JobSpec, sources: int = 1) -> None:
    for task in range(len(job.map_ns)):
        name = f"{job.name}-{task}"
        host.launch_map(name, job, task, _NODES[task % sources])
        await host.last_answers(name, "exited")


def _fetching(samples: Samples, operation: str, at: int, host: MeasuredHost, job: JobSpec, sources: int = 1) -> Case:
    params, outputs = host.fetch_parameters(job, 0, _REDUCER_NODE), host.outputs(job, sources)

    def fetch() -> None:
        shuffle.fetch_and_merge(params, outputs)

    return _timed(samples, operation, at, fetch, host.directory / _REDUCER_NODE)

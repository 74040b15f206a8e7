"""What the data path costs: generating, merging, walking, fetching and verifying one big and one small job."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from analysis.verify import verify_output
from emulator.core.job import JobSpec
from emulator.live.tasks import partial_output, records, shuffle
from emulator.live.tasks.mapper import JobData
from emulator.vocabulary import JobFacts, map_reduce
from tests.map_outputs import read_partition

SECRET = "benchmark of the data path"
JOBS = {
    # Fig. 4's research job has 47 reduces with about as many keys each as they last seconds.
    "small": JobData(1, "small", 4, (137,) * 47, None),
    "big": JobData(1, "big", 4, (100,) * 2, 50_000_000),
}


@pytest.fixture(params=JOBS)
def data(request: pytest.FixtureRequest) -> JobData:
    return JOBS[request.param]


def write_maps(data: JobData, root: Path) -> None:
    for m in range(data.maps):
        directory = records.map_directory(str(root / "node-1"), data.job, m)
        partitions = (data.partition(m, r) for r in range(len(data.reduce_keys)))
        records.write_map_output(directory, partitions)


def partitions_of(data: JobData, root: Path, r: int) -> list[list[records.Record]]:
    directories = [records.map_directory(str(root / "node-1"), data.job, m) for m in range(data.maps)]
    return [read_partition(directory, r) for directory in directories]


def walk(data: JobData, r: int, path: str, root: Path) -> None:
    output = partial_output.PartialOutput(str(root / "out"), data.job, r, "c", data.reduce_keys, None)
    with contextlib.closing(records.KeyReader(path)) as reader:
        for key, values in reader:
            output.append(key, values)
    output.close()


def test_generate_and_write_all_maps(benchmark: BenchmarkFixture, data: JobData, tmp_path: Path):
    benchmark(write_maps, data, tmp_path)
    assert len(partitions_of(data, tmp_path, 0)) == data.maps


def test_merge_one_reduce(benchmark: BenchmarkFixture, data: JobData, tmp_path: Path):
    write_maps(data, tmp_path)
    sources = partitions_of(data, tmp_path, 0)
    assert benchmark(records.merge, sources, str(tmp_path / "input")) == data.reduce_keys[0]


def test_walk_and_write_one_reduce(benchmark: BenchmarkFixture, data: JobData, tmp_path: Path):
    write_maps(data, tmp_path)
    records.merge(partitions_of(data, tmp_path, 0), str(tmp_path / "input"))
    benchmark(walk, data, 0, str(tmp_path / "input"), tmp_path)
    assert list((tmp_path / "out").rglob("part-*.c"))


def test_verify_one_job(benchmark: BenchmarkFixture, data: JobData, tmp_path: Path):
    write_maps(data, tmp_path)
    for r, keys in enumerate(data.reduce_keys):
        records.merge(partitions_of(data, tmp_path, r), str(tmp_path / "input"))
        walk(data, r, str(tmp_path / "input"), tmp_path)
        partial_output.commit(str(tmp_path / "out"), data.job, r, ["c"], keys)
    lengths = tuple(keys * 10**9 for keys in data.reduce_keys)
    facts = JobFacts(data.job, "q", map_reduce(data.maps, len(lengths)))
    job = JobSpec(facts, 0, (1,) * data.maps, lengths, data.reduce_keys, shuffle_bytes=data.shuffle_bytes)
    assert benchmark(verify_output, [job], data.seed, tmp_path / "out").verified


@pytest.fixture
def service_url(tmp_path: Path) -> Iterator[str]:
    command = [
        sys.executable,
        "-m",
        "emulator.live.services.shuffle_service",
        "--root",
        str(tmp_path),
        "--nodes",
        "node-1",
    ]
    service = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert service.stdin is not None
    assert service.stdout is not None
    service.stdin.write(SECRET.encode() + b"\n")
    service.stdin.flush()
    yield f"http://127.0.0.1:{json.loads(service.stdout.readline())['port']}/node-1"
    service.communicate()


def test_fetch_and_merge_one_reduce(benchmark: BenchmarkFixture, data: JobData, tmp_path: Path, service_url: str):
    write_maps(data, tmp_path)
    params = {
        "job": data.job,
        "task": 0,
        "maps": data.maps,
        "keys": data.reduce_keys[0],
        "node": "node-2",
        "work_dir": str(tmp_path / "node-2"),
        "secret": SECRET,
        "network_bytes_real_s": 10**12,
        "checkpoint": None,
        "save_period_ns": None,
    }
    outputs = [{"map": m, "url": service_url} for m in range(data.maps)]

    def fetch_afresh() -> int:
        path, keys = shuffle.fetch_and_merge(params, outputs)
        Path(path).unlink()
        return keys

    assert benchmark(fetch_afresh) == data.reduce_keys[0]

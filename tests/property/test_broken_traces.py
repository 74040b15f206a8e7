"""Importers fed damaged traces: they deliver sound jobs, or raise their documented error and nothing else."""

from __future__ import annotations

import gzip
import random
from datetime import datetime
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from tests.damage import damaged, seeds_of, taken_or_refused
from tests.traces import FIRST_50, FIVE_JOBS, GOOGLE, SLS, SWF, SYNTH, YARN_APPS, content, read
from workloads.errors import Problems, TraceError
from workloads.importers import open_trace
from workloads.importers.fields import MAX_LENGTH_NS, MAX_NS
from workloads.record import WorkloadJob
from workloads.schema import Format
from workloads.store import write_workload

TABLE_ROWS = [
    {"job": f"a{n}", "submit": datetime(2026, 3, 1, 10, n), "length_ms": 60_000.0 * n, "tasks": n, "queue": "gpu"}
    for n in range(9)
]
TABLE_CSV = b"job,submit,length,tasks,queue,memory_mb,priority\n" + b"".join(
    b'a%d,2026-03-01T10:0%d:00,0%d:00:00,%d,"long, low",512,-%d\n' % (n, n, n, n, n) for n in range(9)
)


def originals(folder: Path) -> dict[str, tuple[Format, bytes]]:
    """Small traces of every format, by the name of a case."""
    out = {kind: folder / f"small.{kind}" for kind in ("jsonl", "parquet")}
    for path in out.values():
        write_workload(path, open_trace(SLS, "sls", Problems()))
    table = folder / "table.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(TABLE_ROWS), table)
    rumen = content(FIVE_JOBS).split(b"\n")[1] + b"\n"
    return {
        "swim": ("swim", b"".join(FIRST_50.read_bytes().splitlines(keepends=True)[12:22])),
        "swf": ("swf", content(SWF)),
        "rumen": ("rumen", rumen),
        "rumen-gz": ("rumen", gzip.compress(rumen, mtime=0)),
        "sls": ("sls", content(SLS)),
        "synth": ("synth", content(SYNTH)),
        "google": ("google", b""),
        "yarn": ("yarn", content(YARN_APPS)),
        "table-csv": ("table", TABLE_CSV),
        "table-parquet": ("table", table.read_bytes()),
        "natjam-jsonl": ("natjam", out["jsonl"].read_bytes()),
        "natjam-parquet": ("natjam", out["parquet"].read_bytes()),
    }


def google_slice(folder: Path, rng: random.Random) -> Path:
    """A part of the shipped slice, one of its tables damaged."""
    target = rng.choice(("task_events", "task_events", "job_events", "machine_events"))
    for table in ("task_events", "job_events", "machine_events"):
        (folder / table).mkdir(exist_ok=True)
        raw = b"".join(content(next((GOOGLE / table).glob("part-*"))).splitlines(keepends=True)[:60])
        (folder / table / "part-00000").write_bytes(damaged(rng, raw) if table == target else raw)
    return folder


def assert_sound(job: WorkloadJob) -> None:
    assert job.job
    assert not job.job.startswith((".", "_"))
    assert 0 <= job.submit_ns <= MAX_NS
    for later_ns in (job.finish_ns, job.deadline_ns):
        assert later_ns is None or later_ns >= job.submit_ns
    for byte_count in (job.input_bytes, job.shuffle_bytes, job.output_bytes, job.memory_bytes):
        assert byte_count is None or byte_count >= 0
    if job.tasks is not None:
        assert job.tasks
        for task in job.tasks:
            assert task.kind in ("map", "reduce")
            assert type(task.length_ns) is int
            assert 1 <= task.length_ns <= MAX_LENGTH_NS


def check(folder: Path, case: str, format: Format, raw: bytes, rng: random.Random) -> bool:
    """One damaged trace; whether it was refused."""
    if format == "google":
        path = google_slice(folder, rng)
    else:
        path = folder / "damaged"
        path.write_bytes(damaged(rng, raw))
    lenient = rng.random() < 0.5
    found = taken_or_refused(lambda: read(path, format, lenient=lenient), path, refusal=TraceError)
    if found is None:
        return True
    for job in found.jobs:
        assert_sound(job)
    assert len({job.job for job in found.jobs}) == len(found.jobs)
    return False


CASES = ("swim", "swf", "rumen", "rumen-gz", "sls", "synth", "google", "yarn")
CASES += ("table-csv", "table-parquet", "natjam-jsonl", "natjam-parquet")


@pytest.mark.parametrize("case", CASES)
def test_some_damaged_traces(tmp_path: Path, case: str):
    _check_many(tmp_path, case, seeds_of("traces"))


@pytest.mark.parametrize(("case", "seed"), [("natjam-parquet", 7592), ("table-parquet", 14408)])
def test_damaged_traces_that_once_ended_the_process(tmp_path: Path, case: str, seed: int):
    """A footer at which pyarrow aborts, and a date beyond Python's."""
    format, raw = originals(tmp_path)[case]
    check(tmp_path, case, format, raw, random.Random(f"{case}-{seed}"))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("case", CASES)
def test_twenty_thousand_damaged_traces(tmp_path: Path, case: str):
    _check_many(tmp_path, case, range(20_000))


def _check_many(folder: Path, case: str, seeds: range) -> None:
    format, raw = originals(folder)[case]
    refused = 0
    for seed in seeds:
        try:
            refused += check(folder, case, format, raw, random.Random(f"{case}-{seed}"))
        except BaseException as error:
            raise AssertionError(f"{case}, seed {seed}: {error!r}") from error
    assert 0.05 * len(seeds) < refused < len(seeds), f"{refused} of {len(seeds)} refused"

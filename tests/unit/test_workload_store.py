"""Workload files: both kinds hold the same, nothing is lost, and broken ones are refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from emulator.errors import RunError
from tests.memory import MIB, most_bytes_taken
from tests.traces import FIRST_50, FIVE_JOBS, GOOGLE, SLS, SWF, read, write
from workloads.errors import Problems, TraceError
from workloads.importers import open_trace
from workloads.record import JOB_COLUMNS, TASK_COLUMNS, Header, Trace, WorkloadJob, WorkloadTask, measured
from workloads.schema import Format
from workloads.store import SUFFIXES, write_workload

HEADER = {"natjam_workload": 1, "format": "x", "origin": "zero", "columns": {}, "history": []}
JOB = {"job": "a", "submit_ns": 5, "tasks": [{"kind": "map", "length_ns": 7}]}


def lines(*values: Any) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    ("path", "format"), [(FIRST_50, "swim"), (FIVE_JOBS, "rumen"), (SLS, "sls"), (SWF, "swf"), (GOOGLE, "google")]
)
def test_what_is_written_is_read_back(tmp_path: Path, path: Path, format: Format, suffix: str):
    out = tmp_path / f"out{suffix}"
    before = read(path, format)
    assert write_workload(out, open_trace(path, format, Problems())) == len(before.jobs)
    after = read(out, "natjam")
    assert after.jobs == before.jobs
    assert after.header == before.header
    assert [file.name for file in tmp_path.iterdir()] == [out.name]


def test_parquet_has_the_documented_columns_for_other_tools(tmp_path: Path):
    out = tmp_path / "out.parquet"
    write_workload(out, open_trace(FIVE_JOBS, "rumen", Problems()))
    table = pyarrow.parquet.read_table(out)
    assert table.schema.names == list(JOB_COLUMNS)
    assert [field.name for field in table.schema.field("tasks").type.value_type] == list(TASK_COLUMNS)
    frame = table.to_pandas()
    assert frame["tasks"].map(len).sum() == 503 + 151


def test_every_column_survives(tmp_path: Path):
    task = WorkloadTask("reduce", 3, "modelled", 4, "host", -2, 5, 6, 7, 8, 9, {"a": [1, None, "x"]})
    job = WorkloadJob("a", 1, "q", "u", -3, 4, 5, 6, 7, 8, 9, 10, "killed", 11, 12, 13, 14, (task,), {"b": {"c": 2.5}})
    assert None not in [getattr(job, name) for name in JOB_COLUMNS]
    assert None not in [getattr(task, name) for name in TASK_COLUMNS]
    header = Header("x", "first-submission", {"job": measured("rule")}, ("one", "two"))
    for suffix in SUFFIXES:
        write_workload(tmp_path / f"out{suffix}", Trace(header, iter([job])))
        found = read(tmp_path / f"out{suffix}", "natjam")
        assert (found.header, found.jobs) == (header, [job])


def test_a_workload_that_fails_while_it_is_written_leaves_no_file(tmp_path: Path):
    broken = write(tmp_path, FIRST_50.read_bytes() + b"broken\n")
    for suffix in SUFFIXES:
        with pytest.raises(TraceError):
            write_workload(tmp_path / f"out{suffix}", open_trace(broken, "swim", Problems()))
        assert [file.name for file in tmp_path.iterdir()] == ["trace"]
    with pytest.raises(RunError, match="cannot be written"):
        write_workload(tmp_path / "no" / "out.jsonl", open_trace(FIRST_50, "swim", Problems()))


@pytest.mark.parametrize(
    ("raw", "line", "column", "reason"),
    [
        (b"", 1, None, "begins with its header"),
        (b"\x00\x01", 1, None, "neither JSON lines nor Parquet"),
        (lines(JOB), 1, None, "begins with its header"),
        (lines(HEADER | {"natjam_workload": 2}), 1, "natjam_workload", "version 2 is unknown"),
        (lines(HEADER | {"origin": "x"}), 1, "origin", "none of"),
        (lines(HEADER, JOB, JOB), 3, "job", "earlier job"),
        (lines(HEADER, JOB | {"submit_ns": -1}), 2, "submit_ns", "negative"),
        (lines(HEADER, JOB | {"submit_ns": 1.5}), 2, "submit_ns", "not a whole number"),
        (lines(HEADER, JOB | {"submit_ns": True}), 2, "submit_ns", "not a whole number"),
        (lines(HEADER, JOB | {"finish_ns": 4}), 2, "finish_ns", "before submit_ns"),
        (lines(HEADER, JOB | {"deadline_ns": 4}), 2, "deadline_ns", "before submit_ns"),
        (lines(HEADER, JOB | {"outcome": "won"}), 2, "outcome", "none of"),
        (lines(HEADER, JOB | {"tasks": []}), 2, "tasks", "at least one"),
        (lines(HEADER, JOB | {"tasks": [{"kind": "map"}]}), 2, "tasks[0].length_ns", "missing"),
        (lines(HEADER, JOB | {"tasks": [{"kind": "x", "length_ns": 1}]}), 2, "tasks[0].kind", "none of"),
        (lines(HEADER, JOB | {"tasks": [{"kind": "map", "length_ns": 0}]}), 2, "tasks[0].length_ns", "is not 1 to"),
        (lines(HEADER) + b'{"job": "a", "submit_ns": NaN}\n', 2, None, "not JSON"),
        (lines(HEADER) + b'{"job": "\xff"}\n', 2, None, "not JSON"),
        (lines(HEADER, [JOB]), 2, None, "not an object"),
        (b"PAR1" + b"x" * 100, None, None, "not complete Parquet data"),
    ],
)
def test_broken_files(tmp_path: Path, raw, line, column, reason):
    with pytest.raises(TraceError) as caught:
        read(write(tmp_path, raw), "natjam")
    assert (caught.value.line, caught.value.column) == (line, column)
    assert reason in caught.value.reason


@pytest.mark.parametrize(
    ("head", "body"), [(b"", b" "), (b'{"natjam_workload": 1', b" "), (b'{"x": "', b"\0"), (b"", b'{"kind": "map"}, ')]
)
def test_little_data_that_unpacks_to_very_much_takes_little_memory(tmp_path: Path, head: bytes, body: bytes):
    piece = gzip.compress(body * (2**26 // len(body)), 1)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(head) + 8 * piece)  # half a gigabyte
    with most_bytes_taken(300 * MIB), pytest.raises(TraceError, match=r"these are not jobs|too long for a line"):
        read(tmp_path / "a.jsonl.gz", "natjam")


def test_parquet_of_others_and_truncated_parquet(tmp_path: Path):
    pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), tmp_path / "other.parquet")
    with pytest.raises(TraceError, match="no workload of natjam: give --format table"):
        read(tmp_path / "other.parquet", "natjam")
    out = tmp_path / "out.parquet"
    write_workload(out, open_trace(FIVE_JOBS, "rumen", Problems()))
    with pytest.raises(TraceError, match="not complete Parquet data"):
        read(write(tmp_path, out.read_bytes()[:-50]), "natjam")

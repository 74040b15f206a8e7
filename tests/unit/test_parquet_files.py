"""Parquet files of a few kilobytes that stand for gigabytes are refused, in words, before they are decoded."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable
from pathlib import Path

import numpy
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from analysis.load import read_table
from emulator.errors import ConfigError
from emulator.files import parquet_files
from emulator.files.parquet_files import TooLargeError, parquet_file, values_in_pages
from tests.simulated_runs import simulate
from tests.traces import FIVE_JOBS, read
from workloads import store
from workloads.errors import Problems, TraceError
from workloads.importers import open_trace
from workloads.store import write_workload

COUNT = 10_000_000


def equal_texts(count: int, length: int) -> pyarrow.DictionaryArray:
    places = pyarrow.array(numpy.zeros(count, dtype=numpy.int32))
    return pyarrow.DictionaryArray.from_arrays(places, pyarrow.array(["x" * length]))


def zeros(count: int) -> pyarrow.Array:
    return pyarrow.array(numpy.zeros(count, dtype=numpy.int8))


def one_list(values: pyarrow.Array) -> pyarrow.Array:
    return pyarrow.ListArray.from_arrays([0, len(values)], pyarrow.StructArray.from_arrays([values], ["kind"]))


def written(path: Path, column: pyarrow.Array, rows_of_a_group: int = COUNT) -> Path:
    table = pyarrow.table({"submit": column})
    pyarrow.parquet.write_table(table, path, compression="zstd", row_group_size=rows_of_a_group)
    assert path.stat().st_size < 2**21
    return path


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (lambda: zeros(1_000_001), "has 1,000,001 rows, above the 1,000,000 that are read"),
        (lambda: one_list(zeros(1_000_001)), r"1,000,001 values in column 'submit\."),
        (lambda: equal_texts(COUNT, 1000), r"row group 1 unpacks to 9\.4 GiB, above the 2 GiB that are read at once; "),
        (lambda: one_list(equal_texts(COUNT, 1000)), r"row group 1 unpacks to 9\.4 GiB"),
    ],
    ids=["rows", "values", "texts", "listed texts"],
)
def test_what_stands_for_too_much_is_refused_with_the_files_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: Callable[[], pyarrow.Array], reason: str
):
    monkeypatch.setattr(parquet_files, "MAX_ROWS", COUNT if "GiB" in reason else 1_000_000)
    path = written(tmp_path / "jobs.parquet", column())
    with pytest.raises(TraceError, match=rf"jobs\.parquet: .*{reason}"):
        read(path, "table")


def test_equal_texts_that_are_short_are_read(tmp_path: Path):
    path = written(tmp_path / "jobs.parquet", equal_texts(COUNT, 3))
    assert parquet_file(path).metadata.num_rows == COUNT


def test_groups_are_read_one_by_one_and_a_run_s_table_whole(tmp_path: Path):
    simulate(tmp_path, "run")
    path = written(tmp_path / "run" / "jobs.parquet", equal_texts(COUNT, 1000), COUNT // 10)
    assert parquet_file(path).num_row_groups == 10
    with pytest.raises(ConfigError, match=r"jobs\.parquet: it unpacks to 4\.7 GiB, above the 4 GiB"):
        read_table(tmp_path / "run", "jobs")
    with pytest.raises(TooLargeError):
        parquet_file(path, whole=True)


def test_one_row_of_a_workload_that_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(store, "MAX_LINE_BYTES", 2**20)
    out = tmp_path / "out.parquet"
    write_workload(out, open_trace(FIVE_JOBS, "rumen", Problems()))
    rows = pyarrow.parquet.read_table(out)
    first = rows.column("queue").to_pylist()
    longer = pyarrow.array([first[0], "q" * 2**20, *first[2:]])
    place = rows.schema.get_field_index("queue")
    pyarrow.parquet.write_table(rows.set_column(place, rows.schema.field(place), longer), out, compression="zstd")
    with pytest.raises(TraceError, match=r"out\.parquet:2: is too long for a row of a workload"):
        read(out, "natjam")


def varint(value: int, length: int) -> bytes:
    """A number of a Thrift struct, in so many bytes."""
    groups = [(2 * value >> 7 * place) & 127 for place in range(length)]
    return bytes([*(group | 128 for group in groups[:-1]), groups[-1]])


def test_lists_with_more_values_than_the_footer_says_are_refused(tmp_path: Path):
    path = written(tmp_path / "jobs.parquet", one_list(zeros(1_000_000)))
    assert parquet_file(path).metadata.num_rows == 1
    content = path.read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    told = content[footer:].replace(varint(1_000_000, 3), varint(1000, 3))
    path.write_bytes(content[:footer] + told)
    with pytest.raises(TraceError, match=r"the pages of 'submit\..*' hold 1,000,000 values, and the footer says 1,000"):
        read(path, "table")


@given(st.lists(st.sampled_from([bytes([byte]) for byte in range(256)] + [b"\x15\x00\x15\x02\x15\x02"])).map(b"".join))
@example(b"\x15\x00\x15\x02\x15\x02\x25\x02\x00")
@example(b"\x15\x00\x15\x02\x18\x01x\x2c\x18\x01x\x00\x00")
def test_any_bytes_of_a_page_header_are_read_or_refused(content: bytes):
    with contextlib.suppress(ValueError):
        assert values_in_pages(io.BytesIO(content), 0, len(content)) is not None


def test_a_pipe_in_the_place_of_a_table_is_refused(tmp_path: Path) -> None:
    run = simulate(tmp_path, "run")
    (run / "jobs.parquet").unlink()
    os.mkfifo(run / "jobs.parquet")
    with pytest.raises(ConfigError, match=r"jobs\.parquet: cannot be read: is not a file"):
        read_table(run, "jobs")

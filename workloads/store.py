"""Workload files: JSON lines (``.jsonl``, ``.jsonl.gz``) and Parquet (``.parquet``), written and read as streams.

Both have the same contents; ``workloads.record`` describes the columns.  In Parquet ``tasks`` is a list of structs, and
``other`` is JSON text because its keys depend on the trace.
"""

from __future__ import annotations

import contextlib
import gzip
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, BinaryIO, cast, get_type_hints

import orjson
import pyarrow
import pyarrow.parquet

from emulator.files.parquet_files import TooLargeError, parquet_file
from emulator.files.whole_files import written_whole
from workloads.codec import header_from_fields, header_to_fields, job_from_data, job_to_fields
from workloads.errors import BrokenRow, Problems, TraceError
from workloads.importers.fields import SeenIds
from workloads.importers.source import ByteSource, OnBytes, ignore
from workloads.record import Trace, WorkloadJob, WorkloadTask

SUFFIXES = (".jsonl", ".jsonl.gz", ".parquet")
MAX_LINE_BYTES = 128 * 2**20
"""Limit for one job, as JSON or as columns: 600 bytes for each task, if it has as many maps and reduces as it may."""
PARQUET_MAGIC = b"PAR1"
_METADATA_KEY = b"natjam_workload"
_GROUP_TASKS = 50_000
"""A row group is written once it holds this many tasks and jobs."""
_READ_JOBS = 256

_TEXT, _INT = pyarrow.string(), pyarrow.int64()


def _columns(record: type) -> list[pyarrow.Field]:
    """A column for each field of a record: whole numbers, or text; no nulls where the field has no default."""
    kinds = {name: _INT if kind in (int, int | None) else _TEXT for name, kind in get_type_hints(record).items()}
    return [pyarrow.field(one.name, kinds[one.name], one.default is not MISSING) for one in fields(record)]


_TASKS = pyarrow.field("tasks", pyarrow.list_(pyarrow.struct(_columns(WorkloadTask))))
_SCHEMA = pyarrow.schema([_TASKS if column.name == "tasks" else column for column in _columns(WorkloadJob)])


def write_workload(path: Path, trace: Trace) -> int:
    """Write a workload, atomically, in the format of the suffix.  Returns the number of jobs.

    Raises RunError if the file cannot be written, and the errors of reading ``trace``.
    """
    with written_whole(path) as unfinished:
        if path.suffix == ".parquet":
            return _write_parquet(unfinished, trace)
        return _write_lines(path, unfinished, trace)


def read_workload(path: Path, problems: Problems, on_bytes: OnBytes = ignore) -> Trace:
    """Open a workload file of either format, with any suffix.  Raises TraceError."""
    with ByteSource(path) as source:
        is_parquet = source.read(4) == PARQUET_MAGIC
    return _read_parquet(path, problems, on_bytes) if is_parquet else _read_lines(path, problems, on_bytes)


# ---- JSON lines ----


def _write_lines(path: Path, unfinished: Path, trace: Trace) -> int:
    count = 0
    packed = path.suffix == ".gz"
    with gzip.open(unfinished, "wb", compresslevel=6) if packed else unfinished.open("wb") as opened:
        stream = cast(BinaryIO, opened)
        stream.write(orjson.dumps(header_to_fields(trace.header), option=orjson.OPT_APPEND_NEWLINE))
        for job in trace.jobs:
            stream.write(orjson.dumps(job_to_fields(job), option=orjson.OPT_APPEND_NEWLINE))
            count += 1
    return count


def _read_lines(path: Path, problems: Problems, on_bytes: OnBytes) -> Trace:
    lines = _json_lines(path, problems, on_bytes)
    number, value = next(lines, (1, None))
    try:
        header = header_from_fields(value)
    except BrokenRow as broken:
        raise broken.at(path, number) from None
    return Trace(header, _jobs(path, lines, problems))


def _json_lines(path: Path, problems: Problems, on_bytes: OnBytes) -> Iterator[tuple[int, Any]]:
    with ByteSource(path, on_bytes) as source:
        for number, raw in source.lines(MAX_LINE_BYTES):
            if len(raw) > MAX_LINE_BYTES:
                raise TraceError(path, number, None, "is too long for a line of a workload")
            try:
                value = orjson.loads(raw)
            except orjson.JSONDecodeError as error:
                if number == 1:
                    raise TraceError(
                        path, 1, None, "is not a workload of natjam: neither JSON lines nor Parquet"
                    ) from None
                problems.add(path, number, None, f"is not JSON: {error.msg} at byte {error.colno} of the line")
                continue
            yield number, value


def _jobs(path: Path, values: Iterable[tuple[int, Any]], problems: Problems) -> Iterator[WorkloadJob]:
    seen = SeenIds()
    for number, value in values:
        with problems.reported(path, number):
            job = job_from_data(value)
            seen.add(job.job, "job", "name")
            yield job


# ---- Parquet ----


def _write_parquet(path: Path, trace: Trace) -> int:
    schema = _SCHEMA.with_metadata({_METADATA_KEY: orjson.dumps(header_to_fields(trace.header))})
    count = held = 0
    rows: list[dict[str, Any]] = []
    with pyarrow.parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for job in trace.jobs:
            rows.append(_parquet_row(job))
            count, held = count + 1, held + 1 + len(job.tasks or ())
            if held >= _GROUP_TASKS:
                writer.write_table(pyarrow.Table.from_pylist(rows, schema))
                rows, held = [], 0
        writer.write_table(pyarrow.Table.from_pylist(rows, schema))
    return count


def _parquet_row(job: WorkloadJob) -> dict[str, Any]:
    row = job_to_fields(job)
    for holder in (row, *row.get("tasks", ())):
        if "other" in holder:
            holder["other"] = orjson.dumps(holder["other"]).decode()
    return row


def _read_parquet(path: Path, problems: Problems, on_bytes: OnBytes) -> Trace:
    with _parquet_errors(path):
        file = parquet_file(path)
        metadata = file.schema_arrow.metadata or {}
    if _METADATA_KEY not in metadata:
        reason = "is Parquet, but no workload of natjam: give --format table (in an experiment, format: table)"
        raise TraceError(path, None, None, reason)
    try:
        header = header_from_fields(orjson.loads(metadata.get(_METADATA_KEY, b"null")))
    except orjson.JSONDecodeError:
        raise TraceError(path, None, None, "the header of the workload is not JSON") from None
    except BrokenRow as broken:
        raise broken.at(path) from None
    return Trace(header, _jobs(path, _parquet_rows(path, file, on_bytes), problems))


def parquet_rows(path: Path, on_bytes: OnBytes) -> Iterator[tuple[int, dict[str, Any]]]:
    """Number and fields by column, of any Parquet file; first its header, as row 0.  Raises TraceError."""
    with _parquet_errors(path):
        file = parquet_file(path)
        header = file.schema_arrow.names
    yield 0, dict.fromkeys(header)
    yield from _parquet_rows(path, file, on_bytes)


def is_workload(path: Path) -> bool:
    """Whether a Parquet file is a workload of natjam; False if it cannot be read."""
    try:
        with _parquet_errors(path):
            return _METADATA_KEY in (pyarrow.parquet.read_schema(path).metadata or {})
    except TraceError:
        return False


def _parquet_rows(path: Path, file: pyarrow.parquet.ParquetFile, on_bytes: OnBytes) -> Iterator[tuple[int, Any]]:
    number, row_bytes = 0, path.stat().st_size / max(1, file.metadata.num_rows)
    batches = file.iter_batches(_READ_JOBS)
    while True:
        with _parquet_errors(path):
            batch = next(batches, None)
        if batch is None:
            return
        on_bytes(int(row_bytes * batch.num_rows))
        for part in _parts(batch):
            if part.nbytes > MAX_LINE_BYTES:
                raise TraceError(path, number + 1, None, "is too long for a row of a workload")
            with _parquet_errors(path):
                rows = part.to_pylist()
            for row in rows:
                number += 1
                yield number, _plain(row)


def _parts(batch: pyarrow.RecordBatch) -> Iterator[pyarrow.RecordBatch]:
    """The rows of a batch, of which only as many as can be Python objects at once, or one."""
    if batch.nbytes <= MAX_LINE_BYTES or batch.num_rows == 1:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _parts(batch.slice(0, half))
    yield from _parts(batch.slice(half))


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its JSON text parsed; invalid JSON stays text, which is refused later because it is not an object."""
    for holder in (row, *(task for task in _listed(row.get("tasks")) if isinstance(task, dict))):
        told = holder.get("other")
        if isinstance(told, str):
            with contextlib.suppress(orjson.JSONDecodeError):
                holder["other"] = orjson.loads(told)
    return row


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


@contextlib.contextmanager
def _parquet_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except TooLargeError as error:
        raise TraceError(path, None, None, str(error)) from None
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:  # a time beyond Python's years
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise TraceError(path, None, None, f"is not complete Parquet data: {reason}") from None

"""Importer of tables with named columns, CSV or Parquet: one row is one job.  ``workloads.columns`` has the fields.

- A time is a number (of seconds, or of the unit that the field's name ends with), a date as ISO 8601 writes it
  (``2026-03-01T12:00:00+01:00``; UTC if it does not say), or a timestamp of Parquet.
- A length is a number, ``[DAYS-]HOURS:MINUTES:SECONDS`` as Slurm's ``sacct`` prints it, or a duration of Parquet.
- A job's tasks are all as long as the job ran.  All are reduces, so that they can be preempted.  They need not start
  together, unlike those of a rigid parallel job.
- Empty fields are unknown.  A job without a length, or with length 0, never ran: it is left out and counted.

CSV may be separated by commas, semicolons, tabs or ``|`` (the first line decides), with CR LF or LF, plain or gzip.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from workloads.columns import TIMES, Column, resolved
from workloads.errors import BrokenRow, Problems, TraceError
from workloads.importers.fields import MAX_BYTES, MAX_LENGTH_NS, MAX_NS, SeenIds, job_id, text
from workloads.importers.source import MAX_LINE_BYTES, ByteSource, OnBytes, ignore, utf8
from workloads.record import Header, WorkloadJob, WorkloadTask, measured, modelled
from workloads.schema import MAX_TASKS
from workloads.store import PARQUET_MAGIC, parquet_rows

_SEPARATORS = (",", ";", "\t", "|")
_NUMBER = re.compile(r"[+-]?[0-9]{1,30}(?:\.[0-9]{0,30})?(?:[eE][+-]?[0-9]{1,2})?")
_CLOCK = re.compile(r"(?:([0-9]{1,5})-)?(?:([0-9]{1,7}):)?([0-9]{1,7}):([0-9]{1,2})(?:\.([0-9]{1,9}))?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_REQUEST = 100_000
"""Most processors, or GPUs, of one task."""
_NEVER_RAN = "jobs that never ran, left out"

HEADER = Header(
    format="table",
    starts_measured=True,
    origin="first-submission",
    columns={
        "job": measured("its column, else the number of its row"),
        "submit_ns": measured("its column"),
        "queue": measured("its column"),
        "user": measured("its column"),
        "priority": measured("its column"),
        "deadline_ns": measured("its column"),
        "memory_bytes": measured("its column"),
        "cpu_thousandths": measured("its column"),
        "gpu_thousandths": measured("its column"),
        "start_ns": measured("its column"),
        "finish_ns": measured("its column"),
        "tasks": measured("its column, else one"),
        "tasks.kind": modelled("all are reduces, so that they can be preempted"),
        "tasks.length_ns": measured("the column of lengths, else from start to finish; equal for all tasks of a job"),
    },
)


def read_table(
    path: Path, problems: Problems, facts: dict[str, Any], on_bytes: OnBytes = ignore, *, columns: Mapping[str, str]
) -> Iterator[WorkloadJob]:
    """Yield the jobs of a table one by one, in file order.

    Args:
        path: the file.
        problems: handles broken rows.
        facts: gets what was counted.
        on_bytes: called with the progress.
        columns: column by field, as in ``workloads.columns.resolved``.

    Raises:
        TraceError: the file cannot be read, has no job, or its columns are not those that were named.
    """
    facts |= {"rows": 0, _NEVER_RAN: 0}
    with ByteSource(path) as source:
        is_parquet = source.read(4) == PARQUET_MAGIC
    rows = parquet_rows(path, on_bytes) if is_parquet else _csv_rows(path, problems, on_bytes)
    _, header = next(rows, (1, {}))
    try:
        reader = _Reader(resolved(columns, list(header)), facts)
    except ValueError as error:
        raise TraceError(path, None if is_parquet else 1, "columns", str(error)) from None
    for number, row in rows:
        facts["rows"] += 1
        with problems.reported(path, number):
            job = reader.job(facts["rows"], row)
            if job is None:
                facts[_NEVER_RAN] += 1
            else:
                yield job
    if not facts["rows"] and not problems.count:
        raise TraceError(path, None, None, "there is no job in the table: it has one in each row below its header")


def _csv_rows(path: Path, problems: Problems, on_bytes: OnBytes) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and fields by column, of the header first."""
    with ByteSource(path, on_bytes) as source:
        lines = _decoded(path, source)
        first = next(lines, "")
        separator = max(_SEPARATORS, key=first.count)
        try:
            header = [name.strip() for name in next(csv.reader([first], delimiter=separator, strict=True), [])]
        except csv.Error as error:
            raise TraceError(path, 1, None, f"is not CSV: {error}") from None
        if twice := {name for name in header if name and header.count(name) > 1}:
            raise TraceError(path, 1, None, f"two columns are called {min(twice)!r}; rename one")
        yield 1, dict.fromkeys(header)
        rows = csv.reader(lines, delimiter=separator, strict=True)
        while True:
            try:
                fields = next(rows, None)
                if fields is None:
                    return
                if len(fields) != len(header) and fields:
                    raise BrokenRow(None, f"{len(fields)} fields, not {len(header)} as in the first line")
            except BrokenRow as broken:
                problems.add(path, rows.line_num + 1, broken.column, broken.reason)
            except csv.Error as error:
                problems.add(path, rows.line_num + 1, None, f"is not CSV: {error}")
            else:
                if fields:
                    yield rows.line_num + 1, dict(zip(header, fields, strict=True))


def _decoded(path: Path, source: ByteSource) -> Iterator[str]:
    for number, raw in source.lines():
        try:
            if len(raw) > MAX_LINE_BYTES:
                raise BrokenRow(None, "is too long for a line of a table")
            text = utf8(raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw)
        except BrokenRow as broken:
            raise broken.at(path, number) from None
        yield text


class _Reader:
    def __init__(self, columns: Mapping[str, Column], facts: dict[str, Any]) -> None:
        self._columns = columns
        self._facts = facts
        self._seen = SeenIds()

    def job(self, number: int, row: Mapping[str, Any]) -> WorkloadJob | None:
        """The job of a row; None if it never ran.  Raises BrokenRow."""
        values = {field: _given(row.get(column.name)) for field, column in self._columns.items()}
        times = {field: self._time_ns(field, values.get(field)) for field in TIMES}
        submit_ns, start_ns, finish_ns = times["submit"], times["start"], times["finish"]
        if submit_ns is None:
            raise BrokenRow(self._columns["submit"].name, "is empty; every job needs a time of submission")
        for field, least_ns in (("start", submit_ns), ("finish", start_ns or submit_ns), ("deadline", submit_ns)):
            at_ns = times[field]
            if at_ns is not None and at_ns < least_ns:
                what = "started" if field == "finish" and start_ns else "submitted"
                raise BrokenRow(self._columns[field].name, f"{values[field]!s} is before the job was {what}")
        length_ns = times["length"]
        if length_ns is None and start_ns is not None and finish_ns is not None:
            length_ns = finish_ns - start_ns
        tasks = 1 if values.get("tasks") is None else self._whole("tasks", values["tasks"], 0, MAX_TASKS)
        name = self._name(number, values.get("job"))
        if not length_ns or not tasks:
            return None
        if length_ns > MAX_LENGTH_NS:
            raise BrokenRow(self._columns.get("length", self._columns["submit"]).name, "is longer than three years")
        priority, memory = values.get("priority"), values.get("memory")
        return WorkloadJob(
            name,
            submit_ns,
            queue=self._text("queue", values.get("queue")),
            user=self._text("user", values.get("user")),
            priority=None if priority is None else self._whole("priority", priority, -(10**6), 10**6),
            deadline_ns=times["deadline"],
            memory_bytes=None if memory is None else self._bytes(memory),
            start_ns=start_ns,
            finish_ns=finish_ns,
            cpu_thousandths=self._thousandths("cpu", values.get("cpu")),
            gpu_thousandths=self._thousandths("gpu", values.get("gpu")),
            tasks=(WorkloadTask("reduce", length_ns, start_ns=start_ns),) * tasks,
        )

    def _name(self, number: int, value: Any) -> str:
        column = self._columns["job"].name if "job" in self._columns else None
        name = f"row-{number}" if value is None or column is None else job_id(str(value), column)
        self._seen.add(name, column, "name")
        return name

    def _text(self, field: str, value: Any) -> str | None:
        return None if value is None else text(str(value), self._columns[field].name)

    def _time_ns(self, field: str, value: Any) -> int | None:
        if value is None:
            return None
        column = self._columns[field]
        found = _date_ns(value) if field != "length" else _clock_ns(value)
        if found is None:
            number = _number(value)
            if number is None:
                form = "[DAYS-]HOURS:MINUTES:SECONDS" if field == "length" else "a date as in 2026-03-01T12:00:00"
                raise BrokenRow(column.name, f"{_shown(value)} is neither a number nor {form}")
            found = round(number * column.unit)
        if found < 0:
            raise BrokenRow(column.name, f"{_shown(value)} is {'negative' if field == 'length' else 'before 1970'}")
        if found > MAX_NS:
            raise BrokenRow(column.name, f"{_shown(value)} is too large; does the field need a unit, as {field}_ms?")
        return found

    def _whole(self, field: str, value: Any, least: int, most: int) -> int:
        number = _number(value)
        if number is None or number != int(number) or not least <= number <= most:
            raise BrokenRow(self._columns[field].name, f"{_shown(value)} is not a whole number from {least} to {most}")
        return int(number)

    def _thousandths(self, field: str, value: Any) -> int | None:
        if value is None:
            return None
        number = _number(value)
        if number is None or not 0 <= number <= MAX_REQUEST or number * 1000 % 1:
            reason = f"{_shown(value)} is not a number from 0 to {MAX_REQUEST} with at most three decimals"
            raise BrokenRow(self._columns[field].name, reason)
        return int(number * 1000)

    def _bytes(self, value: Any) -> int | None:
        column, number = self._columns["memory"], _number(value)
        if number is None or not 0 <= number * column.unit <= MAX_BYTES:
            raise BrokenRow(column.name, f"{_shown(value)} is not a number from 0 to {MAX_BYTES // column.unit}")
        return int(number * column.unit) or None


def _given(value: Any) -> Any:
    """A field without spaces around it; None if it is empty."""
    if isinstance(value, str):
        return value.strip() or None
    return None if isinstance(value, float) and math.isnan(value) else value


def _number(value: Any) -> Decimal | None:
    """A finite number, exactly; None if the value is none."""
    if isinstance(value, str):
        return Decimal(value) if _NUMBER.fullmatch(value) else None
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    return Decimal(value) if math.isfinite(value) else None


def _date_ns(value: Any) -> int | None:
    if isinstance(value, str) and "-" in value[1:]:
        try:
            value = datetime.fromisoformat(f"{value[:-1]}+00:00" if value.endswith("Z") else value)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1) * 1000 + getattr(value, "nanosecond", 0)


def _clock_ns(value: Any) -> int | None:
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1) * 1000 + getattr(value, "nanoseconds", 0)
    found = _CLOCK.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups()[:4])
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 10**9 + int((found[5] or "").ljust(9, "0"))


def _shown(value: Any) -> str:
    shown = repr(value) if isinstance(value, str) else str(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."

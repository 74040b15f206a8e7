"""The event tables of the Google cluster trace of 2011 (clusterdata-2011-2): CSV files, read in blocks into arrays.

If all fields of a block fit their types, the Arrow library reads it at once.  Otherwise it is read line by line, so
that each broken row is reported with its line, column and reason.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.csv

from workloads.errors import BrokenRow, Problems
from workloads.importers.source import MAX_LINE_BYTES, ByteSource, OnBytes, utf8

BLOCK_BYTES = 8 << 20
AFTER_END_US = 2**63 - 1
"""The time of events after the end of the trace."""

Arrays = dict[str, Any]
"""Numpy arrays of equal length by column name."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column to read: text, an integer on [0, most], or a share on [0, 1], which is kept in billionths.  An empty
    number is -1, or an error if it is required."""

    name: str
    field: int
    """Its position in the row, from 0."""
    most: int | None
    """None: text."""
    required: bool = True
    is_share: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """One of the trace's tables: the number of fields in a row, and the columns to read."""

    folder: str
    fields: int
    columns: tuple[Column, ...]


MAX_JOB = 2**38
MAX_INDEX = 2**24 - 1
BILLIONTHS = 10**9
TASK_EVENTS = Table(
    "task_events",
    13,
    (
        Column("time", 0, AFTER_END_US),
        Column("job", 2, MAX_JOB),
        Column("index", 3, MAX_INDEX),
        Column("machine", 4, 2**62, required=False),
        Column("event", 5, 8),
        Column("priority", 8, 11),
    ),
)
TASK_EVENTS_WITH_REQUESTS = Table(
    TASK_EVENTS.folder,
    TASK_EVENTS.fields,
    (
        *TASK_EVENTS.columns,
        Column("cpu", 9, BILLIONTHS, required=False, is_share=True),
        Column("memory", 10, BILLIONTHS, required=False, is_share=True),
    ),
)
JOB_EVENTS = Table(
    "job_events",
    8,
    (
        Column("time", 0, AFTER_END_US),
        Column("job", 2, MAX_JOB),
        Column("event", 3, 8),
        Column("user", 4, None, required=False),
        Column("class", 5, 3, required=False),
    ),
)
MACHINE_EVENTS = Table(
    "machine_events",
    6,
    (Column("time", 0, AFTER_END_US), Column("machine", 1, 2**62), Column("event", 2, 2)),
)


def read_table(table: Table, paths: Sequence[Path], problems: Problems, on_bytes: OnBytes) -> Iterator[Arrays]:
    """The rows of a table's files, in order and sorted by time, as arrays of some thousand rows.

    Times are microseconds.  Rows after the end of the trace are left out.  Raises TraceError.  A row that breaks the
    format, or is earlier than a row before it, is a problem.
    """
    last_us = 0
    for path in paths:
        for first_line, block in _blocks(path, problems, on_bytes):
            arrays = _fast(table, block)
            if arrays is None or _disorder(arrays, last_us):
                arrays = _slow(table, path, first_line, block, problems, last_us)
            arrays = {name: column[arrays["time"] != AFTER_END_US] for name, column in arrays.items()}
            if len(arrays["time"]):
                last_us = int(arrays["time"][-1])
                yield arrays


def _blocks(path: Path, problems: Problems, on_bytes: OnBytes) -> Iterator[tuple[int, bytes]]:
    """Blocks of whole lines: the number of the first line, and the bytes."""
    line, rest = 1, b""
    with ByteSource(path, on_bytes) as source:
        while data := source.read(BLOCK_BYTES):
            data = rest + data
            end = data.rfind(b"\n") + 1
            block, rest = data[:end], data[end:]
            if block:
                yield line, block
                line += block.count(b"\n")
            if len(rest) > MAX_LINE_BYTES:
                problems.add(path, line, None, "is too long for a row of this table")
                rest = b""
    if rest:
        yield line, rest


def _fast(table: Table, block: bytes) -> Arrays | None:
    """The columns of a block; None if anything in it is wrong."""
    if b"\r" in block:
        return None
    names = [f"unused-{number}" for number in range(table.fields)]
    for column in table.columns:
        names[column.field] = column.name
    types = {column.name: _type(column) for column in table.columns}
    try:
        read = pyarrow.csv.read_csv(
            io.BytesIO(block),
            pyarrow.csv.ReadOptions(use_threads=False, column_names=names, block_size=max(1 << 20, len(block))),
            pyarrow.csv.ParseOptions(quote_char=False, double_quote=False),
            pyarrow.csv.ConvertOptions(
                column_types=types, include_columns=list(types), null_values=[""], strings_can_be_null=False
            ),
        )
    except (pyarrow.ArrowException, ValueError):
        return None
    arrays: Arrays = {}
    for column in table.columns:
        values = read.column(column.name)
        if column.most is None:
            arrays[column.name] = values.to_numpy(zero_copy_only=False)
            continue
        if values.null_count:
            if column.required:
                return None
            values = values.fill_null(-1)
        array = values.to_numpy()
        if column.is_share:
            if not np.isfinite(array).all() or (len(array) and float(array.max()) > 1):
                return None
            array = np.where(array == -1, -1, np.rint(array * BILLIONTHS)).astype(np.int64)
        if len(array) and (int(array.max()) > column.most or int(array.min()) < (0 if column.required else -1)):
            return None
        arrays[column.name] = array
    return arrays


def _type(column: Column) -> pyarrow.DataType:
    if column.most is None:
        return pyarrow.string()
    return pyarrow.float64() if column.is_share else pyarrow.int64()


def _disorder(arrays: Arrays, last_us: int) -> bool:
    times = arrays["time"]
    return bool(len(times)) and (int(times[0]) < last_us or bool((times[1:] < times[:-1]).any()))


def _slow(table: Table, path: Path, first_line: int, block: bytes, problems: Problems, last_us: int) -> Arrays:
    """The good rows of a block; broken ones are reported."""
    good: dict[str, list[Any]] = {column.name: [] for column in table.columns}
    for number, raw in enumerate(block.removesuffix(b"\n").split(b"\n"), first_line):
        if not raw:
            continue
        with problems.reported(path, number):
            row = _row(table, raw)
            if row["time"] < last_us:
                raise BrokenRow("time", f"{row['time']} is before the row above, {last_us}; sort the rows by time")
            last_us = row["time"]
            for name, value in row.items():
                good[name].append(value)
    kinds = {column.name: np.int64 if column.most is not None else object for column in table.columns}
    return {name: np.array(values, dtype=kinds[name]) for name, values in good.items()}


def _row(table: Table, raw: bytes) -> dict[str, Any]:
    fields = utf8(raw.removesuffix(b"\r")).split(",")
    if len(fields) != table.fields:
        raise BrokenRow(None, f"{len(fields)} fields separated by commas, not {table.fields}")
    return {column.name: _field(column, fields[column.field].strip(" \t")) for column in table.columns}


def _field(column: Column, field: str) -> Any:
    if column.most is None:
        return field
    if not field and not column.required:
        return -1
    if column.is_share:
        return _share(column, field)
    digits = field.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 20):
        raise BrokenRow(column.name, "is missing" if not field else f"{field[:40]!r} is not a whole number")
    value = int(field)
    if not 0 <= value <= column.most:
        raise BrokenRow(column.name, f"{value} is negative" if value < 0 else f"{value} is above {column.most}")
    return value


def _share(column: Column, field: str) -> int:
    try:
        share = float(field)
    except ValueError:
        share = float("nan")
    if not 0 <= share <= 1:
        raise BrokenRow(column.name, f"{field[:40]!r} is no share of a machine, from 0 to 1")
    return round(share * BILLIONTHS)


# ---- the state of each task in a stream of task events: a sorted table of the tasks of jobs that are still open ----
#
# The table consists of numpy arrays; a task's position is found by bisection of its key.  So a block of events takes a
# few passes over the block and over the table, and the table is no longer than the number of tasks in open jobs.


SUBMIT, SCHEDULE, EVICT, FAIL, FINISH, KILL, LOST = range(7)
_INDEX_BITS = 24
assert 1 << _INDEX_BITS > MAX_INDEX
NEVER = 2**62
NOTHING = -1
"""Value of ``last_event`` before any event."""

_COLUMNS: dict[str, int] = {
    "submit_us": NEVER,
    "last_event": NOTHING,
    "last_us": 0,
    "priority": 0,
    "attempts": 0,
    "evictions": 0,
    "lost_us": 0,
    "length_us": -1,
    "observed_us": 0,
    "start_us": -1,
    "machine": -1,
    "cpu": -1,
    "memory": -1,
}
"""By column of the table: the value for a new task."""


class TaskTable:
    """The tasks of open jobs."""

    def __init__(self) -> None:
        self.keys = np.empty(0, np.int64)
        """Job and index of each task in one number; sorted."""
        self.columns: Arrays = {name: np.empty(0, np.int64) for name in _COLUMNS}

    def feed(self, events: Arrays) -> dict[str, Any]:
        """Add the next events.  Returns the runs that end in them: ``length_us``, ``how`` (the event), ``priority``."""
        is_state = events["event"] <= LOST
        keys = (events["job"][is_state] << _INDEX_BITS) | events["index"][is_state]
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        time, event, machine, priority = (
            events[name][is_state][order] for name in ("time", "event", "machine", "priority")
        )
        if not len(keys):
            return {"length_us": keys, "how": keys, "priority": keys}
        is_first = np.append(True, keys[1:] != keys[:-1])
        is_last = np.append(is_first[1:], True)
        slots = self._slots(keys[is_first])
        slot = slots[np.cumsum(is_first) - 1]
        columns = self.columns
        before, before_us = np.empty_like(event), np.empty_like(time)
        before[1:], before_us[1:] = event[:-1], time[:-1]
        before[is_first], before_us[is_first] = columns["last_event"][slots], columns["last_us"][slots]
        ran = (event >= EVICT) & (before == SCHEDULE)
        length_us = np.where(ran, time - before_us, 0)
        self._add_up(slot, time, event, ran, length_us, before_us, machine)
        columns["priority"][slots] = priority[is_last]
        for name in ("cpu", "memory"):
            if name in events:
                columns[name][slots] = events[name][is_state][order][is_last]
        columns["last_event"][slots] = event[is_last]
        columns["last_us"][slots] = time[is_last]
        return {"length_us": length_us[ran], "how": event[ran], "priority": priority[ran]}

    def _add_up(self, slot: Any, time: Any, event: Any, ran: Any, length_us: Any, before_us: Any, machine: Any) -> None:
        columns = self.columns
        submitted = event == SUBMIT
        np.minimum.at(columns["submit_us"], slot[submitted], time[submitted])
        np.add.at(columns["attempts"], slot[event == SCHEDULE], 1)
        np.add.at(columns["evictions"], slot[event == EVICT], 1)
        lost = ran & (event != FINISH)
        np.add.at(columns["lost_us"], slot[lost], length_us[lost])
        np.maximum.at(columns["observed_us"], slot[ran], length_us[ran])
        done = ran & (event == FINISH)  # if there are several, the last one counts
        for name, values in (("length_us", length_us), ("start_us", before_us), ("machine", machine)):
            columns[name][slot[done]] = values[done]

    def _slots(self, keys: Any) -> Any:
        """Positions of these tasks (sorted, without duplicates); new tasks are inserted."""
        places = np.searchsorted(self.keys, keys)
        known = np.zeros(len(keys), bool)
        inside = places < len(self.keys)
        known[inside] = self.keys[places[inside]] == keys[inside]
        new = ~known
        if new.any():
            self.columns = {name: np.insert(self.columns[name], places[new], first) for name, first in _COLUMNS.items()}
            self.keys = np.insert(self.keys, places[new], keys[new])
            places = np.searchsorted(self.keys, keys)
        return places

    def of_jobs(self, jobs: Any) -> tuple[Any, Any]:
        """For each of these jobs (an array of numbers): the first position of its tasks, and one past the last."""
        return np.searchsorted(self.keys, jobs << _INDEX_BITS), np.searchsorted(self.keys, (jobs + 1) << _INDEX_BITS)

    def remove(self, spans: list[tuple[int, int]]) -> None:
        """Remove the tasks at these positions."""
        if not spans:
            return
        keep = np.ones(len(self.keys), bool)
        for first, past in spans:
            keep[first:past] = False
        self.keys = self.keys[keep]
        self.columns = {name: column[keep] for name, column in self.columns.items()}

"""The tables of a history as Arrow tables (``*.parquet`` of a run directory), with times in emulated seconds.

A run imports this module when its tables are written: pyarrow and numpy take as long to import as a short simulation.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy
import pyarrow
import pyarrow.parquet
from pyarrow.lib import StringBuilder

from emulator.files.whole_files import unfinished_path, writing
from emulator.records.history import AttemptRow, Candidate, History, JobRow, Operation, TaskRow
from emulator.records.history.attempt_names import AttemptNames
from emulator.records.history.columns import Column, Unit, columns_of

ROW_TYPES: dict[str, type] = {
    "jobs": JobRow,
    "tasks": TaskRow,
    "attempts": AttemptRow,
    "operations": Operation,
    "decisions": Candidate,
}
"""The class of the rows of each table of a run."""
_ROWS_A_PART = 10_000
"""This many rows of a table are turned into columns and written at a time."""
_TYPES = {
    Unit.TEXT: pyarrow.string(),
    Unit.COUNT: pyarrow.int64(),
    Unit.BYTES: pyarrow.int64(),
    Unit.SECONDS: pyarrow.float64(),
    Unit.NUMBER: pyarrow.float64(),
}


def type_of(column: Column) -> pyarrow.DataType:
    """The type of a column's values in a Parquet file."""
    if column.unit is Unit.ROWS:
        return pyarrow.list_(pyarrow.struct([(one.name, type_of(one)) for one in column.columns]))
    return _TYPES[column.unit]


def table_of(rows_type: type, rows: Sequence[Any]) -> pyarrow.Table:
    """A table of rows of this class."""
    return pyarrow.table({column.name: _values(column, rows) for column in columns_of(rows_type)})


def tables_of(history: History) -> dict[str, pyarrow.Table]:
    """All tables of a run, by name."""
    attempts = AttemptNames(history.attempts)
    return {name: table_of(rows_type, rows_of(history, name, attempts)) for name, rows_type in ROW_TYPES.items()}


def rows_of(history: History, name: str, attempts: AttemptNames) -> list[Any]:
    """The rows of the table ``name``.  That of decisions has one for each candidate of a choice of victims;
    ``attempts``: of the whole run."""
    if ROW_TYPES[name] is not Candidate:
        return getattr(history, name)
    return [candidate for decision in history.decisions for candidate in decision.candidates(attempts)]


def _values(column: Column, rows: Sequence[Any]) -> pyarrow.Array:
    found = list(map(attrgetter(column.source), rows))
    if column.unit is Unit.ROWS:
        items = list(chain.from_iterable(found))
        ends = _array(list(accumulate(map(len, found), initial=0)), pyarrow.int32())
        fields = {field.name: _values(field, items) for field in column.columns}
        return pyarrow.ListArray.from_arrays(ends, pyarrow.StructArray.from_arrays(fields.values(), list(fields)))
    return _array(found, _TYPES[column.unit], divided_by=1e9 if column.unit is Unit.SECONDS else 1)


def _array(values: Sequence[Any], kind: pyarrow.DataType, divided_by: float = 1) -> pyarrow.Array:
    """What ``pyarrow.array`` makes; that imports pandas, which takes longer than all tables of a usual run."""
    if kind == pyarrow.string():
        builder = StringBuilder()
        builder.append_values(values)
        return builder.finish()
    known = None
    if None in values:
        known = pyarrow.py_buffer(numpy.packbits([value is not None for value in values], bitorder="little"))
        values = [value or 0 for value in values]
    numbers = numpy.array(values, kind.to_pandas_dtype())
    if divided_by != 1:
        numbers /= divided_by
    return pyarrow.Array.from_buffers(kind, len(values), [known, pyarrow.py_buffer(numbers)])


def write_tables(directory: Path, parts: Iterable[History], keep: bool) -> dict[str, pyarrow.Table]:
    """Write ``jobs``, ``tasks``, ``attempts``, ``operations`` and ``decisions.parquet`` of a run directory.

    Each part of the run's history is written as it comes, and then freed.  With ``keep``, the tables are returned too;
    a large run has no memory for that.  Raises RunError.
    """
    attempts = AttemptNames()
    with contextlib.ExitStack() as stack:
        files = {
            name: stack.enter_context(_TableFile(directory / f"{name}.parquet", rows_type, keep))
            for name, rows_type in ROW_TYPES.items()
        }
        for part in parts:
            attempts.add(part.attempts)
            for name, file in files.items():
                file.add(rows_of(part, name, attempts))
    return {name: pyarrow.concat_tables(file.kept) for name, file in files.items()} if keep else {}


class _TableFile:
    """A Parquet file, written some thousand rows at a time, complete or not at all; a context manager."""

    def __init__(self, path: Path, rows_type: type, keep: bool) -> None:
        self._path = path
        self._rows_type = rows_type
        self._keep = keep
        self._rows: list[Any] = []
        self.kept = [table_of(rows_type, ())]
        """The parts written; if there are none, an empty part with the schema."""

    def add(self, rows: Sequence[Any]) -> None:
        """Add the next rows.  Raises RunError."""
        self._rows += rows
        if len(self._rows) >= _ROWS_A_PART:
            self._write()

    def _write(self) -> None:
        table = table_of(self._rows_type, self._rows)
        self._rows.clear()
        with writing(self._path):
            self._writer.write_table(table)
        if self._keep:
            self.kept.append(table)

    def __enter__(self) -> _TableFile:
        with writing(self._path):
            self._writer = pyarrow.parquet.ParquetWriter(unfinished_path(self._path), self.kept[0].schema)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        unfinished = unfinished_path(self._path)
        try:
            with writing(self._path):
                if kind is None:
                    self._write()
                self._writer.close()
                if kind is None:
                    unfinished.replace(self._path)
        finally:
            with contextlib.suppress(OSError):
                unfinished.unlink()

"""The tables of a history as Arrow tables (``*.parquet`` of a run directory), with times in emulated seconds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any

import numpy
import pyarrow
from pyarrow.lib import StringBuilder

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

"""The class of a table's rows says all about its columns; whatever writes, checks or lists them follows it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

import pyarrow

from emulator.records.history.columns import Mark, Unit, columns_of, computed
from emulator.records.history.rows import JobRow
from emulator.records.parquet_tables import ROW_TYPES, table_of, type_of
from emulator.records.summary import JOB_COLUMNS
from emulator.vocabulary import Frozen


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Span(Frozen):
    began_ns: int
    ended_ns: int | None


class Head(Frozen):
    number: int
    by: Literal["hand", "rule"]


class Row(Frozen):
    head: Head
    name: Annotated[str, Mark.DISTINCT]
    colour: Colour | None
    start_ns: int
    written_bytes: int
    spans: tuple[Span, ...]
    share: float | None = None
    hidden: Annotated[int, Mark.HIDDEN] = 0

    @computed(after="start_ns")
    def early_ns(self) -> Annotated[int | None, Mark.SIGNED]:
        return None if self.hidden else 500_000_000 - self.start_ns


def test_name_unit_and_order_of_columns() -> None:
    found = {column.name: column for column in columns_of(Row)}
    assert [(column.name, column.unit) for column in found.values()] == [
        ("number", Unit.COUNT),
        ("by", Unit.TEXT),
        ("name", Unit.TEXT),
        ("colour", Unit.TEXT),
        ("start_s", Unit.SECONDS),
        ("early_s", Unit.SECONDS),
        ("written_bytes", Unit.BYTES),
        ("spans", Unit.ROWS),
        ("share", Unit.NUMBER),
    ]
    assert {name for name, column in found.items() if column.nullable} == {"colour", "early_s", "share"}
    assert (found["by"].words, found["colour"].words) == ({"hand", "rule"}, {"red", "blue"})
    assert {name: set(column.marks) for name, column in found.items() if column.marks} == {
        "name": {Mark.DISTINCT},
        "early_s": {Mark.SIGNED},
    }
    assert [(inner.name, inner.nullable) for inner in found["spans"].columns] == [("began_s", False), ("ended_s", True)]


def test_rows_become_columns() -> None:
    rows = [
        Row(Head(1, "hand"), "a", Colour.RED, 2_000_000_000, 7, (Span(1_000_000_000, None), Span(3_000_000_000, 4))),
        Row(Head(2, "rule"), "b", None, 0, 8, (), 0.5, hidden=1),
    ]
    table = table_of(Row, rows)
    assert table.to_pylist() == [
        {
            "number": 1,
            "by": "hand",
            "name": "a",
            "colour": "red",
            "start_s": 2.0,
            "early_s": -1.5,
            "written_bytes": 7,
            "share": None,
            "spans": [{"began_s": 1.0, "ended_s": None}, {"began_s": 3.0, "ended_s": 4e-9}],
        },
        {
            "number": 2,
            "by": "rule",
            "name": "b",
            "colour": None,
            "start_s": 0.0,
            "early_s": None,
            "written_bytes": 8,
            "share": 0.5,
            "spans": [],
        },
    ]
    assert table.schema == pyarrow.schema([(column.name, type_of(column)) for column in columns_of(Row)])


def test_tables_have_columns_whatever_their_rows() -> None:
    for rows_type in ROW_TYPES.values():
        assert table_of(rows_type, ()).column_names == [column.name for column in columns_of(rows_type)]


def test_a_summary_leaves_out_what_only_tables_have() -> None:
    kept = [column.name for column in JOB_COLUMNS]
    assert [column.name for column in columns_of(JobRow) if column.name not in kept] == ["useful_s", "overhead_s"]

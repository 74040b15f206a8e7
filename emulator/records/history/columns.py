"""What the columns of a table are, read from the class of its rows: one for each field and each ``computed`` value.

The row classes are the only place that knows the columns.  Parquet files and their checks, the jobs in
``summary.json``, the campaign's table and ``docs/columns.md`` follow them.

- A name ends with its unit.  A field ``start_ns`` makes a column ``start_s``: files have emulated seconds.
- ``| None``: there may be no value; the docstring says when.
- An enum or a ``Literal`` has all words that there are; a tuple of rows is a list of structs; a row stands for its
  columns.
- What else there is to say is a ``Mark`` in ``Annotated``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum, StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

_Value = TypeVar("_Value")


class Mark(Enum):
    """What the name and the type of a field do not say."""

    DISTINCT = "no two rows have the same value"
    SIGNED = "may be negative"
    ONLY_IN_TABLE = "not among the jobs in summary.json, nor in the table of a campaign"
    HIDDEN = "no column"


class Unit(Enum):
    """What the values of a column are."""

    TEXT = "text"
    COUNT = "count"
    BYTES = "bytes"
    SECONDS = "emulated seconds"
    NUMBER = "number"
    ROWS = "list"


class Column(NamedTuple):
    """One column of a table."""

    name: str
    source: str
    """Where a row has the value: an attribute, or several joined by dots."""
    unit: Unit
    nullable: bool
    words: frozenset[str] = frozenset()
    """All values that there are; empty: any."""
    marks: frozenset[Mark] = frozenset()
    columns: tuple[Column, ...] = ()
    """If it is a list: of its structs."""


class Computed(Generic[_Value]):
    """A value of a row that follows from its fields."""

    def __init__(self, function: Callable[[Any], _Value], after: str) -> None:
        self.function = function
        self.after = after

    def __get__(self, row: Any, rows: type) -> _Value:
        return self if row is None else self.function(row)  # type: ignore[return-value]


def computed(after: str) -> Callable[[Callable[[Any], _Value]], Computed[_Value]]:
    """A property with a column, which comes after that of the field ``after``."""
    return lambda function: Computed(function, after)


@cache
def columns_of(rows: type) -> tuple[Column, ...]:
    """The columns of a table of these rows, in order."""
    columns: list[Column] = []
    for name, hint in get_type_hints(rows, include_extras=True).items():
        columns += _columns(name, hint)
    for name, value in vars(rows).items():
        if isinstance(value, Computed):
            place = [column.source for column in columns].index(value.after) + 1
            columns[place:place] = _columns(name, get_type_hints(value.function, include_extras=True)["return"])
    return tuple(columns)


def _columns(field: str, hint: Any) -> Iterator[Column]:
    marks: frozenset[Mark] = frozenset()
    if get_origin(hint) is Annotated:
        hint, *given = get_args(hint)
        marks = frozenset(given)
    if Mark.HIDDEN in marks:
        return
    kind, nullable = hint, False
    if get_origin(hint) is UnionType:
        (kind,) = set(get_args(hint)) - {NoneType}
        nullable = True
    if get_origin(kind) is tuple:
        yield Column(field, field, Unit.ROWS, nullable, marks=marks, columns=columns_of(get_args(kind)[0]))
    elif get_origin(kind) is Literal:
        yield Column(field, field, Unit.TEXT, nullable, frozenset(get_args(kind)), marks)
    elif issubclass(kind, str):
        words = frozenset(map(str, kind)) if issubclass(kind, StrEnum) else frozenset[str]()
        yield Column(field, field, Unit.TEXT, nullable, words, marks)
    elif issubclass(kind, int | float):
        name, unit = _named(field, kind)
        yield Column(name, field, unit, nullable, marks=marks)
    else:
        yield from (column._replace(source=f"{field}.{column.source}") for column in columns_of(kind))


def _named(field: str, kind: type) -> tuple[str, Unit]:
    if field.endswith("_ns"):
        return f"{field.removesuffix('_ns')}_s", Unit.SECONDS
    if issubclass(kind, float):
        return field, Unit.NUMBER
    return field, Unit.BYTES if field.endswith("_bytes") else Unit.COUNT

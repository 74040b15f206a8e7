"""Which column of a table holds which field of its jobs: ``submit=Submit``, ``length_ms=elapsed`` ...

A table is a CSV file or a Parquet file with one job in each row, from whatever has written it.  A column that has the
name of a field needs no naming.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from emulator.vocabulary import Frozen

FIELDS: dict[str, str] = {
    "submit": "when it was submitted",
    "length": "how long each of its tasks took; or give start and finish",
    "start": "when it started",
    "finish": "when it ended",
    "deadline": "when it must end",
    "job": "its name; row-1, row-2, ... if there is none",
    "tasks": "how many tasks it has; 1 if there is none",
    "queue": "its queue or partition",
    "user": "who submitted it",
    "priority": "a whole number; larger is more urgent",
    "memory": "memory of one task",
    "cpu": "processors that one task asks for",
    "gpu": "GPUs that one task asks for",
}
TIMES = ("submit", "start", "finish", "deadline", "length")
_TIME_UNITS = {"": 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_MEMORY_UNITS = {"gb": 2**30, "mb": 2**20, "kb": 2**10, "bytes": 1}


class Column(Frozen):
    """Where a field is found."""

    name: str
    """The column's, in the table."""
    unit: int
    """What a plain number there counts: nanoseconds of a time, bytes of memory, 1 for all other fields."""


def known_names() -> list[str]:
    """All names that a field may be given by: with its unit, if it has several."""
    names: list[str] = []
    for field in FIELDS:
        units = _TIME_UNITS if field in TIMES else _MEMORY_UNITS if field == "memory" else ("",)
        names += [f"{field}_{unit}" if unit else field for unit in units]
    return names


def resolved(given: Mapping[str, str], header: Sequence[str]) -> dict[str, Column]:
    """The column of each field of a table with this header.

    Args:
        given: column by field; a field may end with its unit, as ``submit_ms`` or ``memory_mb``.
        header: the table's columns.  Those named like a field are taken, unless ``given`` names another one.

    Raises:
        ValueError: a field is unknown, given twice or missing, or a column does not exist; says what to do.
    """
    found: dict[str, Column] = {}
    for name, column in given.items():
        field, unit = field_and_unit(name)
        if column not in header:
            raise ValueError(f"{name}={column}: {_no_column(column, header)}")
        if field in found:
            raise ValueError(f"{name}={column}: {field} is given twice; keep one")
        found[field] = Column(column, unit)
    for column in header:
        if column in known_names():
            field, unit = field_and_unit(column)
            found.setdefault(field, Column(column, unit))
    for needed, others in (("submit", ()), ("length", ("start", "finish"))):
        if needed not in found and not (others and all(other in found for other in others)):
            name_it = f"--columns {needed}=COLUMN, or columns: {{{needed}: COLUMN}} in an experiment"
            raise ValueError(f"none is known for {needed} ({FIELDS[needed]}); {name_it}; they are{_of(header)}")
    return found


def field_and_unit(name: str) -> tuple[str, int]:
    """The field that a name stands for, and its unit.  Raises ValueError."""
    if name not in known_names():
        near = difflib.get_close_matches(name, known_names(), n=1)
        hint = f"; did you mean '{near[0]}'?" if near else f"; the fields are {', '.join(FIELDS)}"
        raise ValueError(f"'{name[:40]}' is no field of a job{hint}")
    field, _, unit = name.partition("_")
    if field == "memory":
        return field, _MEMORY_UNITS[unit]
    return field, _TIME_UNITS[unit] if field in TIMES else 1


def _no_column(column: str, header: Sequence[str]) -> str:
    near = difflib.get_close_matches(column, header, n=1)
    return f"there is no such column{f'; did you mean {near[0]!r}?' if near else '; they are' + _of(header)}"


def _of(header: Sequence[str]) -> str:
    shown = ", ".join(name[:40] for name in header[:30])
    return f" {shown}{' ...' if len(header) > 30 else ''}"

"""Writes docs/columns.md, what the columns of a run's tables are: python docs/columns.py

Names, units and texts are those of the row classes (``emulator/records/history``).  A test compares the page with what
this file makes.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import get_args, get_type_hints

from emulator.core.completions import RealCost
from emulator.records.history.columns import Column, Mark, Unit, columns_of
from emulator.records.parquet_tables import ROW_TYPES
from emulator.vocabulary import Frozen

PAGE = Path(__file__).with_name("columns.md")
_HEAD = """\
# The columns of a run's tables

Each table is a file of the run directory. Times are emulated seconds from the start of the run, unless the name says
`real`; bytes are emulated too. The jobs in `summary.json` and in a campaign's `campaign.parquet` have the columns of
`jobs.parquet` that are not marked with an asterisk. This page is made from the source by `python docs/columns.py`.
"""
_VALUES = {Unit.TEXT: "text", Unit.COUNT: "whole number", Unit.BYTES: "bytes", Unit.SECONDS: "seconds"}


def page() -> str:
    """The whole page, as Markdown."""
    return _HEAD + "\n".join(line for name, rows in ROW_TYPES.items() for line in _table(name, rows)) + "\n"


def _table(name: str, rows: type) -> Iterator[str]:
    yield f"\n## {name}.parquet\n\n{_text(rows.__doc__)}\n"
    yield "| column | values | what it is |"
    yield "|---|---|---|"
    texts = dict(_texts(rows))
    for column in columns_of(rows):
        asterisk = r"\*" if name == "jobs" and Mark.ONLY_IN_TABLE in column.marks else ""
        yield f"| `{column.name}`{asterisk} | {_values(column)} | {texts[column.source]} |"
        for inner in column.columns:
            yield f"| `{column.name}.{inner.name}` | {_values(inner)} | {texts[f'{column.source}.{inner.source}']} |"


def _values(column: Column) -> str:
    what = _VALUES.get(column.unit, column.unit.value)
    if column.words:
        what = ", ".join(f"`{word}`" for word in sorted(column.words))
    return f"{what}; may be null" if column.nullable else what


def _texts(rows: type) -> Iterator[tuple[str, str]]:
    """What the source says of each field, by the path to it."""
    hints = get_type_hints(rows)
    body = ast.parse(inspect.getsource(rows)).body[0].body  # type: ignore[attr-defined]
    for item, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(item, ast.FunctionDef):
            yield item.name, _text(ast.get_docstring(item))
        elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            field = item.target.id
            yield field, _text(after.value.value)  # type: ignore[union-attr]
            for kind in (hints[field], *get_args(hints[field])):
                if isinstance(kind, type) and issubclass(kind, Frozen) and kind is not RealCost:
                    yield from ((f"{field}.{path}", text) for path, text in _texts(kind))


def _text(docstring: str | None) -> str:
    return " ".join((docstring or "").split("\n\n")[0].split()).replace("``", "`").replace("None:", "Null:")


if __name__ == "__main__":
    PAGE.write_text(page())

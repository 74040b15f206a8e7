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
from emulator.fluid.session import ShareRow
from emulator.records.history.columns import Column, Mark, Unit, columns_of
from emulator.records.parquet_tables import ROW_TYPES
from emulator.vocabulary import Frozen

PAGE = Path(__file__).with_name("columns.md")
_HEAD = """\
# The columns of a run's tables

Each table is a file of the run directory. Times are emulated seconds from the start of the run, unless the name says
`real`; bytes are emulated too. The jobs in `summary.json` and in a campaign's `campaign.parquet` have the columns of
`jobs.parquet` that are not marked with an asterisk. Frames of `natjam.load`, and `campaign.parquet`, call a job's name
`job` in every table, also where the file has `name`. This page is made from the source by `python docs/columns.py`.

The directories of a campaign have names such as `mechanism=suspend`. DuckDB takes these for columns, and they hide the
column `mechanism` of `decisions.parquet`: say `read_parquet(FILE, hive_partitioning = false)`.
"""
_TAIL = """
## campaign.parquet

A file of the campaign's directory: one job of one run. It also has the jobs' columns above, with `job` in place of
`name`, and a column for each key of the campaign's `grid`, such as `scheduler.mechanism`. A run without results has one
row, in which all that the run would have measured is null.

| column | values | what it is |
|---|---|---|
| `run` | text | Its directory below `runs`: the variant, and `seed-` with the seed. |
| `variant` | text | Name of the variant. |
| `seed` | whole number | Seed of the run. |
| `engine` | `fluid`, `live`, `sim` | What it ran on. |
| `time_scale` | emulated seconds per real second | How fast it ran, if live. |
| `makespan_s` | seconds; may be null | From the first submission to the last end. |
| `useful_s` | seconds; may be null | Sum over the attempts of all jobs. |
| `lost_s` | seconds; may be null | Sum over the attempts of all jobs. |
| `overhead_s` | seconds; may be null | How long containers were held by restores and dumps of process images. |
| `energy_j` | joules; may be null | What the machines used, by `cluster.power`. |
| `wasted_fraction` | from 0 to 1; may be null | Share of all work that was lost or an overhead. |
| `utilization` | from 0 to 1; may be null | Share of the cluster on which processes ran. |
| `disturbed` | true or false; may be null | Whether the machine did not keep up. |
| `lag_p99_emulated_s` | seconds; may be null | How late timers were, 99th percentile. |
| `failure` | text; may be null | Why the run counts as failed. Null: it does not. |
"""
_VALUES = {Unit.TEXT: "text", Unit.COUNT: "whole number", Unit.BYTES: "bytes", Unit.SECONDS: "seconds"}


def page() -> str:
    """The whole page, as Markdown."""
    tables = {**ROW_TYPES, "shares": ShareRow}
    return _HEAD + "\n".join(line for name, rows in tables.items() for line in _table(name, rows)) + "\n" + _TAIL


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

"""The tables of ``docs/traces.md``, made from the code: ``python docs/trace_tables.py`` prints them.

They are the columns of natjam's own workload files, and the fields that columns of CSV and Parquet can be named for.
"""

from __future__ import annotations

from dataclasses import fields
from typing import get_args, get_type_hints

from workloads.columns import FIELDS, TIMES
from workloads.record import JOB_COLUMNS, TASK_COLUMNS, WorkloadJob, WorkloadTask


def native_table() -> str:
    """Each column of natjam's own files: its type, whether it may be missing, and what it is."""
    lines = ["| column | type | what it is |", "|---|---|---|"]
    for record, told, prefix in ((WorkloadJob, JOB_COLUMNS, ""), (WorkloadTask, TASK_COLUMNS, "tasks.")):
        hints, needed = get_type_hints(record), {one.name for one in fields(record)[:2]}
        for name, column in told.items():
            kind = "list" if name == "tasks" else "object" if name == "other" else _kind(hints[name])
            lines.append(f"| `{prefix}{name}` | {kind}{', needed' if name in needed else ''} | {column.meaning} |")
    return "\n".join(lines) + "\n"


def fields_table() -> str:
    """Each field that ``--columns`` and ``workload.trace.columns`` know."""
    lines = ["| field | what it is | a plain number is |", "|---|---|---|"]
    for name, text in FIELDS.items():
        unit = "seconds; or `_ms`, `_us`, `_ns`" if name in TIMES else ""
        unit = "as the name says: `_gb` (GiB), `_mb`, `_kb`, `_bytes`" if name == "memory" else unit
        lines.append(f"| `{name}` | {text} | {unit} |")
    return "\n".join(lines) + "\n"


def _kind(hint: object) -> str:
    return "whole number" if hint is int or int in get_args(hint) else "text"


if __name__ == "__main__":
    print(fields_table())
    print(native_table())

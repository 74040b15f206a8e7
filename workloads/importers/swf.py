"""Importer of the Standard Workload Format, version 2.2 (Parallel Workloads Archive): one line is one job.

A line has 18 numbers separated by white space, with -1 for unknown ones; lines that begin with ``;`` are comments.  A
job ran for ``run time`` seconds on several processors at once.  Here it becomes tasks of that length, one for each
allocated processor (or, if unknown, for each requested one).  All tasks are reduces, so that they can be preempted.
As in a rigid parallel job they start together if the experiment has ``gangs: true``, which ``natjam advise`` writes;
else one by one (``Header.caution`` says so to users).

Jobs that never ran (cancelled while waiting: run time unknown or 0, or no processors) have no tasks; they are left out
and counted.  So are lines of partial executions (status 2 to 4), because the whole job has another line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workloads.errors import BrokenRow, Problems, TraceError
from workloads.importers.fields import MAX_BYTES, MAX_LENGTH_NS, MAX_NS, SeenIds
from workloads.importers.source import OnBytes, ignore, text_lines
from workloads.record import Header, Outcome, WorkloadJob, WorkloadTask, measured, modelled
from workloads.schema import MAX_TASKS

COLUMNS = (
    *("job number", "submit time", "wait time", "run time", "allocated processors", "average CPU time", "used memory"),
    *("requested processors", "requested time", "requested memory", "status", "user", "group", "executable", "queue"),
    *("partition", "preceding job", "think time"),
)
_WHOLE_COLUMNS = {"job number", "allocated processors", "requested processors", "status", "user", "queue"}
_NUMBER = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?([eE][+-]?[0-9]{1,2})?")
_OUTCOMES: dict[int, Outcome] = {0: "failed", 1: "succeeded", 5: "killed"}
_PARTIAL = (2, 3, 4)
_KNOWN_STATUS = (-1, *_OUTCOMES, *_PARTIAL)

HEADER = Header(
    format="swf",
    starts_measured=True,
    origin="zero",
    columns={
        "job": measured("field 1"),
        "submit_ns": measured("field 2"),
        "queue": measured("field 15, as queue-N"),
        "user": measured("field 12, as user-N"),
        "memory_bytes": measured("field 7, per processor, else field 10"),
        "start_ns": measured("fields 2 and 3"),
        "finish_ns": measured("fields 2 to 4"),
        "outcome": measured("field 11"),
        "tasks": measured("one for each processor, field 5, else field 8"),
        "tasks.kind": modelled("all are reduces, so that they can be preempted"),
        "tasks.length_ns": measured("field 4, equal for all tasks of a job"),
        "tasks.start_ns": measured("fields 2 and 3"),
    },
)


def read_swf(
    path: Path, problems: Problems, facts: dict[str, Any], on_bytes: OnBytes = ignore
) -> Iterator[WorkloadJob]:
    """Yield the jobs of an SWF file one by one, in file order.

    Raises TraceError if the file cannot be read or has no job.  A line that breaks the format, is not sorted by submit
    time, or repeats a job number is a problem.
    """
    facts |= {"rows": 0, "jobs that never ran, left out": 0, "partial executions, left out": 0}
    seen, last_ns = SeenIds(), 0
    for number, text in text_lines(path, problems, on_bytes):
        if text.startswith(";") or not text.strip():
            continue
        with problems.reported(path, number):
            row = _row(text.split())
            submit_ns = _ns("submit time", row["submit time"], MAX_NS)
            if submit_ns < last_ns:
                given, above = text.split()[1], last_ns / 1e9
                raise BrokenRow("submit time", f"{given} s is before the job above, {above:g} s; sort the file by time")
            if row["status"] in _PARTIAL:
                facts["partial executions, left out"] += 1
                continue
            seen.add(int(row["job number"]), "job number", "number")
            facts["rows"] += 1
            last_ns = submit_ns
            job = _job(row, submit_ns, _OUTCOMES.get(int(row["status"])))
            if job is None:
                facts["jobs that never ran, left out"] += 1
            else:
                yield job
    if not facts["rows"] and not problems.count:
        raise TraceError(path, None, None, "there is no job in the file: an SWF trace has one job a line, in 18 fields")


def _row(fields: list[str]) -> dict[str, float]:
    """The numbers of a line, by column."""
    if len(fields) != len(COLUMNS):
        raise BrokenRow(None, f"{len(fields)} fields separated by white space, not {len(COLUMNS)}")
    row = {column: _number(column, field) for column, field in zip(COLUMNS, fields, strict=True)}
    if row["job number"] < 0:
        raise BrokenRow("job number", f"{int(row['job number'])} is negative")
    if row["status"] not in _KNOWN_STATUS:
        raise BrokenRow("status", f"{int(row['status'])} is none of {', '.join(map(str, _KNOWN_STATUS))}")
    return row


def _job(row: dict[str, float], submit_ns: int, outcome: Outcome | None) -> WorkloadJob | None:
    """The job, or None if it never ran."""
    length_ns = None if row["run time"] == -1 else _ns("run time", row["run time"], MAX_LENGTH_NS)
    wait_ns = None if row["wait time"] == -1 else _ns("wait time", row["wait time"], MAX_LENGTH_NS)
    processors = int(row["allocated processors"])
    if processors <= 0:
        processors = int(row["requested processors"])
    if not length_ns or processors <= 0:
        return None
    if processors > MAX_TASKS:
        raise BrokenRow("allocated processors", f"{processors} are above {MAX_TASKS}")
    start_ns = None if wait_ns is None else submit_ns + wait_ns
    memory_kb = row["used memory"] if row["used memory"] > 0 else row["requested memory"]
    if memory_kb * 1024 > MAX_BYTES:
        raise BrokenRow("used memory", f"{memory_kb:g} kB are above {MAX_BYTES // 1024}")
    return WorkloadJob(
        f"job-{int(row['job number'])}",
        submit_ns,
        queue=None if row["queue"] == -1 else f"queue-{int(row['queue'])}",
        user=None if row["user"] == -1 else f"user-{int(row['user'])}",
        memory_bytes=int(memory_kb * 1024) if memory_kb > 0 else None,
        start_ns=start_ns,
        finish_ns=None if start_ns is None else start_ns + length_ns,
        outcome=outcome,
        tasks=(WorkloadTask("reduce", length_ns, start_ns=start_ns),) * processors,
    )


def _number(column: str, field: str) -> float:
    if not _NUMBER.fullmatch(field):
        raise BrokenRow(column, f"{field[:40]!r} is not a number of at most 18 digits")
    value = float(field)
    if column in _WHOLE_COLUMNS and value != math.floor(value):
        raise BrokenRow(column, f"{field[:40]!r} is not a whole number")
    if value < 0 and value != -1:
        raise BrokenRow(column, f"{field[:40]!r} is negative")
    return value


def _ns(column: str, seconds: float, most_ns: int) -> int:
    if seconds < 0:
        raise BrokenRow(column, f"{seconds:g} is negative")
    if seconds * 1e9 > most_ns:
        raise BrokenRow(column, f"{seconds:g} s is above {most_ns // 10**9} s")
    return round(seconds * 1e9)

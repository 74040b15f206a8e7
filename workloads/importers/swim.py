"""Importer of SWIM workloads (github.com/SWIMProjectUCB/SWIM): one row of a ``.tsv`` file is one job.

A row has, tab separated and without a header: job id, submit time (s), gap since the last submission (s), map input
bytes, shuffle bytes, reduce output bytes, and in some files an input path that is not used here.  The gap follows from
the submit times, so it is only checked to be a number.

SWIM records no tasks and no lengths: ``workloads.adapt`` makes them from the bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workloads.errors import BrokenRow, Problems, TraceError
from workloads.importers.fields import MAX_NS, SeenIds, job_id
from workloads.importers.source import OnBytes, ignore, text_lines
from workloads.record import Header, WorkloadJob, measured

COLUMNS = ("job id", "submit time", "gap", "map input bytes", "shuffle bytes", "reduce output bytes")
MAX_FIELDS = 9
"""Six columns, an input path, and two fields that are empty in the published files with paths."""
_WHOLE = re.compile(r"[0-9]{1,18}")
_NS = 10**9

HEADER = Header(
    format="swim",
    origin="zero",
    columns={
        "job": measured("column 1"),
        "submit_ns": measured("column 2, whole seconds"),
        "input_bytes": measured("column 4"),
        "shuffle_bytes": measured("column 5"),
        "output_bytes": measured("column 6"),
    },
)


def read_swim(
    path: Path, problems: Problems, facts: dict[str, Any], on_bytes: OnBytes = ignore
) -> Iterator[WorkloadJob]:
    """Yield the jobs of a SWIM file one by one, in file order, without tasks.

    Raises TraceError if the file cannot be read or is empty.  A line that breaks the format, is not sorted by submit
    time, or repeats a job id is a problem.
    """
    seen, last_s, number = SeenIds(), 0, 0
    for number, text in text_lines(path, problems, on_bytes):
        with problems.reported(path, number):
            job = _job(text)
            submit_s = job.submit_ns // _NS
            if submit_s < last_s:
                reason = f"{submit_s} s is before the line above, {last_s} s; sort the file by time"
                raise BrokenRow("submit time", reason)
            seen.add(job.job, "job id", of="line")
            last_s = submit_s
            facts["rows"] = facts.get("rows", 0) + 1
            yield job
    if not number and not problems.count:
        raise TraceError(path, None, None, "the file is empty: a SWIM trace has one job a line")


def _job(text: str) -> WorkloadJob:
    fields = text.split("\t")
    if not text.strip():
        raise BrokenRow(None, "the line is blank; delete it")
    if not len(COLUMNS) <= len(fields) <= MAX_FIELDS or any(fields[len(COLUMNS) + 1 :]):
        reason = f"{len(fields)} tab-separated fields, not {len(COLUMNS)} (or {len(COLUMNS) + 1}, with a path)"
        raise BrokenRow(None, f"{reason}; the columns are {', '.join(COLUMNS)}")
    name = job_id(fields[0], COLUMNS[0])
    submit_s, _gap_s, input_bytes, shuffle_bytes, output_bytes = (
        _whole(column, field) for column, field in zip(COLUMNS[1:], fields[1:], strict=False)
    )
    if submit_s * _NS > MAX_NS:
        raise BrokenRow("submit time", f"{submit_s} s is above {MAX_NS // _NS} s")
    return WorkloadJob(
        name,
        submit_s * _NS,
        input_bytes=input_bytes,
        shuffle_bytes=shuffle_bytes,
        output_bytes=output_bytes,
    )


def _whole(column: str, field: str) -> int:
    if _WHOLE.fullmatch(field):
        return int(field)
    is_negative = re.fullmatch(r"-[0-9]+", field)
    problem = "is negative" if is_negative else "is not a whole number of at most 18 digits"
    raise BrokenRow(column, f"{field[:40]!r} {problem}")

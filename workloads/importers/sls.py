"""Import and export of SLS files, the format of YARN's Scheduler Load Simulator: JSON objects, one for each job.

A container's length is ``container.end.ms - container.start.ms``, or ``duration.ms`` if those are missing.  Its type is
``map`` (the default) or ``reduce``.  An object with ``num.nodes`` describes the cluster; its numbers become facts.
``job.count`` and ``count`` repeat a job and a task.  Jobs without an id, and repeated jobs, are named by their number
from 0, as in the simulator.

Values without a column in the schema are kept in ``other`` and written back.  SLS has milliseconds, and keys for only
some columns: other columns, and times that are not whole milliseconds, are exported under ``natjam``, a key that SLS
ignores and this importer reads, so that reading an exported file loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from emulator.errors import ConfigError
from emulator.files.whole_files import written_whole
from workloads.codec import job_from_fields, job_to_fields, task_from_fields, task_to_fields
from workloads.errors import BrokenRow, Problems
from workloads.importers.fields import (
    MAX_LENGTH_NS,
    SeenIds,
    job_id,
    json_object,
    ms_to_ns,
    task_kind,
    task_priority,
    text,
    whole,
)
from workloads.importers.json_objects import read_objects
from workloads.importers.source import OnBytes, ignore
from workloads.record import Header, Trace, WorkloadJob, WorkloadTask, measured
from workloads.schema import MAX_TASKS

EXTENSION = "natjam"
"""Key of an exported job or task for the values that have no key in SLS."""
JOB_KEYS = ("job.id", "job.start.ms", "job.end.ms", "job.queue.name", "job.user", "job.tasks", EXTENSION)
TASK_KEYS = (
    *("container.type", "container.start.ms", "container.end.ms", "container.host", "container.priority"),
    *("duration.ms", EXTENSION),
)
"""Keys that have a column; other keys of an object go to ``other``."""
DEFAULT_AM_TYPE = "mapreduce"
_CLUSTER_KEYS = ("num.nodes", "num.racks")

HEADER = Header(
    format="sls",
    starts_measured=True,
    origin="zero",
    columns={
        "job": measured("job.id"),
        "submit_ns": measured("job.start.ms"),
        "queue": measured("job.queue.name"),
        "user": measured("job.user"),
        "finish_ns": measured("job.end.ms"),
        "tasks": measured("job.tasks"),
        "tasks.kind": measured("container.type"),
        "tasks.length_ns": measured("container.end.ms - container.start.ms, else duration.ms"),
        "tasks.start_ns": measured("container.start.ms"),
        "tasks.host": measured("container.host"),
        "tasks.priority": measured("container.priority"),
        "other": measured("all other keys"),
        "tasks.other": measured("all other keys"),
    },
)


def read_sls(
    path: Path, problems: Problems, facts: dict[str, Any], on_bytes: OnBytes = ignore
) -> Iterator[WorkloadJob]:
    """Yield the jobs of an SLS file one by one, in file order.

    Raises TraceError.  A job with a broken field is a problem and is left out.  A broken container is a problem too,
    but the rest of its job is kept.
    """
    seen, number = SeenIds(), 0
    for line, value in read_objects(path, problems, on_bytes):
        if any(key in value for key in _CLUSTER_KEYS) and "job.tasks" not in value:
            facts |= {key: value[key] for key in _CLUSTER_KEYS if type(value.get(key)) is int}
            continue
        with problems.reported(path, line):
            for job in _jobs(value, number, path, line, problems):
                seen.add(job.job, "job.id")
                number += 1
                yield job


def _jobs(value: dict[str, Any], number: int, path: Path, line: int, problems: Problems) -> Iterator[WorkloadJob]:
    count = whole(value.get("job.count", 1), "job.count", 1_000_000, least=1)
    named = value.get("job.id")
    if isinstance(named, int):
        named = str(named)
    submit_ns = ms_to_ns(_number(value.get("job.start.ms")), "job.start.ms")
    finish_ms = _number(value.get("job.end.ms"))
    finish_ns = None if finish_ms in (None, 0) else ms_to_ns(finish_ms, "job.end.ms")
    if finish_ns is not None and finish_ns < submit_ns:
        raise BrokenRow("job.end.ms", "is before job.start.ms")
    listed = value.get("job.tasks")
    if not isinstance(listed, list) or not listed:
        raise BrokenRow("job.tasks", "must be a list of at least one container")
    tasks = tuple(_tasks(listed, path, line, problems))
    if not tasks:
        raise BrokenRow("job.tasks", "no container of the job can be used")
    other = {key: told for key, told in value.items() if key not in (*JOB_KEYS, "job.count")}
    if other.get("am.type") == DEFAULT_AM_TYPE:
        del other["am.type"]
    for index in range(count):
        name = job_id(named, "job.id") if named is not None and count == 1 else str(number + index)
        job = WorkloadJob(
            name,
            submit_ns,
            queue=text(value.get("job.queue.name"), "job.queue.name"),
            user=text(value.get("job.user"), "job.user"),
            finish_ns=finish_ns,
            tasks=tasks,
            other=other or None,
        )
        yield _extended(job, value.get(EXTENSION))


def _tasks(listed: list[Any], path: Path, line: int, problems: Problems) -> Iterator[WorkloadTask]:
    total = 0
    for number, value in enumerate(listed):
        where = f"job.tasks[{number}]"
        found: tuple[WorkloadTask, ...] = ()
        with problems.reported(path, line):
            found = _equal_tasks(value, where)
        total += len(found)
        if total > MAX_TASKS:
            raise BrokenRow(where, f"the job has more than {MAX_TASKS} tasks")
        yield from found


def _equal_tasks(value: Any, where: str) -> tuple[WorkloadTask, ...]:
    """A container's task, as often as the file has it (``count``)."""
    json_object(value, where)
    kind = task_kind(value.get("container.type", "map"), f"{where}.container.type")
    start_ms = _number(value.get("container.start.ms"))
    start_ns = None if start_ms is None else ms_to_ns(start_ms, f"{where}.container.start.ms")
    task = WorkloadTask(
        kind,
        max(1, _length_ns(value, start_ns, where)),
        start_ns=start_ns,
        host=text(value.get("container.host"), f"{where}.container.host"),
        priority=task_priority(_number(value.get("container.priority")), f"{where}.container.priority"),
        other={key: told for key, told in value.items() if key not in (*TASK_KEYS, "count")} or None,
    )
    count = whole(_number(value.get("count", 1)), f"{where}.count", MAX_TASKS, least=1)
    return (_extended_task(task, value.get(EXTENSION), where),) * count


def _length_ns(value: dict[str, Any], start_ns: int | None, where: str) -> int:
    end_ms, duration_ms = _number(value.get("container.end.ms")), _number(value.get("duration.ms"))
    if start_ns is not None and end_ms is not None:
        length_ns = ms_to_ns(end_ms, f"{where}.container.end.ms") - start_ns
        if not 0 <= length_ns <= MAX_LENGTH_NS:
            late = "before container.start.ms" if length_ns < 0 else f"over {MAX_LENGTH_NS // 10**9} s after the start"
            raise BrokenRow(f"{where}.container.end.ms", f"is {late}")
        return length_ns
    if duration_ms is None:
        raise BrokenRow(where, "has neither container.start.ms and container.end.ms nor duration.ms")
    return ms_to_ns(duration_ms, f"{where}.duration.ms", MAX_LENGTH_NS)


def _number(value: Any) -> Any:
    """A number, also in quotes, as SLS accepts it."""
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 18 else value


def _extended(job: WorkloadJob, extension: Any) -> WorkloadJob:
    """The job with the values that an export wrote beside those of SLS."""
    if extension is None:
        return job
    extended = job_from_fields(job, json_object(extension, EXTENSION), EXTENSION)
    return replace(extended, queue=None) if "queue" in extension and extension["queue"] is None else extended


def _extended_task(task: WorkloadTask, extension: Any, where: str) -> WorkloadTask:
    below = f"{where}.{EXTENSION}"
    return task if extension is None else task_from_fields(task, json_object(extension, below), below)


# ---- export ----

_MS = 10**6
_DEFAULT_QUEUE = "default"


def export_sls(path: Path, trace: Trace) -> int:
    """Write a workload as an SLS file, atomically; returns the number of jobs.

    Raises ConfigError for a job without known tasks, RunError if the file cannot be written, and the errors of reading
    ``trace``.
    """
    count = 0
    with written_whole(path) as unfinished, unfinished.open("wb") as stream:
        for job in trace.jobs:
            stream.write(orjson.dumps(sls_job(job), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
            count += 1
    return count


def sls_job(job: WorkloadJob) -> dict[str, Any]:
    """The SLS object of a job."""
    if job.tasks is None:
        raise ConfigError(f"job {job.job}: has no tasks to export; convert or scale the trace to a workload first")
    has_end = bool(job.finish_ns) and job.finish_ns % _MS == 0
    told: dict[str, Any] = {
        "am.type": DEFAULT_AM_TYPE,
        **(job.other or {}),
        "job.start.ms": job.submit_ns // _MS,
        "job.end.ms": job.finish_ns // _MS if job.finish_ns and has_end else None,
        "job.queue.name": job.queue or _DEFAULT_QUEUE,
        "job.id": job.job,
        "job.user": job.user,
        "job.tasks": [_sls_task(task) for task in job.tasks],
    }
    rest = job_to_fields(replace(job, tasks=None))
    for key in ("job", "user", "other", "finish_ns" if has_end else "", "" if job.submit_ns % _MS else "submit_ns"):
        rest.pop(key, None)
    if rest.pop("queue", None) is None:
        rest["queue"] = None  # the trace has no queue, but SLS needs one
    told = {key: value for key, value in told.items() if value is not None}
    return {**told, EXTENSION: rest} if rest else told


def _sls_task(task: WorkloadTask) -> dict[str, Any]:
    in_ms = task.length_ns % _MS == 0 and (task.start_ns or 0) % _MS == 0
    told: dict[str, Any] = {**(task.other or {}), "container.type": task.kind}
    if task.start_ns is not None:
        told["container.start.ms"] = task.start_ns // _MS
        told["container.end.ms"] = (task.start_ns + task.length_ns) // _MS
    else:
        told["duration.ms"] = -(-task.length_ns // _MS)
    if task.host is not None:
        told["container.host"] = task.host
    if task.priority is not None:
        told["container.priority"] = task.priority
    rest = task_to_fields(task)
    for key in ("kind", "host", "priority", "other", *(("length_ns", "start_ns") if in_ms else ())):
        rest.pop(key, None)
    if rest.get("source") == "measured":
        del rest["source"]
    return {**told, EXTENSION: rest} if rest else told

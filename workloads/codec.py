"""Jobs of a workload as plain data for its files, and back with every field checked (see ``workloads.store``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Any

from workloads.errors import BrokenRow
from workloads.importers.fields import (
    MAX_BYTES,
    MAX_LENGTH_NS,
    MAX_NS,
    job_id,
    json_object,
    task_priority,
    text,
    whole,
)
from workloads.record import (
    KINDS,
    ORIGINS,
    OUTCOMES,
    SOURCES,
    VERSION,
    Header,
    Provenance,
    WorkloadJob,
    WorkloadTask,
)
from workloads.schema import MAX_TASKS

_Check = Callable[[Any, str], Any]


def header_to_fields(header: Header) -> dict[str, Any]:
    """The header as plain data."""
    columns = {name: {"source": told.source, "rule": told.rule} for name, told in header.columns.items()}
    return {
        "natjam_workload": VERSION,
        "format": header.format,
        "origin": header.origin,
        "columns": columns,
        "history": list(header.history),
        **({"starts_measured": True} if header.starts_measured else {}),
    }


def header_from_fields(value: Any) -> Header:
    """The header from plain data.  Raises BrokenRow."""
    if not isinstance(value, dict) or "natjam_workload" not in value:
        raise BrokenRow(None, 'a workload begins with its header, {"natjam_workload": 1, ...}')
    if value["natjam_workload"] != VERSION:
        raise BrokenRow(
            "natjam_workload", f"version {value['natjam_workload']!r:.20} is unknown; this release reads {VERSION}"
        )
    columns, history = value.get("columns", {}), value.get("history", [])
    if not isinstance(columns, dict) or not isinstance(history, list):
        raise BrokenRow("columns", "columns must be an object and history a list")
    return Header(
        format=text(value.get("format"), "format") or "unknown",
        origin=_one_of(ORIGINS)(value.get("origin"), "origin"),
        columns={name: _provenance(told, f"columns.{name}") for name, told in columns.items()},
        history=tuple(str(text(step, "history")) for step in history),
        starts_measured=value.get("starts_measured") is True,
    )


def _provenance(value: Any, where: str) -> Provenance:
    told = json_object(value, where)
    source = _one_of(("measured", "modelled", "mixed"))(told.get("source"), f"{where}.source")
    return Provenance(source, text(told.get("rule"), f"{where}.rule") or "")


def job_to_fields(job: WorkloadJob) -> dict[str, Any]:
    """The job as plain data, without fields that are None."""
    told = {name: value for name in _JOB_NAMES if (value := getattr(job, name)) is not None}
    if job.tasks is not None:
        told["tasks"] = [task_to_fields(task) for task in job.tasks]
    return told


def task_to_fields(task: WorkloadTask) -> dict[str, Any]:
    """The task as plain data, without fields that are None."""
    return {name: value for name in _TASK_NAMES if (value := getattr(task, name)) is not None}


def job_from_data(value: Any) -> WorkloadJob:
    """The job from plain data.  Raises BrokenRow."""
    told = json_object(value, None)
    return job_from_fields(WorkloadJob(job_id(told.get("job"), "job"), _time(told.get("submit_ns"), "submit_ns")), told)


def job_from_fields(base: WorkloadJob, value: Mapping[str, Any], where: str = "") -> WorkloadJob:
    """``base`` with the fields of ``value`` set.  Raises BrokenRow, with columns below ``where``."""
    given = _given(value, _JOB_CHECKS, where)
    tasks = value.get("tasks")
    if tasks is not None:
        given["tasks"] = _tasks(tasks, f"{where}.tasks" if where else "tasks")
    job = replace(base, **given)
    for later, earlier in (("deadline_ns", "submit_ns"), ("start_ns", "submit_ns"), ("finish_ns", "submit_ns")):
        last, first = getattr(job, later), getattr(job, earlier)
        if last is not None and last < first:
            raise BrokenRow(f"{where}.{later}" if where else later, f"{last} is before {earlier} {first}")
    return job


def task_from_fields(base: WorkloadTask, value: Mapping[str, Any], where: str) -> WorkloadTask:
    """``base`` with the fields of ``value`` set.  Raises BrokenRow, with columns below ``where``."""
    return replace(base, **_given(value, _TASK_CHECKS, where))


def _given(value: Mapping[str, Any], checks: Mapping[str, _Check], where: str) -> dict[str, Any]:
    return {
        name: checks[name](told, f"{where}.{name}" if where else name)
        for name, told in value.items()
        if told is not None and name in checks
    }


def _tasks(value: Any, where: str) -> tuple[WorkloadTask, ...]:
    if not isinstance(value, list) or not value:
        raise BrokenRow(where, "must be a list of at least one task, or left out")
    if len(value) > MAX_TASKS:
        raise BrokenRow(where, f"{len(value)} tasks are above {MAX_TASKS}")
    found = []
    for number, task in enumerate(value):
        place = f"{where}[{number}]"
        told = json_object(task, place)
        kind, length_ns = _kind(told.get("kind"), f"{place}.kind"), _length(told.get("length_ns"), f"{place}.length_ns")
        found.append(WorkloadTask(kind, length_ns, **_given(told, _OPTIONAL_TASK_CHECKS, place)))
    return tuple(found)


def _one_of(known: tuple[str, ...]) -> _Check:
    def check(value: Any, column: str) -> Any:
        if value not in known:
            raise BrokenRow(column, f"{str(value)[:40]!r} is none of {', '.join(known)}")
        return value

    return check


_time = partial(whole, most=MAX_NS)
_length = partial(whole, most=MAX_LENGTH_NS, least=1)
_bytes = partial(whole, most=MAX_BYTES)
_count = partial(whole, most=10**9)
_kind = _one_of(KINDS)
_JOB_CHECKS: dict[str, _Check] = {
    "submit_ns": _time,
    "queue": text,
    "user": text,
    "priority": task_priority,
    "deadline_ns": _time,
    "memory_bytes": _bytes,
    "input_bytes": _bytes,
    "shuffle_bytes": _bytes,
    "output_bytes": _bytes,
    "start_ns": _time,
    "finish_ns": _time,
    "outcome": _one_of(OUTCOMES),
    "cpu_thousandths": _count,
    "gpu_thousandths": _count,
    "other": json_object,
}
_OPTIONAL_TASK_CHECKS: dict[str, _Check] = {
    "source": _one_of(SOURCES),
    "start_ns": _time,
    "host": text,
    "priority": task_priority,
    "memory_bytes": _bytes,
    "cpu_thousandths": _count,
    "attempts": _count,
    "evictions": _count,
    "lost_ns": _time,
    "other": json_object,
}
_TASK_CHECKS: dict[str, _Check] = {"kind": _kind, "length_ns": _length, **_OPTIONAL_TASK_CHECKS}
_JOB_NAMES = tuple(one.name for one in fields(WorkloadJob) if one.name != "tasks")
_TASK_NAMES = tuple(one.name for one in fields(WorkloadTask))

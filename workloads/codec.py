"""Jobs of a workload as plain data for its files, and back with every field checked (see ``workloads.store``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
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
    JOB_COLUMNS,
    KINDS,
    ORIGINS,
    OUTCOMES,
    SOURCES,
    TASK_COLUMNS,
    VERSION,
    Column,
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
    return {name: value for name in TASK_COLUMNS if (value := getattr(task, name)) is not None}


def job_from_data(value: Any) -> WorkloadJob:
    """The job from plain data.  Raises BrokenRow."""
    told = json_object(value, None)
    job, submit_ns = job_id(told.get("job"), "job"), _JOB_CHECKS["submit_ns"](told.get("submit_ns"), "submit_ns")
    return job_from_fields(WorkloadJob(job, submit_ns), told)


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
        kind, length_ns = (_TASK_CHECKS[name](told.get(name), f"{place}.{name}") for name in ("kind", "length_ns"))
        found.append(WorkloadTask(kind, length_ns, **_given(told, _OPTIONAL_TASK_CHECKS, place)))
    return tuple(found)


def _one_of(known: tuple[str, ...]) -> _Check:
    def check(value: Any, column: str) -> Any:
        if value not in known:
            raise BrokenRow(column, f"{str(value)[:40]!r} is none of {', '.join(known)}")
        return value

    return check


_KINDS_OF_VALUES: dict[str, _Check] = {
    "time": partial(whole, most=MAX_NS),
    "length": partial(whole, most=MAX_LENGTH_NS, least=1),
    "bytes": partial(whole, most=MAX_BYTES),
    "count": partial(whole, most=10**9),
    "text": text,
    "priority": task_priority,
    "object": json_object,
    "kind": _one_of(KINDS),
    "source": _one_of(SOURCES),
    "outcome": _one_of(OUTCOMES),
}


def _checks(columns: Mapping[str, Column]) -> dict[str, _Check]:
    return {name: _KINDS_OF_VALUES[column.holds] for name, column in columns.items() if column.holds}


_JOB_CHECKS, _TASK_CHECKS = _checks(JOB_COLUMNS), _checks(TASK_COLUMNS)
_OPTIONAL_TASK_CHECKS = {name: check for name, check in _TASK_CHECKS.items() if name not in ("kind", "length_ns")}
_JOB_NAMES = tuple(name for name in JOB_COLUMNS if name != "tasks")

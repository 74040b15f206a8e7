"""Importer of Rumen job traces (Hadoop): concatenated JSON objects, one for each job, with all attempts of all tasks.

A task's length is that of its successful attempt.  A map's length goes from the attempt's start to its finish.  A
reduce's length begins when its input is complete, because waiting for maps is not work: at its start if the job's maps
had all finished by then; otherwise when the last map finished, but at the latest at the end of its own shuffle.
Failed and killed attempts count as ``attempts``, and their time as ``lost_ns``.

A task without a successful attempt (its job failed, or a map was no longer wanted) has no measured length; see
``workloads.importers.fields``.  Setup and cleanup tasks are only counted.

Times are milliseconds since 1970.  -1, or 0 for a time, means that nothing was recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workloads.errors import BrokenRow, Problems
from workloads.importers.fields import (
    MAX_BYTES,
    MAX_LENGTH_NS,
    SeenIds,
    fill_lengths,
    job_id,
    json_object,
    ms_to_ns,
    text,
    whole,
)
from workloads.importers.json_objects import read_objects
from workloads.importers.source import OnBytes, ignore
from workloads.record import Header, Kind, Outcome, Source, WorkloadJob, WorkloadTask, measured
from workloads.record import Provenance as From
from workloads.schema import MAX_TASKS, Unfinished

PRIORITIES = {"VERY_LOW": 1, "LOW": 2, "NORMAL": 3, "HIGH": 4, "VERY_HIGH": 5}
_OUTCOMES: dict[str, Outcome] = {"SUCCESS": "succeeded", "FAILED": "failed", "KILLED": "killed"}
_BYTES_PER_MB = 2**20
_LISTS: tuple[tuple[str, Kind], ...] = (("mapTasks", "map"), ("reduceTasks", "reduce"))

HEADER = Header(
    format="rumen",
    starts_measured=True,
    origin="first-submission",
    columns={
        "job": measured("jobID"),
        "submit_ns": measured("submitTime"),
        "queue": measured("queue"),
        "user": measured("user"),
        "priority": measured("priority, VERY_LOW 1 to VERY_HIGH 5"),
        "memory_bytes": measured("heapMegabytes"),
        "input_bytes": measured("hdfsBytesRead of the successful maps"),
        "shuffle_bytes": measured("mapOutputBytes of the successful maps; 0 without reduces"),
        "output_bytes": measured("hdfsBytesWritten of the successful tasks"),
        "start_ns": measured("launchTime"),
        "finish_ns": measured("finishTime"),
        "outcome": measured("outcome"),
        "tasks": measured("mapTasks and reduceTasks"),
        "tasks.kind": measured("mapTasks and reduceTasks"),
        "tasks.length_ns": From("mixed", "the successful attempt; without one, see unfinished"),
        "tasks.start_ns": measured("startTime of the successful attempt"),
        "tasks.host": measured("hostName of the successful attempt"),
        "tasks.attempts": measured("attempts"),
        "tasks.lost_ns": measured("time of the attempts that failed or were killed"),
    },
)


@dataclass(frozen=True, slots=True)
class _Attempt:
    result: str
    start_ns: int | None
    finish_ns: int | None
    shuffled_ns: int | None
    host: str | None
    fields: Mapping[str, Any]

    @property
    def length_ns(self) -> int | None:
        return None if self.start_ns is None or self.finish_ns is None else self.finish_ns - self.start_ns


@dataclass(frozen=True, slots=True)
class _Task:
    kind: Kind
    attempts: tuple[_Attempt, ...]

    @property
    def success(self) -> _Attempt | None:
        """Its last successful attempt with known start and finish."""
        done = [attempt for attempt in self.attempts if attempt.result == "SUCCESS" and attempt.length_ns is not None]
        return done[-1] if done else None


def read_rumen(
    path: Path,
    problems: Problems,
    facts: dict[str, Any],
    on_bytes: OnBytes = ignore,
    unfinished: Unfinished = "median",
) -> Iterator[WorkloadJob]:
    """Yield the jobs of a Rumen trace one by one, in file order.

    Raises TraceError.  A job with a broken field is a problem and is left out.  A broken attempt or task is a problem
    too, but the rest of its job is kept.
    """
    reader = _Reader(path, problems, facts, unfinished)
    for line, value in read_objects(path, problems, on_bytes):
        with problems.reported(path, line):
            job = reader.job(line, value)
            if job is None:
                facts["jobs without any length, left out"] += 1
            else:
                yield job


class _Reader:
    def __init__(self, path: Path, problems: Problems, facts: dict[str, Any], unfinished: Unfinished) -> None:
        self._path, self._problems, self._facts = path, problems, facts
        self._unfinished: Unfinished = unfinished
        self._seen = SeenIds()
        facts |= {"attempts": 0, "setup and cleanup tasks, left out": 0}
        facts |= {"tasks without a length, left out": 0, "jobs without any length, left out": 0}

    def job(self, line: int, value: dict[str, Any]) -> WorkloadJob | None:
        """The job of one object; None if no task of it has a length.  Raises BrokenRow."""
        name = job_id(value.get("jobID"), "jobID")
        submit_ns = _required_time(value.get("submitTime"), "submitTime")
        start_ns, finish_ns = _time(value.get("launchTime"), "launchTime"), _time(value.get("finishTime"), "finishTime")
        if finish_ns is not None and finish_ns < submit_ns:
            raise BrokenRow("finishTime", "is before submitTime")
        outcome, priority = _word(value.get("outcome"), "outcome"), _word(value.get("priority"), "priority")
        self._seen.add(name, "jobID")
        heap_mb = _count(value.get("heapMegabytes"), "heapMegabytes")
        tasks = [task for key, kind in _LISTS for task in self._tasks(line, value, key, kind)]
        self._facts["setup and cleanup tasks, left out"] += len(_list(value.get("otherTasks"), "otherTasks"))
        lengths = _lengths(tasks, self._unfinished)
        finished = tuple(_finished_task(task, *found) for task, found in zip(tasks, lengths, strict=True) if found)
        self._facts["tasks without a length, left out"] += lengths.count(None)
        if not finished:
            return None
        maps = [run for task in tasks if task.kind == "map" and (run := task.success) is not None]
        runs = [run for task in tasks if (run := task.success) is not None]
        return WorkloadJob(
            name,
            submit_ns,
            queue=text(value.get("queue"), "queue"),
            user=text(value.get("user"), "user"),
            priority=PRIORITIES.get(priority),
            memory_bytes=heap_mb * _BYTES_PER_MB if heap_mb else None,
            start_ns=start_ns,
            finish_ns=finish_ns,
            outcome=_OUTCOMES.get(outcome),
            tasks=finished,
            input_bytes=_sum(maps, "hdfsBytesRead"),
            shuffle_bytes=_sum(maps, "mapOutputBytes") if any(task.kind == "reduce" for task in tasks) else 0,
            output_bytes=_sum(runs, "hdfsBytesWritten"),
        )

    def _tasks(self, line: int, value: dict[str, Any], key: str, kind: Kind) -> Iterator[_Task]:
        listed = _list(value.get(key), key)
        if len(listed) > MAX_TASKS:
            raise BrokenRow(key, f"{len(listed)} tasks are above {MAX_TASKS}")
        for number, task in enumerate(listed):
            where = f"{key}[{number}]"
            with self._problems.reported(self._path, line):
                attempts = _list(json_object(task, where).get("attempts"), f"{where}.attempts")
                yield _Task(kind, tuple(self._attempts(line, attempts, f"{where}.attempts")))

    def _attempts(self, line: int, listed: list[Any], where: str) -> Iterator[_Attempt]:
        for number, value in enumerate(listed):
            self._facts["attempts"] += 1
            with self._problems.reported(self._path, line):
                attempt = _attempt(value, f"{where}[{number}]")
                kind = f"attempts {attempt.result or 'without a result'}"
                self._facts[kind] = self._facts.get(kind, 0) + 1
                yield attempt


def _attempt(value: Any, where: str) -> _Attempt:
    json_object(value, where)
    result = _word(value.get("result"), f"{where}.result")
    start_ns = _time(value.get("startTime"), f"{where}.startTime")
    finish_ns = _time(value.get("finishTime"), f"{where}.finishTime")
    if start_ns is not None and finish_ns is not None:
        if finish_ns < start_ns:
            late_s = (start_ns - finish_ns) / 1e9
            raise BrokenRow(f"{where}.finishTime", f"is {late_s:g} s before startTime")
        if finish_ns - start_ns > MAX_LENGTH_NS:
            raise BrokenRow(f"{where}.finishTime", f"is over {MAX_LENGTH_NS // 10**9} s after startTime")
    shuffled_ns = _time(value.get("shuffleFinished"), f"{where}.shuffleFinished")
    host = text(value.get("hostName"), f"{where}.hostName")
    fields = {name: _count(value.get(name), f"{where}.{name}") for name in _BYTE_FIELDS}
    return _Attempt(result, start_ns, finish_ns, shuffled_ns, host, fields)


_BYTE_FIELDS = ("hdfsBytesRead", "hdfsBytesWritten", "mapOutputBytes")


def _lengths(tasks: list[_Task], rule: Unfinished) -> list[tuple[int, Source] | None]:
    """Length and source of each task of a job; None if the task is left out."""
    ends_ns = [run.finish_ns or 0 for task in tasks if task.kind == "map" and (run := task.success) is not None]
    maps_end_ns = max(ends_ns, default=0)
    found: list[tuple[int, Source] | None] = []
    for _, kind in _LISTS:  # the order of the tasks
        of_kind = [task for task in tasks if task.kind == kind]
        finished_ns = [
            None if task.success is None else _length_ns(kind, task.success, maps_end_ns) for task in of_kind
        ]
        observed_ns = [max((run.length_ns or 0 for run in task.attempts), default=0) for task in of_kind]
        found += fill_lengths(finished_ns, observed_ns, rule)
    return found


def _finished_task(task: _Task, length_ns: int, source: Source) -> WorkloadTask:
    success = task.success
    return WorkloadTask(
        task.kind,
        length_ns,
        source,
        start_ns=None if success is None else success.start_ns,
        host=None if success is None else success.host,
        attempts=len(task.attempts),
        lost_ns=sum(run.length_ns or 0 for run in task.attempts if run is not success),
    )


def _length_ns(kind: Kind, run: _Attempt, maps_end_ns: int) -> int:
    assert run.start_ns is not None
    assert run.finish_ns is not None
    if kind == "map":
        return run.finish_ns - run.start_ns
    input_ns = max(run.start_ns, maps_end_ns)
    if run.shuffled_ns is not None and run.start_ns <= run.shuffled_ns <= run.finish_ns:
        input_ns = min(input_ns, run.shuffled_ns)
    return max(0, run.finish_ns - input_ns) if input_ns < run.finish_ns else run.finish_ns - run.start_ns


def _sum(runs: list[_Attempt], name: str) -> int | None:
    known = [run.fields[name] for run in runs if run.fields[name] is not None]
    return min(sum(known), MAX_BYTES) if known else None


def _required_time(value: Any, column: str) -> int:
    time_ns = _time(value, column)
    if time_ns is None:
        raise BrokenRow(column, "is missing")
    return time_ns


def _time(value: Any, column: str) -> int | None:
    """Milliseconds to nanoseconds; None if nothing was recorded."""
    if value is None or (type(value) is int and value in (-1, 0)):
        return None
    return ms_to_ns(value, column)


def _count(value: Any, column: str) -> int | None:
    return None if value is None or value == -1 else whole(value, column, MAX_BYTES)


def _word(value: Any, column: str) -> str:
    return text(value, column) or ""


def _list(value: Any, column: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise BrokenRow(column, "is not a list")
    return value

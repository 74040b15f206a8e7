"""Importer of the Google cluster trace of 2011 (clusterdata-2011-2, "Google cluster-usage traces v2.1, Reiss, Wilkes,
Hellerstein"): tables ``task_events`` and ``job_events``, and ``machine_events`` for its counts.

The path is a directory with folders of these names, whose part files are read in the order of their names.  It may also
be one file of task events; then jobs are known only from their tasks, and are kept in memory to the end.

- A job is submitted at its SUBMIT event and ends at its FINISH, FAIL, KILL or LOST event.  A job submitted before the
  first file is left out and counted.
- A task's runs go from SCHEDULE to EVICT, FAIL, FINISH, KILL or LOST.  Its length is that of its last run with FINISH.
  The time of all other runs is its ``lost_ns``, and the number of its EVICT events is ``evictions``.  A task without a
  FINISH run has no measured length; see ``workloads.importers.fields``.
- The trace has no maps.  Every task is a reduce, so that it can be preempted.
- Priorities are the trace's: 0 and 1 free, 2 to 8 middle, 9 to 11 production, 10 monitoring.
- Requests are shares of the largest machine; a task has those of its last event.  They are read if that machine is
  given.  Where all tasks of a job ask for the same, the job says it.

Jobs come in the order of their ends.  Memory holds the tasks of open jobs, and eight bytes for each job.
"""

from __future__ import annotations

import bisect
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from workloads.errors import Problems, TraceError
from workloads.histogram import LogHistogram
from workloads.importers.fields import fill_lengths
from workloads.importers.google_events import (
    BILLIONTHS,
    EVICT,
    FAIL,
    FINISH,
    JOB_EVENTS,
    KILL,
    LOST,
    MACHINE_EVENTS,
    NEVER,
    SCHEDULE,
    SUBMIT,
    TASK_EVENTS,
    TASK_EVENTS_WITH_REQUESTS,
    Arrays,
    Table,
    TaskTable,
    read_table,
)
from workloads.importers.source import OnBytes, ignore
from workloads.record import Header, Outcome, Source, WorkloadJob, WorkloadTask, measured, modelled
from workloads.record import Provenance as From
from workloads.schema import MAX_TASKS, Machine, Unfinished

_US = 1000
_EVENTS = ("SUBMIT", "SCHEDULE", "EVICT", "FAIL", "FINISH", "KILL", "LOST", "UPDATE_PENDING", "UPDATE_RUNNING")
_OUTCOMES: dict[int, Outcome] = {FINISH: "succeeded", FAIL: "failed", KILL: "killed", LOST: "failed"}
_END_OF_TIME = 2**62

HEADER = Header(
    format="google",
    starts_measured=True,
    origin="first-submission",
    columns={
        "job": measured("job ID"),
        "submit_ns": measured("SUBMIT of job_events"),
        "user": measured("user of job_events"),
        "priority": measured("highest priority of the job's tasks"),
        "start_ns": measured("first SCHEDULE that led to a FINISH"),
        "finish_ns": measured("FINISH, FAIL, KILL or LOST of job_events"),
        "outcome": measured("FINISH, FAIL, KILL or LOST of job_events"),
        "tasks": measured("task index of task_events"),
        "tasks.kind": modelled("all are reduces, so that they can be preempted"),
        "tasks.length_ns": From("mixed", "last SCHEDULE to FINISH; without one, see unfinished"),
        "tasks.start_ns": measured("that SCHEDULE"),
        "tasks.host": measured("machine ID of that FINISH"),
        "tasks.priority": measured("priority"),
        "tasks.attempts": measured("SCHEDULE events"),
        "tasks.evictions": measured("EVICT events"),
        "tasks.lost_ns": measured("runs that did not end in FINISH"),
        "cpu_thousandths": measured("CPU request x the largest machine's"),
        "memory_bytes": measured("memory request x the largest machine's"),
        "tasks.cpu_thousandths": measured("CPU request x the largest machine's"),
        "tasks.memory_bytes": measured("memory request x the largest machine's"),
    },
)


@dataclass(slots=True)
class _Job:
    submit_us: int
    user: str | None
    end_us: int = _END_OF_TIME
    outcome: Outcome | None = None


def read_google(
    path: Path,
    problems: Problems,
    facts: dict[str, Any],
    on_bytes: OnBytes = ignore,
    unfinished: Unfinished = "observed",
    machine: Machine | None = None,
) -> Iterator[WorkloadJob]:
    """Yield the jobs of a slice of the trace, in the order of their ends; jobs open at the slice's end come last.
    ``machine``: what the largest one has; None: requests are not read.

    Raises TraceError.
    """
    tasks, jobs, machines = (_files(path, table) for table in (TASK_EVENTS, JOB_EVENTS, MACHINE_EVENTS))
    reader = _Reader(facts, unfinished, machine, has_jobs=bool(jobs))
    for events in read_table(MACHINE_EVENTS, machines, problems, on_bytes):
        reader.count_machines(events)
    job_events = _JobEvents(read_table(JOB_EVENTS, jobs, problems, on_bytes))
    of_tasks = TASK_EVENTS if machine is None else TASK_EVENTS_WITH_REQUESTS
    for events in read_table(of_tasks, tasks, problems, on_bytes):
        reader.feed_tasks(events)
        now_us = int(events["time"][-1])
        for rows in job_events.until(now_us):
            reader.feed_jobs(rows)
        yield from reader.ended(now_us)
    for rows in job_events.until(_END_OF_TIME):
        reader.feed_jobs(rows)
    yield from reader.ended(_END_OF_TIME)
    yield from reader.rest()


def _files(path: Path, table: Table) -> list[Path]:
    """The part files of a table, in the order of their names."""
    if not path.is_dir():
        return [path] if table is TASK_EVENTS else []
    try:
        found = sorted(file for file in (path / table.folder).glob("part-*") if file.is_file())
    except OSError as error:
        raise TraceError(path, None, None, f"cannot be read: {error.strerror}") from None
    if not found and table is TASK_EVENTS:
        raise TraceError(path, None, None, "has no files task_events/part-*, the table of the tasks")
    return found


class _JobEvents:
    """The rows of ``job_events``, read in parallel with those of another table."""

    def __init__(self, batches: Iterator[Arrays]) -> None:
        self._batches = batches
        self._held: Arrays | None = next(batches, None)

    def until(self, time_us: int) -> Iterator[Arrays]:
        """The next rows up to and including ``time_us``."""
        while self._held is not None:
            count = int(np.searchsorted(self._held["time"], time_us, side="right"))
            yield {name: column[:count] for name, column in self._held.items()}
            if count < len(self._held["time"]):
                self._held = {name: column[count:] for name, column in self._held.items()}
                return
            self._held = next(self._batches, None)


class _Reader:
    def __init__(self, facts: dict[str, Any], unfinished: Unfinished, machine: Machine | None, has_jobs: bool) -> None:
        self._facts, self._has_jobs, self._machine = facts, has_jobs, machine
        self._unfinished: Unfinished = unfinished
        self._table = TaskTable()
        self._jobs: dict[int, _Job] = {}
        self._ended: set[int] = set()
        self._seen = array("q")
        self._runs = {how: LogHistogram() for how in (FINISH, EVICT)}
        facts |= {"task events": 0, "job events": 0, "jobs without a SUBMIT event of their own, left out": 0}
        facts |= {"tasks without a length, left out": 0, "jobs without any length, left out": 0}

    # ---- counts ----

    def count_machines(self, events: Arrays) -> None:
        """Count the machines of the cluster."""
        facts = self._facts
        facts["machine events"] = facts.get("machine events", 0) + len(events["time"])
        for number, name in enumerate(("ADD", "REMOVE", "UPDATE")):
            facts[f"machines {name}"] = facts.get(f"machines {name}", 0) + int((events["event"] == number).sum())
        at_start = int(((events["time"] == 0) & (events["event"] == 0)).sum())
        facts["machines at time 0"] = facts.get("machines at time 0", 0) + at_start

    def _count(self, events: Arrays, runs: dict[str, Any]) -> None:
        facts = self._facts
        facts["task events"] += len(events["time"])
        for number, count in enumerate(np.bincount(events["event"], minlength=len(_EVENTS))):
            if count or number <= LOST:
                name = f"task events {_EVENTS[number]}"
                facts[name] = facts.get(name, 0) + int(count)
        evicted = events["priority"][events["event"] == EVICT]
        for priority, count in enumerate(np.bincount(evicted)):
            if count:
                name = f"evictions of priority {priority}"
                facts[name] = facts.get(name, 0) + int(count)
        for how, histogram in self._runs.items():
            histogram.add(runs["length_us"][runs["how"] == how] / 1e6)

    # ---- events ----

    def feed_tasks(self, events: Arrays) -> None:
        """Handle the next task events."""
        self._count(events, self._table.feed(events))

    def feed_jobs(self, events: Arrays) -> None:
        """Handle the next job events; there are a few for every hundred task events."""
        rows = zip(*(events[name].tolist() for name in ("time", "job", "event", "user")), strict=True)
        self._facts["job events"] += len(events["time"])
        for time_us, number, event, user in rows:
            job = self._jobs.get(number)
            if event == SUBMIT:
                self._submit(time_us, number, user)
            elif event in _OUTCOMES:
                self._ended.add(number)
                if job is not None:
                    job.end_us, job.outcome = time_us, _OUTCOMES[event]

    def _submit(self, time_us: int, number: int, user: str) -> None:
        place = bisect.bisect_left(self._seen, number)
        if place < len(self._seen) and self._seen[place] == number:
            self._facts["jobs submitted again"] = self._facts.get("jobs submitted again", 0) + 1
            return
        self._seen.insert(place, number)
        self._jobs[number] = _Job(time_us, user[:1000] if user.isprintable() else None)

    # ---- jobs ----

    def ended(self, now_us: int) -> Iterator[WorkloadJob]:
        """The jobs that are complete: they ended, with all their tasks, before ``now_us``."""
        if not self._ended:
            return
        numbers = np.array(sorted(self._ended), np.int64)
        events, times = self._table.columns["last_event"], self._table.columns["last_us"]
        gone: list[tuple[int, int, int, int]] = []
        for number, first, past in zip(
            numbers.tolist(), *(at.tolist() for at in self._table.of_jobs(numbers)), strict=True
        ):
            job = self._jobs.get(number)
            end_us = max(0 if job is None else job.end_us, int(times[first:past].max()) if past > first else 0)
            if end_us < now_us and not (events[first:past] <= SCHEDULE).any():
                gone.append((end_us, number, first, past))
        for _, number, first, past in sorted(gone):
            yield from self._made(number, first, past)
        self._ended -= {number for _, number, _, _ in gone}
        self._table.remove([(first, past) for _, _, first, past in gone])

    def rest(self) -> Iterator[WorkloadJob]:
        """The jobs still open at the end of the files."""
        if not self._has_jobs:
            self._jobs = self._jobs_of_tasks()
        numbers = np.unique(self._table.keys >> 24)
        for number, first, past in zip(
            numbers.tolist(), *(at.tolist() for at in self._table.of_jobs(numbers)), strict=True
        ):
            yield from self._made(number, first, past)
        self._facts["jobs without any length, left out"] += len(self._jobs)
        for how, name in ((FINISH, "completed"), (EVICT, "evicted")):
            if self._runs[how].count:
                told = " / ".join(f"{self._runs[how].quantile(share):.0f}" for share in (0.1, 0.5, 0.9))
                self._facts[f"length of {name} runs, s (p10 / median / p90)"] = told

    def _jobs_of_tasks(self) -> dict[int, _Job]:
        """Jobs known only from their tasks, if all of these were submitted in the files."""
        submits, numbers = self._table.columns["submit_us"], self._table.keys >> 24
        whole: dict[int, _Job] = {}
        for number in np.unique(numbers).tolist():
            first, past = np.searchsorted(numbers, [number, number + 1])
            if int(submits[first:past].max()) < NEVER:
                whole[number] = _Job(int(submits[first:past].min()), None)
        return whole

    def _made(self, number: int, first: int, past: int) -> Iterator[WorkloadJob]:
        """The job of these tasks, if it was submitted in the files and has a task with a length."""
        facts, job = self._facts, self._jobs.pop(number, None)
        submitted = int((self._table.columns["submit_us"][first:past] < NEVER).sum())
        if submitted:
            priority = int(self._table.columns["priority"][first])
            counts = {"tasks with a SUBMIT event": submitted, "jobs with a SUBMIT event of a task": 1}
            for name, count in {**counts, f"of these jobs, of priority {priority}": 1}.items():
                facts[name] = facts.get(name, 0) + count
        if job is None:
            facts["jobs without a SUBMIT event of their own, left out"] += past > first
            return
        column = {name: values[first:past].tolist() for name, values in self._table.columns.items()}
        finished_ns = [None if length < 0 else length * _US for length in column["length_us"]]
        lengths = fill_lengths(finished_ns, [seen * _US for seen in column["observed_us"]], self._unfinished)
        facts["tasks without a length, left out"] += lengths.count(None)
        tasks = tuple(
            _task(length, row) for length, row in zip(lengths, _rows(column), strict=True) if length is not None
        )
        if not tasks:
            facts["jobs without any length, left out"] += 1
            return
        if len(tasks) > MAX_TASKS:
            raise TraceError(Path(str(number)), None, None, f"job {number} has {len(tasks)} tasks, above {MAX_TASKS}")
        starts_ns = [task.start_ns for task in tasks if task.start_ns is not None]
        requests = self._requests(column) if self._machine is not None else [(None, None)] * len(lengths)
        known = [request for length, request in zip(lengths, requests, strict=True) if length is not None]
        same = known[0] if len(set(known)) == 1 else (None, None)
        if same != known[0]:
            tasks = tuple(
                replace(task, cpu_thousandths=cpu, memory_bytes=memory)
                for task, (cpu, memory) in zip(tasks, known, strict=True)
            )
        yield WorkloadJob(
            str(number),
            job.submit_us * _US,
            user=job.user or None,
            priority=max(column["priority"]),
            start_ns=min(starts_ns, default=None),
            finish_ns=None if job.end_us == _END_OF_TIME else job.end_us * _US,
            outcome=job.outcome,
            cpu_thousandths=same[0],
            memory_bytes=same[1],
            tasks=tasks,
        )

    def _requests(self, column: dict[str, list[int]]) -> list[tuple[int | None, int | None]]:
        """What each task asks for: thousandths of a processor, rounded up, and bytes."""
        assert self._machine is not None
        cpu, memory_bytes = round(self._machine.cpu * 1000), round(self._machine.memory_gb * 2**30)
        return [
            (
                None if of_cpu < 0 else -(-of_cpu * cpu // BILLIONTHS),
                None if of_memory < 0 else of_memory * memory_bytes // BILLIONTHS,
            )
            for of_cpu, of_memory in zip(column["cpu"], column["memory"], strict=True)
        ]


_TASK_COLUMNS = ("start_us", "machine", "priority", "attempts", "evictions", "lost_us")


def _rows(column: dict[str, list[int]]) -> Iterator[tuple[int, ...]]:
    return zip(*(column[name] for name in _TASK_COLUMNS), strict=True)


def _task(length: tuple[int, Source], row: tuple[int, ...]) -> WorkloadTask:
    start_us, machine, priority, attempts, evictions, lost_us = row
    return WorkloadTask(
        "reduce",
        *length,
        start_ns=start_us * _US if start_us >= 0 else None,
        host=str(machine) if machine >= 0 else None,
        priority=priority,
        attempts=attempts,
        evictions=evictions,
        lost_ns=lost_us * _US,
    )

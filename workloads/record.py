"""The workload schema, version 1: jobs with their tasks, which every importer makes and every tool reads.

A workload is a header and jobs, in any order.  Its file (``workloads.store``) is JSON lines or Parquet.  JSON lines
have the header first and then one job a line.  Parquet has one job a row, and the header under ``natjam_workload`` in
the metadata of the schema.  Columns keep their names and meanings; a version may get new ones.

Times are nanoseconds on the trace's own clock; the header's ``origin`` explains its zero.  A value that the trace does
not record is None.  ``Provenance`` says for each column whether it was measured or modelled, and by which rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

VERSION = 1

Kind = Literal["map", "reduce"]
Source = Literal["measured", "modelled"]
Origin = Literal["zero", "first-submission"]
"""An experiment's time 0: the clock's own zero, or (for epoch times and slices) the first submission."""
Outcome = Literal["succeeded", "failed", "killed"]

JOB_COLUMNS: dict[str, str] = {
    "job": "unique name",
    "submit_ns": "submission",
    "queue": "queue of the scheduler",
    "user": "who submitted it",
    "priority": "larger is more urgent",
    "deadline_ns": "when it must end",
    "memory_bytes": "memory of one container",
    "input_bytes": "what its maps read",
    "shuffle_bytes": "what its maps write for its reduces; 0: map-only",
    "output_bytes": "what it writes as output",
    "start_ns": "when the trace's own scheduler started it",
    "finish_ns": "when it ended in the trace",
    "outcome": "how it ended in the trace: succeeded, failed or killed",
    "cpu_thousandths": "processors that one task asks for, in thousandths",
    "gpu_thousandths": "GPUs that one task asks for, in thousandths",
    "tasks": "its maps and reduces; None: the trace records none, and a model makes them from the bytes",
    "other": "other fields of the trace, kept for export",
}
TASK_COLUMNS: dict[str, str] = {
    "kind": "map or reduce",
    "length_ns": "time of work, without launch and wait for input",
    "source": "whether its length was measured or modelled",
    "start_ns": "when the trace's own scheduler started the run that gave the length",
    "host": "the host of that run",
    "priority": "larger is more urgent",
    "memory_bytes": "memory of its container; if null, as its job says",
    "cpu_thousandths": "processors that it asks for, in thousandths; if null, as its job says",
    "attempts": "runs of it that the trace records",
    "evictions": "runs that the trace's own scheduler ended to make room",
    "lost_ns": "work of all other runs than the one that gave the length",
    "other": "other fields of the trace, kept for export",
}


@dataclass(frozen=True, slots=True)
class WorkloadTask:
    """One map or reduce; fields as in ``TASK_COLUMNS``."""

    kind: Kind
    length_ns: int
    source: Source = "measured"
    start_ns: int | None = None
    host: str | None = None
    priority: int | None = None
    memory_bytes: int | None = None
    cpu_thousandths: int | None = None
    attempts: int | None = None
    evictions: int | None = None
    lost_ns: int | None = None
    other: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class WorkloadJob:
    """One job; fields as in ``JOB_COLUMNS``."""

    job: str
    submit_ns: int
    queue: str | None = None
    user: str | None = None
    priority: int | None = None
    deadline_ns: int | None = None
    memory_bytes: int | None = None
    input_bytes: int | None = None
    shuffle_bytes: int | None = None
    output_bytes: int | None = None
    start_ns: int | None = None
    finish_ns: int | None = None
    outcome: Outcome | None = None
    cpu_thousandths: int | None = None
    gpu_thousandths: int | None = None
    tasks: tuple[WorkloadTask, ...] | None = None
    other: Mapping[str, Any] | None = None

    def lengths_ns(self, kind: Kind) -> tuple[int, ...]:
        """Lengths of its tasks of one kind, in order."""
        return tuple(task.length_ns for task in self.tasks or () if task.kind == kind)


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a column comes from: measured, modelled or mixed, and the rule or recorded field behind it."""

    source: Literal["measured", "modelled", "mixed"]
    rule: str


_RIGID = (
    "rigid parallel jobs are treated as independent tasks, unless their experiment has gangs: true: the processors of a"
    " job start, end and are preempted one by one, so waiting times and losses are not those of the recorded system"
)


@dataclass(frozen=True, slots=True)
class Header:
    """Facts about a workload as a whole."""

    format: str
    """The trace's format, or ``generated``."""
    origin: Origin
    columns: Mapping[str, Provenance]
    """Columns that have values; those of tasks as ``tasks.<name>``."""
    history: tuple[str, ...] = ()
    """The steps that made the workload, oldest first, each with its parameters."""
    starts_measured: bool = False
    """Whether measured lengths of tasks begin with their container, and so include the start of the process."""

    @property
    def caution(self) -> str | None:
        """What simulations of this trace do otherwise than the system that recorded it did; None: nothing known."""
        return _RIGID if self.format in ("swf", "table") else None

    def with_step(self, step: str, **columns: Provenance) -> Header:
        """The header with one more step, which made or changed the given columns (``tasks_length_ns`` for
        ``tasks.length_ns``)."""
        named = {name.replace("tasks_", "tasks.", 1): told for name, told in columns.items()}
        return replace(self, history=(*self.history, step), columns={**self.columns, **named})


@dataclass(slots=True)
class Trace:
    """A workload being read: the header at once, the jobs one by one.

    ``facts`` counts other contents of the format than jobs and tasks (events by type, attempts by result...).  It is
    complete only after all jobs were read.
    """

    header: Header
    jobs: Iterator[WorkloadJob]
    facts: dict[str, Any] = field(default_factory=dict)


def measured(rule: str) -> Provenance:
    """Provenance of a column that a trace records."""
    return Provenance("measured", rule)


def modelled(rule: str) -> Provenance:
    """Provenance of a column that a model gives."""
    return Provenance("modelled", rule)


KINDS, SOURCES, ORIGINS, OUTCOMES = (get_args(of) for of in (Kind, Source, Origin, Outcome))

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
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_type_hints

VERSION = 1

Kind = Literal["map", "reduce"]
Source = Literal["measured", "modelled"]
Origin = Literal["zero", "first-submission"]
"""An experiment's time 0: the clock's own zero, or (for epoch times and slices) the first submission."""
Outcome = Literal["succeeded", "failed", "killed"]

KINDS, SOURCES, ORIGINS, OUTCOMES = (get_args(of) for of in (Kind, Source, Origin, Outcome))


class Column(NamedTuple):
    """What a field means, and the kind of value that it holds, by which ``workloads.codec`` checks it; empty: by
    itself."""

    meaning: str
    holds: str = ""


@dataclass(frozen=True, slots=True)
class WorkloadTask:
    """One map or reduce."""

    kind: Annotated[Kind, Column("map or reduce", "kind")]
    length_ns: Annotated[int, Column("time of work, without launch and wait for input", "length")]
    source: Annotated[Source, Column("whether its length was measured or modelled", "source")] = "measured"
    start_ns: Annotated[
        int | None, Column("when the trace's own scheduler started the run that gave the length", "time")
    ] = None
    host: Annotated[str | None, Column("the host of that run", "text")] = None
    priority: Annotated[int | None, Column("larger is more urgent", "priority")] = None
    memory_bytes: Annotated[int | None, Column("memory of its container; if null, as its job says", "bytes")] = None
    cpu_thousandths: Annotated[
        int | None, Column("processors that it asks for, in thousandths; if null, as its job says", "count")
    ] = None
    attempts: Annotated[int | None, Column("runs of it that the trace records", "count")] = None
    evictions: Annotated[int | None, Column("runs that the trace's own scheduler ended to make room", "count")] = None
    lost_ns: Annotated[int | None, Column("work of all other runs than the one that gave the length", "time")] = None
    other: Annotated[Mapping[str, Any] | None, Column("other fields of the trace, kept for export", "object")] = None


@dataclass(frozen=True, slots=True)
class WorkloadJob:
    """One job."""

    job: Annotated[str, Column("unique name")]
    submit_ns: Annotated[int, Column("submission", "time")]
    queue: Annotated[str | None, Column("queue of the scheduler", "text")] = None
    user: Annotated[str | None, Column("who submitted it", "text")] = None
    priority: Annotated[int | None, Column("larger is more urgent", "priority")] = None
    deadline_ns: Annotated[int | None, Column("when it must end", "time")] = None
    memory_bytes: Annotated[int | None, Column("memory of one container", "bytes")] = None
    input_bytes: Annotated[int | None, Column("what its maps read", "bytes")] = None
    shuffle_bytes: Annotated[int | None, Column("what its maps write for its reduces; 0: map-only", "bytes")] = None
    output_bytes: Annotated[int | None, Column("what it writes as output", "bytes")] = None
    start_ns: Annotated[int | None, Column("when the trace's own scheduler started it", "time")] = None
    finish_ns: Annotated[int | None, Column("when it ended in the trace", "time")] = None
    outcome: Annotated[Outcome | None, Column("how it ended in the trace: succeeded, failed or killed", "outcome")] = (
        None
    )
    cpu_thousandths: Annotated[int | None, Column("processors that one task asks for, in thousandths", "count")] = None
    gpu_thousandths: Annotated[int | None, Column("GPUs that one task asks for, in thousandths", "count")] = None
    master_memory_bytes: Annotated[int | None, Column("memory of its ApplicationMaster's container", "bytes")] = None
    master_cpu_thousandths: Annotated[
        int | None, Column("processors of its ApplicationMaster's container, in thousandths", "count")
    ] = None
    tasks: Annotated[
        tuple[WorkloadTask, ...] | None,
        Column("its maps and reduces; None: the trace records none, and a model makes them from the bytes"),
    ] = None
    other: Annotated[Mapping[str, Any] | None, Column("other fields of the trace, kept for export", "object")] = None

    def lengths_ns(self, kind: Kind) -> tuple[int, ...]:
        """Lengths of its tasks of one kind, in order."""
        return tuple(task.length_ns for task in self.tasks or () if task.kind == kind)


def _columns(record: type) -> dict[str, Column]:
    return {name: hint.__metadata__[0] for name, hint in get_type_hints(record, include_extras=True).items()}


JOB_COLUMNS, TASK_COLUMNS = _columns(WorkloadJob), _columns(WorkloadTask)


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

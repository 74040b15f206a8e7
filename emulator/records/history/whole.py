"""All that the journal of a run tells, as rows."""

from __future__ import annotations

import msgspec

from emulator.records.history.containers import Operation
from emulator.records.history.decisions import Decision
from emulator.records.history.group_rows import GroupRow
from emulator.records.history.rows import AttemptRow, ImageRow, JobRow, TaskRow
from emulator.vocabulary import Frozen


class History(Frozen):
    """What happened in a run, under any engine; the only source of its summary and its Parquet files."""

    jobs: list[JobRow]
    """In the order of the workload."""
    tasks: list[TaskRow]
    """By job, maps before reduces, by number."""
    attempts: list[AttemptRow]
    """By job, ApplicationMaster, maps, reduces, by task and then time."""
    operations: list[Operation]
    """By job and container."""
    checkpoint_bytes: int = 0
    """Written by all checkpoints together."""
    swapped_bytes: int = 0
    """Of all attempts."""
    decisions: list[Decision] = msgspec.field(default_factory=list)
    """Choices of victims, by time."""
    images: list[ImageRow] = msgspec.field(default_factory=list)
    """By job and task, in the order in which they were written."""
    groups: list[GroupRow] = msgspec.field(default_factory=list)
    """Of jobs that have others than maps, reduces and programs, in their order."""

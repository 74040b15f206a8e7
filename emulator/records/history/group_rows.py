"""What a run's summary says of the groups of tasks that a job's file names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from emulator.core.job import JobSpec
from emulator.core.messages import Outcome
from emulator.records.history.rows import TaskRow, sums_over
from emulator.vocabulary import MAP, REDUCE, TASKS, Frozen

_USUAL = frozenset({MAP, REDUCE, TASKS})


class GroupRow(Frozen):
    """One group of tasks of a job; counts are sums over its tasks."""

    job: str
    """Name of its job."""
    group: str
    """Its name."""
    tasks: int
    """How many it has."""
    succeeded: int
    """How many of them have succeeded."""
    start_ns: int | None
    """First work of its first task.  None: it has not begun."""
    finish_ns: int | None
    """End of its last task.  None: not all have succeeded."""
    attempts: int
    """How many there were at its tasks."""
    suspensions: int
    """How often its tasks were stopped or saved a checkpoint."""
    kills: int
    """Attempts killed to give their container to another job."""
    useful_ns: int
    """Active time that counts, because the attempt succeeded or saved a checkpoint."""
    lost_work_ns: int
    """Active time without a result."""


def group_rows(spec: JobSpec, tasks: Sequence[TaskRow]) -> Iterator[GroupRow]:
    """The groups of a job that has others than maps, reduces and programs; ``tasks`` are its own."""
    groups = spec.facts.groups
    for group in groups if any(each.name not in _USUAL for each in groups) else ():
        mine = [task for task in tasks if task.kind == group.name]
        starts_ns = [task.start_ns for task in mine if task.start_ns is not None]
        ends_ns = [task.finish_ns for task in mine if task.finish_ns is not None]
        yield GroupRow(
            job=spec.name,
            group=group.name,
            tasks=group.count,
            succeeded=sum(task.outcome is Outcome.SUCCEEDED for task in mine),
            start_ns=min(starts_ns, default=None),
            finish_ns=max(ends_ns, default=None) if len(ends_ns) == len(mine) else None,
            **sums_over(mine),
        )

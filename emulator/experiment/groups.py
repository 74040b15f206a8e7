"""The groups of a job's tasks, from the job's entry in an experiment file."""

from __future__ import annotations

from emulator.vocabulary import TASKS, StartsAfter, TaskGroup, map_reduce
from workloads.schema import GroupEntry, JobEntry

BYTES_PER_GB = 2**30


def groups_of(entry: JobEntry) -> tuple[TaskGroup, ...]:
    """The job's maps and reduces, its programs, or the groups that its entry names."""
    if entry.groups is not None:
        return tuple(map(_group, entry.groups))
    if entry.tasks is not None:
        return (TaskGroup(TASKS, entry.tasks.count),)
    return map_reduce(entry.maps, entry.reduces)


def _group(entry: GroupEntry) -> TaskGroup:
    after = entry.starts_after
    return TaskGroup(
        name=entry.name,
        count=entry.count,
        may_be_victim=entry.may_be_victim,
        minimum=entry.minimum,
        starts_after=None if after is None else StartsAfter(after.group, round(after.share * 1_000_000)),
        task_memory_bytes=task_memory_bytes(entry.memory_gb),
    )


def task_memory_bytes(memory_gb: float | tuple[float, ...] | None) -> tuple[int, ...]:
    """The memory of tasks as files have it, in bytes."""
    if memory_gb is None:
        return ()
    sizes_gb = memory_gb if isinstance(memory_gb, tuple) else (memory_gb,)
    return tuple(int(size_gb * BYTES_PER_GB) for size_gb in sizes_gb)

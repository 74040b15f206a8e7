"""The groups of a job's tasks, from the job's entry in an experiment file, and their checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from emulator.files.problems import Problem, suggestion
from emulator.files.yaml_values import Location
from emulator.vocabulary import TASKS, StartsAfter, TaskGroup, map_reduce
from workloads.schema import MAX_KEYS, GroupEntry, JobEntry, longest_s

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
        starts_after=None if after is None else StartsAfter(after.group, round(after.share * 1_000_000)),
        task_memory_bytes=task_memory_bytes(entry.memory_gb),
    )


def task_memory_bytes(memory_gb: float | tuple[float, ...] | None) -> tuple[int, ...]:
    """The memory of tasks as files have it, in bytes."""
    if memory_gb is None:
        return ()
    sizes_gb = memory_gb if isinstance(memory_gb, tuple) else (memory_gb,)
    return tuple(int(size_gb * BYTES_PER_GB) for size_gb in sizes_gb)


def group_problems(where: Location, job: JobEntry, container_memory_gb: float | None) -> Iterator[Problem]:
    """What is wrong with the groups of a job; ``where`` the job is in its file."""
    by_name: dict[str, GroupEntry] = {}
    for index, group in enumerate(job.groups or ()):
        here: Location = (*where, "groups", index)
        if group.name in by_name:
            yield (*here, "name"), f"'{group.name}' is the name of an earlier group; change one"
        by_name.setdefault(group.name, group)
        if longest_s(group.length_s) > MAX_KEYS * job.key_s:
            yield (*here, "length_s"), f"a task would walk over {MAX_KEYS} keys; raise key_s"
        held_gb = max(group.memory_gb) if isinstance(group.memory_gb, tuple) else group.memory_gb or 0
        if container_memory_gb is not None and held_gb > container_memory_gb:
            yield (
                (*here, "memory_gb"),
                f"a task that holds {held_gb:g} GB does not fit a container of {container_memory_gb:g} GB;"
                " raise container_memory_gb",
            )
    waits_for = {name: group.starts_after.group for name, group in by_name.items() if group.starts_after is not None}
    for index, group in enumerate(job.groups or ()):
        place: Location = (*where, "groups", index, "starts_after", "group")
        if group.starts_after is None:
            continue
        if group.starts_after.group not in by_name:
            near = suggestion(group.starts_after.group, by_name)
            yield place, f"'{job.name}' has no group '{group.starts_after.group}'{near}"
        elif waits_for_itself(group.name, waits_for):
            yield place, f"'{group.name}' waits for itself; remove one starts_after"


def waits_for_itself(name: str, waits_for: Mapping[str, str]) -> bool:
    """Whether ``name`` is among those that it waits for, or waits for a circle of others; ``waits_for``: by name, the
    one that each waits for, if any."""
    seen = {name}
    next_name = waits_for.get(name)
    while next_name is not None and next_name not in seen:
        seen.add(next_name)
        next_name = waits_for.get(next_name)
    return next_name is not None

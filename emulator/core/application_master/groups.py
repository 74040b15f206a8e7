"""The groups of a job: their tasks, how many have succeeded, and which groups may start (slow start).

Theory of operation
-------------------
A group's containers are requested all at once, as soon as enough tasks of the group that it starts after have
succeeded; those of a job with a gang, when it starts.  The job is done when all tasks that walk keys are; a job without
any, when its maps are.
"""

from __future__ import annotations

from itertools import chain

from emulator.core.application_master.task import Task
from emulator.core.job import JobSpec
from emulator.vocabulary import TaskGroup, Work

_PPM = 1_000_000


class Groups:
    """Part of one ApplicationMaster; see the module's theory of operation."""

    def __init__(self, spec: JobSpec, slow_start_ppm: int) -> None:
        self.tasks = {group.name: _tasks_of(spec, group) for group in spec.facts.groups}
        """By the name of their group, in the order of the groups."""
        tasks = list(chain.from_iterable(self.tasks.values()))
        self.maps = [task for task in tasks if task.group.work is Work.SHUFFLE]
        """Tasks that write output for the shuffle."""
        self.walkers = [task for task in tasks if task.group.work is Work.KEYS]
        """Tasks that walk keys."""
        self.maps_done = 0
        self.walkers_done = 0
        self._succeeded = dict.fromkeys(self.tasks, 0)
        self._slow_start_ppm = slow_start_ppm
        self._not_started = list(spec.facts.groups)
        self._at_once = spec.facts.gang is not None

    @property
    def done(self) -> bool:
        """Whether the job is done."""
        return self.walkers_done == len(self.walkers) if self.walkers else self.maps_are_done

    @property
    def unfinished(self) -> int:
        """Tasks that have not succeeded."""
        return len(self.maps) + len(self.walkers) - self.maps_done - self.walkers_done

    @property
    def maps_are_done(self) -> bool:
        """Whether the output of every map is there."""
        return self.maps_done == len(self.maps)

    def count(self, task: Task, change: int) -> None:
        """A task has succeeded (1), or its output is lost (-1)."""
        self._succeeded[task.group.name] += change
        if task.keys_total:
            self.walkers_done += change
        else:
            self.maps_done += change

    def start(self) -> list[Task]:
        """The tasks of the groups that may start now; each group starts once."""
        starting = [group for group in self._not_started if self._may_start(group)]
        for group in starting:
            self._not_started.remove(group)
        return [task for group in starting for task in self.tasks[group.name]]

    def _may_start(self, group: TaskGroup) -> bool:
        after = group.starts_after
        if after is None or self._at_once:
            return True
        share_ppm = self._slow_start_ppm if after.share_ppm is None else after.share_ppm
        return self._succeeded[after.group] * _PPM >= len(self.tasks[after.group]) * share_ppm


def _tasks_of(spec: JobSpec, group: TaskGroup) -> list[Task]:
    first, held_by = spec.facts.index_of(group.name, 0), spec.facts.held_by
    keys = spec.reduce_keys[first : first + group.count] if group.work is Work.KEYS else (0,) * group.count
    return [
        Task(spec.name, group, number, first + number, keys[number], held_by(group.name, number))
        for number in range(group.count)
    ]

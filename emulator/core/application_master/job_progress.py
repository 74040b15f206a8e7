"""A job's progress as Hadoop reports it, and its remaining time at that rate (natjam, section 4: MLF).

In its heartbeats, Hadoop 0.23's ApplicationMaster counts 5% for the set-up of a job and 5% for its clean-up.  The rest
is the mean progress of its maps and of its reduces, 45% each, or 90% if a job has only one kind.  The set-up is done
when the master can report at all, the clean-up when the job has ended.  One third of a reduce is copying its input, one
third is merging it, and the rest is walking its keys.  Whole millionths: no float may decide an order.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from emulator.core.application_master.task import Task, TaskState
from emulator.policies.resources import WHOLE_PPM

_SETUP_PPM = 50_000
_TASKS_PPM = 900_000
_INPUT_PPM = 666_667
"""Progress of a reduce that has its input."""
_estimated_keys = attrgetter("estimate.keys_done")


def progress_ppm(maps: Sequence[Task], reduces: Sequence[Task]) -> int:
    """Progress of a running job from its tasks; a map counts when it is done, a reduce from its first key on."""
    maps_ppm = sum([task.state is TaskState.SUCCEEDED for task in maps]) * WHOLE_PPM
    sums = ((maps_ppm, maps), (sum(map(_reduce_ppm, reduces)), reduces))
    parts = [sum_ppm * _TASKS_PPM // len(tasks) // WHOLE_PPM for sum_ppm, tasks in sums if tasks]
    return _SETUP_PPM + sum(parts) // max(1, len(parts))


def work_ppm(tasks: Sequence[Task]) -> int:
    """Share of the tasks' work that is done: for a reduce, its share of keys; a map counts when it is done."""
    return sum(map(_walked_ppm, tasks)) // len(tasks)


def _walked_ppm(task: Task) -> int:
    if task.state is TaskState.SUCCEEDED:
        return WHOLE_PPM
    return _keys_done(task) * WHOLE_PPM // task.keys_total if task.keys_total and task.attempts else 0


def _keys_done(task: Task) -> int:
    saved = task.saved.keys_done if task.saved else 0
    return max(saved, *map(_estimated_keys, task.open_attempts))


def _reduce_ppm(task: Task) -> int:
    if task.state is TaskState.SUCCEEDED:
        return WHOLE_PPM
    if not task.keys_total or not task.attempts:
        return 0
    keys_done = _keys_done(task)
    if not keys_done and task.attempt.estimate.at_ns is None:
        return 0
    return _INPUT_PPM + keys_done * (WHOLE_PPM - _INPUT_PPM) // task.keys_total


def remaining_ns(progress: int, elapsed_ns: int) -> int | None:
    """Time to the end of a job that took ``elapsed_ns`` to reach ``progress`` (millionths), at the same mean rate."""
    return elapsed_ns * (WHOLE_PPM - progress) // progress if progress else None

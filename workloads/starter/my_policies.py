"""Your own policies; an experiment file in this directory names one as ``my_policies:newest``.

A policy is a function of a view of the cluster.  'natjam policies' lists the axes.  ``help(natjam.TaskView)`` in Python
shows the fields of a task; docs/policies.md has an example for each axis.
"""

from __future__ import annotations

from random import Random

from natjam import ClusterView, TaskView


def newest(view: ClusterView, tasks: tuple[TaskView, ...], random: Random) -> list[str]:
    """Task eviction: the task launched last is evicted first, as in YARN, because it has the least to lose."""
    return [task.container for task in sorted(tasks, key=lambda task: (-task.started_ns, task.container))]

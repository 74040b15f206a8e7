"""Policies of your own, named as ``my_policies:newest`` in an experiment file beside this one.

A policy is a function of a view of the cluster; 'natjam policies' lists the axes, and
``emulator.policies.policy`` says what each is given and returns.
"""

from __future__ import annotations

from random import Random

from emulator.policies.views import ClusterView, TaskView


def newest(view: ClusterView, tasks: tuple[TaskView, ...], random: Random) -> list[str]:
    """Task eviction: the task that was launched last goes first, as in YARN: it has the least to lose."""
    return [task.container for task in sorted(tasks, key=lambda task: (-task.started_ns, task.container))]

"""Room on one node: where containers of several sizes are taken back, and which.

Theory of operation
-------------------
Jobs that may lose a container are ranked by the job eviction policy, the least urgent queue's first.  Which of its
tasks a job gives, it chooses itself, so here they come in any order; those that are named come in that of the task
eviction policy.  The ResourceManager sees no progress of tasks, and every view is of now.  On each node the first of
them are taken until the request fits there; tasks that make nothing free of what is lacking are passed over.  Then
every one is left out that is not needed, the last in the order first.  So what is taken is irreducible: with any one
less it is too little.

Of the nodes where that is enough, the one is chosen whose last victim job in the order, the one to be spared longest,
comes earliest (the last victim task, where tasks are ranked across jobs); then the one with the fewest victims; then
the one where least is taken, by the dominant share of the cluster; then the first in the order of the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from emulator.policies.resources import dominant_ppm, irreducible, lacking, total
from emulator.policies.views import TaskView
from emulator.vocabulary import Resources


class Taken(NamedTuple):
    """The tasks that make room on a node."""

    node: str
    tasks: tuple[TaskView, ...]
    short: Resources = ()
    """What is lacking there without them."""


def choose_room(
    request: Resources,
    spare: Mapping[str, Resources],
    ranked: Sequence[TaskView],
    frees: Callable[[TaskView], Resources],
    whole: Resources,
    across_jobs: bool = False,
) -> Taken | None:
    """Where room for ``request`` is made, and by which of the tasks, which are ``ranked`` in the order of eviction;
    None: nowhere.  ``spare``: what the nodes in question have already; ``whole``: what the cluster has;
    ``across_jobs``: whether the order is one of tasks, not of jobs."""
    in_order = dict.fromkeys([task.container if across_jobs else task.job for task in ranked])
    ranks = {name: rank for rank, name in enumerate(in_order)}
    by_node: dict[str, list[TaskView]] = {name: [] for name in spare}
    for task in ranked:
        if task.node in by_node:
            by_node[task.node].append(task)
    best: tuple[tuple[int, int, int], Taken] | None = None
    for name, there in spare.items():
        short = lacking(request, there)
        tasks = irreducible(short, by_node[name], frees)
        if tasks is None:
            continue
        last = max([ranks[task.container if across_jobs else task.job] for task in tasks], default=-1)
        rank = last, len(tasks), dominant_ppm(total(map(frees, tasks), whole), whole)
        if best is None or rank < best[0]:
            best = rank, Taken(name, tasks, short)
    return None if best is None else best[1]

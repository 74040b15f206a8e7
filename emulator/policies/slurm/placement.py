"""Which nodes a job gets (``select/cons_tres`` with ``CR_CPU``).

A job on one node gets the one with the least free CPUs that suffice.  A larger one gets the first nodes of the smallest
set of consecutive nodes that suffices, in the order of ``slurm.conf`` (topology.html: "best-fit", on nodes as a
one-dimensional array); if there is none, the first nodes of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from emulator.policies.slurm.snapshot import Waiting


def place(
    waiting: Waiting, free: Mapping[str, int], nodes: Iterable[str], order: Mapping[str, int]
) -> tuple[str, ...] | None:
    """The nodes for a job, in their order; None if there are too few among ``nodes``.

    ``free`` are the free CPUs of each node, ``order`` the place of each in ``slurm.conf``.
    """
    job, stopped_on = waiting.job, waiting.stopped_on
    fits = [node for node in nodes if free[node] >= job.cpus]
    if len(fits) < job.nodes or not stopped_on <= set(fits):
        return None
    fits.sort(key=order.__getitem__)
    if stopped_on:
        others = [node for node in fits if node not in stopped_on]
        return tuple(sorted([*stopped_on, *others[: job.nodes - len(stopped_on)]], key=order.__getitem__))
    enough = [run for run in _runs(fits, order) if len(run) >= job.nodes]
    found = min(enough, key=len, default=fits)
    if job.nodes == 1:
        return (min(found, key=free.__getitem__),)
    return tuple(found[: job.nodes])


def _runs(nodes: list[str], order: Mapping[str, int]) -> list[list[str]]:
    """Sets of consecutive nodes."""
    runs: list[list[str]] = []
    for node in nodes:
        if runs and order[node] == order[runs[-1][-1]] + 1:
            runs[-1].append(node)
        else:
            runs.append([node])
    return runs

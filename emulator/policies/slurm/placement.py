"""Which nodes a job gets (``select/cons_tres``).

A job on one node gets the one with the least free CPUs that suffice.  A larger one gets the first nodes of the smallest
set of consecutive nodes that suffices, in the order of ``slurm.conf`` (topology.html: "best-fit", on nodes as a
one-dimensional array); if there is none, the first nodes of all.  Sets of nodes are whole numbers, as in ``FreeTimes``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from emulator.policies.slurm.snapshot import Snapshot, Waiting
from emulator.sites.slurm import Amounts


def place(snapshot: Snapshot, waiting: Waiting, fitting: int, free: Callable[[str], Amounts]) -> tuple[str, ...] | None:
    """The nodes for a job, in their order; None if there are too few among ``fitting``, which have what it needs.

    ``free`` says what is free of a node.
    """
    needed, must = waiting.job.nodes, snapshot.mask(waiting.stopped_on)
    if fitting.bit_count() < needed or must & ~fitting:
        return None
    if must:
        others = _first(fitting & ~must, needed - must.bit_count())
        return tuple(snapshot.names(must | others))
    enough = [run for run in _runs(fitting) if run.bit_count() >= needed]
    found = min(enough, key=lambda run: sum(free(node)[0] for node in snapshot.names(run)), default=fitting)
    if needed == 1:
        return (min(snapshot.names(found), key=lambda node: free(node)[0]),)
    return tuple(snapshot.names(_first(found, needed)))


def _runs(nodes: int) -> Iterator[int]:
    """Sets of consecutive nodes, in their order."""
    while nodes:
        rest = nodes & (nodes + (nodes & -nodes))  # the carry of the lowest node runs through its neighbours
        yield nodes & ~rest
        nodes = rest


def _first(nodes: int, count: int) -> int:
    """The first of a set of nodes."""
    rest = nodes
    for _ in range(count):
        rest &= rest - 1
    return nodes & ~rest

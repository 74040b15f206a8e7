"""Which nodes a job gets (``select/cons_tres`` with ``CR_CPU``).

A job on one node gets the one with the least free CPUs that suffice.  A larger one gets the first nodes of the smallest
set of consecutive nodes that suffices, in the order of ``slurm.conf`` (topology.html: "best-fit", on nodes as a
one-dimensional array); if there is none, the first nodes of all.

Sets of nodes are whole numbers, as in ``room``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from emulator.policies.slurm.snapshot import Snapshot, Waiting


def place(snapshot: Snapshot, waiting: Waiting, fits: int, free: Callable[[str], int]) -> tuple[str, ...] | None:
    """The nodes for a job, in their order; None if there are too few among ``fits``, which have the CPUs it needs.

    ``free`` says the free CPUs of a node.
    """
    needed, must = waiting.job.nodes, snapshot.mask(waiting.stopped_on)
    if fits.bit_count() < needed or must & ~fits:
        return None
    if must:
        others = _first(fits & ~must, needed - must.bit_count())
        return tuple(snapshot.names(must | others))
    enough = [run for run in _runs(fits) if run.bit_count() >= needed]
    found = min(enough, key=int.bit_count, default=fits)
    if needed == 1:
        return (min(snapshot.names(found), key=free),)
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

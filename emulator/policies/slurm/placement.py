"""Which nodes a job gets (``select/cons_tres``).

A job gets nodes of a set of consecutive nodes, in the order of ``slurm.conf``: of the sets that suffice the one with
the fewest free CPUs, as recorded (topology.html: "best-fit", on nodes as a one-dimensional array); if there is none, of
all nodes.  Of the set a job on one node gets that with the least free CPUs, a larger one the first.  Only nodes of the
lowest ``Weight`` are looked at; if they do not suffice those of the next one too, and so on (slurm.conf's page).  Where
jobs share CPUs (``OverSubscribe=FORCE:n``), nodes with enough idle ones go first, else those with the least load
(cons_tres_share.html; no record shows it).  Sets of nodes are whole numbers, as in ``FreeTimes``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from emulator.policies.slurm.snapshot import Snapshot, Waiting
from emulator.sites.slurm import Amounts


def place(snapshot: Snapshot, waiting: Waiting, fitting: int, free: Callable[[str], Amounts]) -> tuple[str, ...] | None:
    """The nodes for a job, in their order; None if there are too few among ``fitting``, which have what it needs.

    ``free`` says what is free of a node.
    """
    needed, must = waiting.job.nodes, snapshot.mask(waiting.stopped_on) if waiting.stopped_on else 0
    if fitting.bit_count() < needed or must & ~fitting:
        return None
    if must:
        others = _first(fitting & ~must, needed - must.bit_count())
        return tuple(snapshot.names(must | others))
    fitting = next(light for nodes in snapshot.up_to_weight if (light := fitting & nodes).bit_count() >= needed)
    if snapshot.shared & fitting:
        idle = _idle(snapshot, fitting, waiting.job.cpus, free)
        if idle.bit_count() < needed:
            return _least_loaded(snapshot, fitting, needed, free)
        fitting = idle
    enough = _runs(fitting, needed)
    found = _smallest(snapshot, enough, waiting.job.cpus, free) if len(enough) > 1 else (*enough, fitting)[0]
    if needed == 1:
        return (min(snapshot.names(found), key=lambda node: free(node)[0]),)
    return tuple(snapshot.names(_first(found, needed)))


def _idle(snapshot: Snapshot, nodes: int, cpus: int, free: Callable[[str], Amounts]) -> int:
    """Those that have so many CPUs which no job has."""
    unused = (
        (node, free(node)[0] - snapshot.amounts_of[node][0] + snapshot.at_once[node][0])
        for node in snapshot.names(nodes)
    )
    return snapshot.mask(node for node, number in unused if number >= cpus)


def _least_loaded(snapshot: Snapshot, nodes: int, count: int, free: Callable[[str], Amounts]) -> tuple[str, ...]:
    """The nodes whose CPUs the fewest jobs have, for each CPU."""
    names = sorted(snapshot.names(nodes), key=lambda node: -free(node)[0] / snapshot.amounts_of[node][0])
    return tuple(snapshot.names(snapshot.mask(names[:count])))


def _smallest(snapshot: Snapshot, runs: Iterable[int], cpus: int, free: Callable[[str], Amounts]) -> int:
    """The first of those with the fewest free CPUs; ``cpus`` are free of each node at least, so that most are not
    counted."""
    found, fewest = 0, 0
    for run in runs:
        if not found or run.bit_count() * cpus < fewest:
            count = sum(free(node)[0] for node in snapshot.names(run))
            if not found or count < fewest:
                found, fewest = run, count
    return found


def _runs(nodes: int, least: int) -> list[int]:
    """Sets of so many consecutive nodes or more, in their order."""
    found: list[int] = []
    while nodes:
        rest = nodes & (nodes + (nodes & -nodes))  # the carry of the lowest node runs through its neighbours
        if (run := nodes ^ rest).bit_count() >= least:
            found.append(run)
        nodes = rest
    return found


def _first(nodes: int, count: int) -> int:
    """The first of a set of nodes."""
    rest = nodes
    for _ in range(count):
        rest &= rest - 1
    return nodes & ~rest

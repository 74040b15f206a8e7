"""The main scheduler: jobs in the order of tier, priority and JobId; who does not fit blocks those behind it.

A blocked job blocks the rest of its partition, and the partition's nodes for all lower tiers: only backfill looks at
those jobs (sched_config.html).

Which nodes a job gets follows ``select/cons_tres`` with ``CR_CPU``.  A job on one node gets the one with the least free
CPUs that suffice.  A larger one gets the first nodes of the smallest set of consecutive nodes that suffices, in the
order of ``slurm.conf`` (topology.html: "best-fit", on nodes as a one-dimensional array); if there is none, the first
nodes of all.  Sets of nodes are whole numbers, as in ``Snapshot.room``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum

from emulator.policies.slurm.preemption import stopped_for, victims
from emulator.policies.slurm.snapshot import Running, Snapshot, Waiting
from emulator.vocabulary import Frozen


class Outcome(StrEnum):
    """What became of a job in a pass."""

    STARTS = "starts"
    PREEMPTS = "preempts"
    """It starts when its victims are gone."""
    AWAITS_VICTIMS = "awaits victims"
    """Those that are in their grace make room for it."""
    WAITS = "waits"


class Decision(Frozen):
    """One decision of a pass."""

    job: str
    outcome: Outcome
    nodes: tuple[str, ...] = ()
    """Where it starts, or will start by what is known now."""
    victims: tuple[str, ...] = ()
    at_ns: int | None = None
    """Backfill: when it is planned to start; None: beyond the window."""
    why: str = ""
    """In words: why it waits."""


def main_pass(snapshot: Snapshot, now_ns: int, limit: int | None = None) -> Iterator[Decision]:
    """Look once at the first ``most`` pending jobs, or at all.  The caller carries out each decision in ``snapshot``
    before it takes the next."""
    blocked: set[str] = set()
    taken = 0
    for job in snapshot.pending(now_ns, limit):
        partition = job.partition.name
        if partition in blocked:
            continue
        decision = decide(snapshot, job, snapshot.nodes_of[partition] & ~taken, now_ns)
        if decision.outcome is not Outcome.STARTS:
            blocked.add(partition)
            taken |= snapshot.nodes_of[partition]
        yield decision


def decide(snapshot: Snapshot, job: Waiting, nodes: int, now_ns: int) -> Decision:
    """Whether ``job`` can start on some of ``nodes`` now: free ones, or over stopped jobs, or when victims are gone."""
    name, settings = job.job.name, snapshot.cluster.settings
    found, fits = None, snapshot.free_cpu_times(job.job.cpus).now & nodes
    stops = stopped_for(snapshot, job)
    if fits.bit_count() >= job.job.nodes:
        found = place(snapshot, job, fits, snapshot.free.__getitem__)
    elif stops:
        found = _place_without(snapshot, job, nodes, stops)
    if found is not None:
        return Decision(name, Outcome.STARTS, found)
    if not settings.preempts:
        return Decision(name, Outcome.WAITS, why=too_few(snapshot, job, nodes))
    going = victims(snapshot, job, nodes, now_ns)
    if going is None:
        return Decision(name, Outcome.WAITS, why=too_few(snapshot, job, nodes) + ", and no victims would make room")
    told = [each for each in going if not each.preempted or each.end_ns <= now_ns]
    if not told:
        return Decision(name, Outcome.AWAITS_VICTIMS, why="its victims have not gone yet")
    where = _place_without(snapshot, job, nodes, [*stops, *going, *snapshot.going.values()]) or ()
    return Decision(name, Outcome.PREEMPTS, where, tuple(each.waiting.job.name for each in told))


def _place_without(snapshot: Snapshot, job: Waiting, nodes: int, gone: Iterable[Running]) -> tuple[str, ...] | None:
    """Where a job would be if these had left."""
    free = snapshot.free_without(gone)
    fits = snapshot.mask(node for node in snapshot.names(nodes) if free[node] >= job.job.cpus)
    return place(snapshot, job, fits, free.__getitem__)


def too_few(snapshot: Snapshot, job: Waiting, nodes: int) -> str:
    """Why a job has no room on these nodes."""
    fit = (snapshot.free_cpu_times(job.job.cpus).now & nodes).bit_count()
    what = f"{fit} of {nodes.bit_count()} nodes have {job.job.cpus} free CPUs, it needs {job.job.nodes}"
    left_out = len(job.partition.nodes) - nodes.bit_count()
    return what + (f"; {left_out} nodes are kept for jobs before it" if left_out else "")


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

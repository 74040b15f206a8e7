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
from emulator.policies.slurm.snapshot import KEPT_FROM, Running, Snapshot, Waiting
from emulator.sites.slurm import Amounts, fits
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
        decision = decide(snapshot, job, snapshot.nodes_for(job) & ~taken, now_ns)
        if decision.outcome is not Outcome.STARTS:
            blocked.add(partition)
            taken |= snapshot.nodes_of[partition]
        yield decision


def decide(snapshot: Snapshot, job: Waiting, nodes: int, now_ns: int) -> Decision:
    """Whether ``job`` can start on some of ``nodes`` now: free ones, or over stopped jobs, or when victims are gone."""
    name, settings = job.job.name, snapshot.cluster.settings
    found, fitting = None, snapshot.free_times(job.amounts).now & nodes
    stops = stopped_for(snapshot, job)
    if fitting.bit_count() >= job.job.nodes:
        found = place(snapshot, job, fitting, snapshot.free.__getitem__)
    elif stops:
        found = _place_without(snapshot, job, nodes, (), stops)
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
    where = _place_without(snapshot, job, nodes, [*going, *snapshot.going.values()], stops) or ()
    return Decision(name, Outcome.PREEMPTS, where, tuple(each.waiting.job.name for each in told))


def _place_without(
    snapshot: Snapshot, job: Waiting, nodes: int, gone: Iterable[Running], stopped: Iterable[Running]
) -> tuple[str, ...] | None:
    """Where a job would be if these had left, and those were stopped."""
    free = snapshot.free_without(gone, stopped)
    fitting = snapshot.mask(node for node in snapshot.names(nodes) if fits(free[node], job.amounts))
    return place(snapshot, job, fitting, free.__getitem__)


def too_few(snapshot: Snapshot, job: Waiting, nodes: int) -> str:
    """Why a job has no room on these nodes."""
    fit = (snapshot.free_times(job.amounts).now & nodes).bit_count()
    kept = list(zip(snapshot.resources, job.amounts, strict=True))[KEPT_FROM:]
    more = "".join(f" and {amount} {name}" for name, amount in kept if amount)
    what = f"{fit} of {nodes.bit_count()} nodes have {job.job.cpus} free CPUs{more}, it needs {job.job.nodes}"
    left_out = snapshot.nodes_for(job).bit_count() - nodes.bit_count()
    return what + (f"; {left_out} nodes are kept for jobs before it" if left_out else "")


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
    found = min(enough, key=int.bit_count, default=fitting)
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

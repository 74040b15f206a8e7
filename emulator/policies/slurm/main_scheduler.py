"""The main scheduler: jobs in the order of tier, priority and JobId; who does not fit blocks those behind it.

A blocked job blocks the rest of its partition, and the partition's nodes for all lower tiers: only backfill looks at
those jobs (sched_config.html).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from emulator.policies.slurm.decisions import Decision, Outcome
from emulator.policies.slurm.placement import place
from emulator.policies.slurm.preemption import stopped_for, victims
from emulator.policies.slurm.snapshot import Running, Snapshot, Waiting


def main_pass(snapshot: Snapshot, now_ns: int, most: int | None = None) -> Iterator[Decision]:
    """Look once at the first ``most`` pending jobs, or at all.  The caller carries out each decision in ``snapshot``
    before it takes the next."""
    blocked: set[str] = set()
    taken = 0
    for job in snapshot.pending(now_ns, most):
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
    found, fits = None, snapshot.room(job.job.cpus).now & nodes
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
    fit = (snapshot.room(job.job.cpus).now & nodes).bit_count()
    what = f"{fit} of {nodes.bit_count()} nodes have {job.job.cpus} free CPUs, it needs {job.job.nodes}"
    left_out = len(job.partition.nodes) - nodes.bit_count()
    return what + (f"; {left_out} nodes are kept for jobs before it" if left_out else "")

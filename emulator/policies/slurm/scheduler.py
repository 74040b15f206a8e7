"""The main scheduler: jobs in the order of tier, priority and JobId; who does not fit blocks those behind it.

A blocked job blocks the rest of its partition, and the partition's nodes for all lower tiers: only backfill looks at
those jobs (sched_config.html).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from emulator.policies.slurm.decisions import Decision, Outcome
from emulator.policies.slurm.placement import place
from emulator.policies.slurm.preemption import victims
from emulator.policies.slurm.snapshot import Snapshot, Waiting


def main_pass(snapshot: Snapshot, now_ns: int) -> Iterator[Decision]:
    """Look at the pending jobs once.  The caller carries out each decision in ``snapshot`` before it takes the next."""
    blocked: set[str] = set()
    taken: set[str] = set()
    for job in snapshot.pending(now_ns)[: snapshot.cluster.settings.default_queue_depth]:
        if job.partition.name in blocked:
            continue
        nodes = [node for node in job.partition.nodes if node not in taken]
        decision = decide(snapshot, job, nodes, now_ns)
        if decision.outcome in (Outcome.WAITS, Outcome.AWAITS_VICTIMS):
            blocked.add(job.partition.name)
            taken.update(job.partition.nodes)
        yield decision


def decide(snapshot: Snapshot, job: Waiting, nodes: Sequence[str], now_ns: int) -> Decision:
    """Whether ``job`` can start on some of ``nodes`` now: free ones, or over stopped jobs, or when victims are gone."""
    name, settings = job.job.name, snapshot.cluster.settings
    found = place(job.job, snapshot.free, nodes, snapshot.order)
    if found is None and settings.preempts and settings.gang:
        found = place(job.job, snapshot.free_of(job.partition.tier), nodes, snapshot.order)
    if found is not None:
        return Decision(name, Outcome.STARTS, found)
    if not settings.preempts:
        return Decision(name, Outcome.WAITS, why=_short(snapshot, job, nodes))
    going = victims(snapshot, job, nodes, now_ns)
    if going is None:
        return Decision(name, Outcome.WAITS, why=_short(snapshot, job, nodes) + ", and no victims would make room")
    if not going:
        return Decision(name, Outcome.AWAITS_VICTIMS, why="its victims are in their grace")
    free = snapshot.free_without([*going, *snapshot.leaving()])
    where = place(job.job, free, nodes, snapshot.order) or ()
    return Decision(name, Outcome.PREEMPTS, where, tuple(each.waiting.job.name for each in going))


def _short(snapshot: Snapshot, job: Waiting, nodes: Sequence[str]) -> str:
    fit = sum(snapshot.free[node] >= job.job.cpus for node in nodes)
    what = f"{fit} of {len(nodes)} nodes have {job.job.cpus} free CPUs, it needs {job.job.nodes}"
    left_out = len(job.partition.nodes) - len(nodes)
    return what + (f"; {left_out} nodes are kept for jobs before it" if left_out else "")

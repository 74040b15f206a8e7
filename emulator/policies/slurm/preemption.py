"""Who must go for a job that has no room (``preempt/partition_prio`` with ``select/cons_tres``).

Candidates are the running jobs of lower tiers whose partition allows it, lowest tier first, then by JobId.  They are
taken away one after another until the job fits; whoever is not needed for that stays.  Then the same is tried in
another order: the one that made it fit first, then those on the most nodes, then those with the most CPUs
(``preempt_reorder_count`` times); it is taken if fewer go.  The orders are inferred from the recorded runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from emulator.policies.slurm.model import Mode
from emulator.policies.slurm.placement import place
from emulator.policies.slurm.snapshot import Running, Snapshot, Waiting


def candidates(snapshot: Snapshot, job: Waiting, now_ns: int) -> list[Running]:
    """The jobs that may go for ``job``, first to go first; without those that are going already."""
    settings = snapshot.cluster.settings
    found = [
        each
        for each in snapshot.running.values()
        if each.tier < job.partition.tier
        and each.waiting.partition.mode in (Mode.CANCEL, Mode.REQUEUE)
        and not each.preempted
        and now_ns - each.start_ns >= settings.exempt_ns
    ]
    if settings.youngest_first:
        return sorted(found, key=lambda each: (each.tier, -each.start_ns, -each.waiting.number))
    return sorted(found, key=lambda each: (each.tier, each.waiting.number))


def victims(snapshot: Snapshot, job: Waiting, nodes: Sequence[str], now_ns: int) -> list[Running] | None:
    """Who must go so that ``job`` fits on ``nodes``; nobody if those suffice who are going already; None: it cannot."""
    settings = snapshot.cluster.settings
    order = candidates(snapshot, job, now_ns)
    best = _needed(snapshot, job, nodes, order)
    if not best or settings.strict_order:
        return best
    found = best
    for _ in range(settings.reorder_count):
        last = found[-1]
        rest = sorted((each for each in order if each is not last), key=lambda each: (-len(each.nodes), -each.cpus))
        order = [last, *rest]
        found = _needed(snapshot, job, nodes, order)
        assert found is not None  # the same candidates suffice in any order
        best = min(best, found, key=len)
    return best


def _needed(snapshot: Snapshot, job: Waiting, nodes: Sequence[str], order: Sequence[Running]) -> list[Running] | None:
    leaving = list(snapshot.leaving())
    gone: list[Running] = []
    rest = iter(order)
    while not _fits(snapshot, job, nodes, [*leaving, *gone]):
        if (another := next(rest, None)) is None:
            return None
        gone.append(another)
    for each in list(gone):
        without = [other for other in gone if other is not each]
        if _fits(snapshot, job, nodes, [*leaving, *without]):
            gone = without
    return gone


def _fits(snapshot: Snapshot, job: Waiting, nodes: Sequence[str], gone: Iterable[Running]) -> bool:
    return place(job.job, snapshot.free_without(gone), nodes, snapshot.order) is not None

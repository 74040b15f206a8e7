"""Who must go for a job that has no room (``select/cons_tres``).

Candidates are the running jobs of lower tiers whose partition allows it (``preempt/partition_prio``), or of those QOS
that the job's QOS may preempt (``preempt/qos``): those of the lowest tier first, then those on the fewest nodes, then
by JobId; under ``preempt_youngest_first`` the last to start first, in whole seconds, whatever its tier (preempt.html:
the list is sorted by tier and size, or by start time).  They are taken away one after another until the job fits
somewhere.  Then the list is put in another order: the one that made it fit comes first, then the others that were taken
away, those on most of the nodes where it would be before the rest; and all is done again.  Victims are those taken away
at last that are on the nodes where the job then is.  Nobody asks whether fewer would do.

``preempt_reorder_count`` says how often the order is changed, beside once; ``preempt_strict_order`` leaves it.  The
orders and the three passes are those that Slurm 22.05 wrote (DebugFlags=SelectType) in recorded runs.

Jobs that are suspended (``PreemptMode=SUSPEND,GANG``) stay on their nodes, below the job that is put over them, and
keep their memory and GRES.  Who must be ended is asked as if these had stopped; no record has both.
"""

from __future__ import annotations

from collections.abc import Sequence

from emulator.policies.slurm.placement import place
from emulator.policies.slurm.snapshot import Running, Snapshot, Waiting, plus
from emulator.sites.slurm import Settings, fits


def candidates(snapshot: Snapshot, job: Waiting) -> list[Running]:
    """The jobs that may go for ``job``, first to go first, also those in their grace; without those that have been
    ended."""
    settings, stopped = snapshot.cluster.settings, snapshot.displaced[job.stops]
    found = [
        each
        for each in snapshot.preemptable(job.displaces)
        if each.kind not in stopped and each.waiting.job.name not in snapshot.going
    ]
    if settings.youngest_first and not _ignores_order(job, settings):
        return sorted(found, key=lambda each: (-snapshot.second_of(each.start_ns), each.waiting.number))
    return sorted(found, key=lambda each: (each.rank, len(each.nodes), each.waiting.number))


def _ignores_order(job: Waiting, settings: Settings) -> bool:
    """As slurm.conf's page says of ``GANG`` beside ``preempt/partition_prio``."""
    return settings.gang and job.qos is None


def victims(snapshot: Snapshot, job: Waiting, nodes: int) -> list[Running] | None:
    """Who must go so that ``job`` fits on ``nodes``; nobody if those suffice who are going already; None: it cannot."""
    settings = snapshot.cluster.settings
    keeps_order = settings.strict_order or _ignores_order(job, settings)
    order, gone, where = candidates(snapshot, job), list[Running](), set[str]()
    for _ in range(1 if keeps_order else settings.reorder_count + 2):
        trial = _Trial(snapshot, job, nodes)
        if (removed := trial.remove(order)) is None:
            return None
        if not removed:
            return []
        gone, where = removed, trial.where()
        others = sorted(gone[:-1], key=lambda each: -len(where.intersection(each.nodes)))
        order = [gone[-1], *others, *order[len(gone) :]]
    return [each for each in gone if not where.isdisjoint(each.nodes)]


class _Trial:
    """Whether a job fits when this one and that one have gone, besides those who are going already."""

    def __init__(self, snapshot: Snapshot, job: Waiting, nodes: int) -> None:
        self._snapshot, self._job, self._nodes = snapshot, job, nodes
        self._free = snapshot.free_without(snapshot.going.values(), snapshot.preemptable(job.stops))
        self._fitting = snapshot.mask(node for node in snapshot.names(nodes) if fits(self._free[node], job.amounts))

    def remove(self, order: Sequence[Running]) -> list[Running] | None:
        """Who of ``order`` has to go, one after another, until the job fits; None: all of them are not enough."""
        gone: list[Running] = []
        rest = iter(order)
        while self._fitting.bit_count() < self._job.job.nodes:
            if (running := next(rest, None)) is None:
                return None
            gone.append(running)
            for node in running.nodes:
                free = self._free[node] = plus(self._free[node], running.amounts)
                if fits(free, self._job.amounts):
                    self._fitting |= self._nodes & self._snapshot.mask((node,))
        return gone

    def where(self) -> set[str]:
        """The nodes where the job would be."""
        return {*(place(self._snapshot, self._job, self._fitting, self._free.__getitem__) or ())}

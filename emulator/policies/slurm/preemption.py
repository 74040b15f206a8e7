"""Who must go for a job that has no room (``select/cons_tres``).

Candidates are the running jobs of lower tiers whose partition allows it (``preempt/partition_prio``), or of those QOS
that the job's QOS may preempt (``preempt/qos``), lowest tier first, then by JobId; under ``preempt_youngest_first`` the
last to start first, whatever its tier (preempt.html: the list is sorted by tier and size, or by start time).  They are
taken away one after another until the job fits; whoever is not needed for that stays.  Then the same is tried in
another order: the one that made it fit first, then those on the most nodes, then those with the most CPUs
(``preempt_reorder_count`` times); it is taken if fewer go.  The orders are inferred from the recorded runs.  When a job
started counts in whole seconds, as Slurm's times do.

Jobs that are suspended (``PreemptMode=SUSPEND,GANG``) stay on their nodes, below the job that is put over them.  Who
must be ended is asked as if these were gone; no record has both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from emulator.policies.slurm.snapshot import Running, Snapshot, Waiting, minus, plus
from emulator.sites.slurm import SECOND_NS, Amounts, Mode, Settings, fits


def candidates(snapshot: Snapshot, job: Waiting, now_ns: int) -> list[Running]:
    """The jobs that may go for ``job``, first to go first, also those in their grace; without those that have been
    ended."""
    settings = snapshot.cluster.settings
    found = [
        each
        for each in snapshot.preemptable(job, Mode.CANCEL, Mode.REQUEUE)
        if each.waiting.job.name not in snapshot.going and _ran_ns(each, now_ns) >= _exempt_ns(each, settings)
    ]
    if settings.youngest_first and not _ignores_order(job, settings):
        return sorted(found, key=lambda each: (_ran_ns(each, now_ns), each.waiting.number))
    return sorted(found, key=lambda each: (each.rank, each.waiting.number))


def _ran_ns(running: Running, now_ns: int) -> int:
    return (now_ns // SECOND_NS - running.start_ns // SECOND_NS) * SECOND_NS


def _exempt_ns(running: Running, settings: Settings) -> int:
    if running.waiting.qos is None:
        return 0 if settings.gang else settings.exempt_ns
    return running.waiting.qos.exempt_ns


def _ignores_order(job: Waiting, settings: Settings) -> bool:
    """As slurm.conf's page says of ``GANG`` beside ``preempt/partition_prio``, also of ``PreemptExemptTime``."""
    return settings.gang and job.qos is None


def stopped_for(snapshot: Snapshot, job: Waiting) -> list[Running]:
    """The jobs that stop when ``job`` is put over them."""
    settings = snapshot.cluster.settings
    return [*snapshot.preemptable(job, Mode.SUSPEND)] if settings.preempts and settings.gang else []


def victims(snapshot: Snapshot, job: Waiting, nodes: int, now_ns: int) -> list[Running] | None:
    """Who must go so that ``job`` fits on ``nodes``; nobody if those suffice who are going already; None: it cannot."""
    settings = snapshot.cluster.settings
    order = candidates(snapshot, job, now_ns)
    if not order and not snapshot.going:
        return None
    best = _needed(snapshot, job, nodes, order)
    if not best or settings.strict_order or _ignores_order(job, settings):
        return best
    found = best
    for _ in range(settings.reorder_count):
        last = found[-1]
        rest = sorted(
            (each for each in order if each is not last), key=lambda each: (-len(each.nodes), -each.amounts[0])
        )
        order = [last, *rest]
        found = _needed(snapshot, job, nodes, order)
        assert found is not None  # the same candidates suffice in any order
        best = min(best, found, key=len)
    return best


def _needed(snapshot: Snapshot, job: Waiting, nodes: int, order: Sequence[Running]) -> list[Running] | None:
    trial = _Trial(snapshot, job, nodes)
    gone: list[Running] = []
    rest = iter(order)
    while not trial.fits:
        if (another := next(rest, None)) is None:
            return None
        trial.add(another)
        gone.append(another)
    for each in list(gone):
        trial.remove(each)
        if trial.fits:
            gone.remove(each)
        else:
            trial.add(each)
    return gone


class _Trial:
    """Whether a job fits when this one and that one have gone, besides those who are going already."""

    def __init__(self, snapshot: Snapshot, job: Waiting, nodes: int) -> None:
        self._job, self._needs, self._nodes, self._order = job.job, job.amounts, nodes, snapshot.order
        self._free = snapshot.free_without(snapshot.going.values(), stopped_for(snapshot, job))
        self._fitting = sum(fits(self._free[node], self._needs) for node in snapshot.names(nodes))

    @property
    def fits(self) -> bool:
        return self._fitting >= self._job.nodes

    def add(self, running: Running) -> None:
        """A running job has left its nodes."""
        self._change(running, plus)

    def remove(self, running: Running) -> None:
        """A running job is there again."""
        self._change(running, minus)

    def _change(self, running: Running, by: Callable[[Amounts, Amounts], Amounts]) -> None:
        for node in running.nodes:
            before = self._free[node]
            after = self._free[node] = by(before, running.amounts)
            if self._nodes >> self._order[node] & 1:
                self._fitting += fits(after, self._needs) - fits(before, self._needs)

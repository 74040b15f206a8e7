"""The main scheduler: jobs in the order of tier, priority and JobId; who does not fit blocks those behind it.

A blocked job blocks the rest of its partition, and the partition's nodes for all lower tiers: only backfill looks at
those jobs (sched_config.html).

Nodes whose jobs have all been ended for others are given to nobody until one of these jobs has left (``COMPLETING`` in
sinfo's page; that they cannot be had is in records: see analysis/claims/slurm/PROVENANCE.md), nor does a job that
chooses victims for the first time count on them.  One that chooses again does, as its own victims may take long to
leave, which no record shows.

Who chooses victims does not choose again for ``CHOICE_NS``, while they leave or are in their grace.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from functools import partial

from emulator.policies.slurm.placement import place
from emulator.policies.slurm.preemption import victims
from emulator.policies.slurm.snapshot import ALREADY_NS, KEPT_FROM, Snapshot, Waiting
from emulator.sites.slurm import MEMORY, fits
from emulator.vocabulary import SECOND_NS, Frozen


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
        if why := snapshot.limits.why_waits(job.job):
            if snapshot.cluster.settings.keeps_order_under_limits:
                blocked.add(partition)
            yield Decision(job.job.name, Outcome.WAITS, why=why)
            continue
        decision = decide(snapshot, job, snapshot.nodes_for(job) & ~taken, now_ns)
        if decision.outcome is not Outcome.STARTS:
            blocked.add(partition)
            taken |= snapshot.nodes_of[partition]
        yield decision


CHOICE_NS = 15 * SECOND_NS
"""How long a job that has chosen victims does not choose again: recorded under GraceTime, 2 of 2 at 15.0 s."""


def decide(snapshot: Snapshot, job: Waiting, nodes: int, now_ns: int) -> Decision:
    """Whether ``job`` can start on some of ``nodes`` now: free ones, or over stopped jobs, or when victims are gone."""
    name, leaving = job.job.name, snapshot.completing()
    if job.chooses_ns == ALREADY_NS:
        nodes &= ~leaving
    for displaced in (0, job.stops) if job.stops else (0,):
        fitting = snapshot.free_times(job.amounts, displaced).now & nodes & ~leaving
        if fitting.bit_count() >= job.job.nodes:
            where = place(snapshot, job, fitting, partial(snapshot.free_at, at_ns=ALREADY_NS, displaced=displaced))
            if where is not None:
                return Decision(name, Outcome.STARTS, where)
    if not job.displaces:
        return Decision(name, Outcome.WAITS, why=too_few(snapshot, job, nodes))
    if now_ns < job.chooses_ns:
        return Decision(name, Outcome.AWAITS_VICTIMS, why="its victims have not gone yet")
    going = victims(snapshot, job, nodes)
    if going is None:
        return Decision(name, Outcome.WAITS, why=too_few(snapshot, job, nodes) + ", and no victims would make room")
    if going:
        job.chooses_ns = now_ns + CHOICE_NS
    told = [each for each in going if not each.preempted or each.end_ns <= now_ns]
    if not told:
        return Decision(name, Outcome.AWAITS_VICTIMS, why="its victims have not gone yet")
    return Decision(name, Outcome.PREEMPTS, (), tuple(each.waiting.job.name for each in told))


def too_few(snapshot: Snapshot, job: Waiting, nodes: int) -> str:
    """Why a job has no room on these nodes: as ``squeue`` names it, and in words."""
    now, allowed = snapshot.free_times(job.amounts).now, snapshot.nodes_for(job)
    counts = (now & nodes).bit_count(), nodes.bit_count(), (now & allowed).bit_count(), _has_cpus(snapshot, job, nodes)
    if job.last_reason[0] != counts:
        job.last_reason = counts, _too_few(snapshot, job, *counts, allowed.bit_count())
    return job.last_reason[1]


FOR_WHAT_IS_KEPT = "Resources (memory or GRES)"
"""The reason of a job that could be put over others, if there were memory and GRES for it beside theirs."""


def _has_cpus(snapshot: Snapshot, job: Waiting, nodes: int) -> bool:
    """Whether enough nodes have the CPUs for a job that may be put over others, whatever memory and GRES they have."""
    if not job.stops or not any(job.amounts[KEPT_FROM:]):
        return False
    free = (snapshot.free_at(node, ALREADY_NS, job.stops)[:KEPT_FROM] for node in snapshot.names(nodes))
    return sum(fits(each, job.amounts[:KEPT_FROM]) for each in free) >= job.job.nodes


def _too_few(
    snapshot: Snapshot, job: Waiting, fit: int, count: int, would_fit: int, has_cpus: bool, allowed: int
) -> str:
    kept = list(zip(snapshot.resources, job.amounts, strict=True))[KEPT_FROM:]
    called = ((amount, "MB of memory" if name == MEMORY else name) for name, amount in kept if amount)
    more = "".join(f", {amount} {name}" for amount, name in called)
    reason = "Priority" if would_fit >= job.job.nodes else FOR_WHAT_IS_KEPT if has_cpus else "Resources"
    what = f"{reason}: {fit} of {count} nodes have {job.job.cpus} free CPUs{more}, it needs {job.job.nodes}"
    left_out = allowed - count
    return what + (f"; {left_out} nodes are kept for jobs before it" if left_out else "")

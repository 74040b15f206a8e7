"""The backfill scheduler: a job may go before others if it delays no planned start of theirs.

Jobs are taken in the main scheduler's order.  Whoever cannot start now is planned: running jobs are taken away in the
order of the ends of their time limits, the first 30 s of them at once (slurm.conf's ``bf_window_linear`` says why;
there the span doubles afterwards, which no record shows), until it fits; its nodes are then kept for it, whole, from
the last of these ends for its time limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from emulator.policies.slurm.decisions import Decision, Outcome
from emulator.policies.slurm.model import SECOND_NS, Settings
from emulator.policies.slurm.placement import place
from emulator.policies.slurm.scheduler import decide
from emulator.policies.slurm.snapshot import Running, Snapshot, Waiting

FIRST_SPAN_NS = 30 * SECOND_NS


@dataclass(frozen=True, slots=True)
class _Planned:
    """Nodes that are kept for a job."""

    start_ns: int
    end_ns: int
    nodes: frozenset[str]


@dataclass(slots=True)
class _Plan:
    """All that is kept."""

    settings: Settings
    kept: list[_Planned] = field(default_factory=list)

    def free_nodes(self, nodes: Sequence[str], start_ns: int, end_ns: int) -> list[str]:
        """Those of ``nodes`` that are kept for nobody within the time."""
        taken, end_ns = set[str](), self._rounded(end_ns)
        for each in self.kept:
            if each.start_ns < end_ns and start_ns < each.end_ns:
                taken |= each.nodes
        return [node for node in nodes if node not in taken]

    def ends(self) -> list[int]:
        """When something that is kept is free again."""
        return sorted({each.end_ns for each in self.kept})

    def keep(self, nodes: Sequence[str], start_ns: int, end_ns: int) -> None:
        """Keep ``nodes`` for that time."""
        self.kept.append(_Planned(start_ns, self._rounded(end_ns), frozenset(nodes)))

    def _rounded(self, end_ns: int) -> int:
        """An end, up to ``bf_resolution``."""
        step_ns = max(1, self.settings.bf_resolution_ns)
        return -(-end_ns // step_ns) * step_ns


def backfill_pass(snapshot: Snapshot, now_ns: int) -> Iterator[Decision]:
    """Look at the pending jobs once.  The caller carries out each decision in ``snapshot`` before it takes the next."""
    settings = snapshot.cluster.settings
    plan, ends = _Plan(settings), list[Running]()
    for job in snapshot.pending(now_ns)[: settings.bf_max_job_test]:
        nodes = plan.free_nodes(job.partition.nodes, now_ns, now_ns + job.limit_ns)
        decision = decide(snapshot, job, nodes, now_ns)
        if decision.outcome in (Outcome.WAITS, Outcome.AWAITS_VICTIMS):
            ends = ends or sorted(snapshot.running.values(), key=lambda each: each.end_ns)
            decision = _planned(snapshot, plan, job, now_ns, decision, ends)
        else:
            ends = []
        yield decision


def _planned(
    snapshot: Snapshot, plan: _Plan, job: Waiting, now_ns: int, decision: Decision, ends: Sequence[Running]
) -> Decision:
    """The same decision with the earliest start, which is kept in the plan."""
    for begin_ns in (now_ns, *plan.ends()):
        if begin_ns > now_ns + plan.settings.bf_window_ns:
            break
        nodes = plan.free_nodes(job.partition.nodes, begin_ns, begin_ns + job.limit_ns)
        found = _earliest(snapshot, job, nodes, begin_ns, ends)
        if found is None:
            continue
        where, at_ns = found
        if len(plan.free_nodes(where, at_ns, at_ns + job.limit_ns)) == len(where):
            plan.keep(where, at_ns, at_ns + job.limit_ns)
            return Decision(job.job.name, Outcome.WAITS, where, (), at_ns, decision.why)
    return decision


def _earliest(
    snapshot: Snapshot, job: Waiting, nodes: Sequence[str], begin_ns: int, ends: Sequence[Running]
) -> tuple[tuple[str, ...], int] | None:
    """When and where ``job`` fits on ``nodes``, by the time limits of the running jobs: ``ends``, in their order."""
    cpus, allowed = job.job.cpus, set(nodes)
    if len(allowed) < job.job.nodes:
        return None
    free, at_ns = dict(snapshot.free), begin_ns
    fitting = sum(free[node] >= cpus for node in nodes)
    coming = (each.end_ns for each in ends if each.end_ns > begin_ns)
    together_ns = next(coming, begin_ns) + FIRST_SPAN_NS
    for each in ends:
        is_next_group = at_ns < each.end_ns and (at_ns == begin_ns or each.end_ns > together_ns)
        if is_next_group and fitting >= job.job.nodes:
            break
        at_ns = max(at_ns, each.end_ns)
        for node in each.nodes:
            free[node] += each.cpus
            fitting += node in allowed and free[node] - each.cpus < cpus <= free[node]
    if fitting < job.job.nodes:
        return None
    where = place(job.job, free, nodes, snapshot.order)
    assert where is not None
    return where, at_ns

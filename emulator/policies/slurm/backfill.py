"""The backfill scheduler: a job may go before others if it delays no planned start of theirs.

Jobs are taken in the main scheduler's order.  Whoever cannot start now is planned: running jobs are taken away in the
order of the ends of their time limits, in groups whose span begins with 30 s and doubles (slurm.conf's
``bf_window_linear`` describes this), until it fits; its nodes are then kept for it, whole, from the end of the last
group for its time limit.
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
    plan = _Plan(settings)
    for job in snapshot.pending(now_ns)[: settings.bf_max_job_test]:
        nodes = plan.free_nodes(job.partition.nodes, now_ns, now_ns + job.limit_ns)
        decision = decide(snapshot, job, nodes, now_ns)
        if decision.outcome in (Outcome.WAITS, Outcome.AWAITS_VICTIMS):
            decision = _planned(snapshot, plan, job, now_ns, decision)
        yield decision


def _planned(snapshot: Snapshot, plan: _Plan, job: Waiting, now_ns: int, decision: Decision) -> Decision:
    """The same decision with the earliest start, which is kept in the plan."""
    for begin_ns in (now_ns, *plan.ends()):
        if begin_ns > now_ns + plan.settings.bf_window_ns:
            break
        nodes = plan.free_nodes(job.partition.nodes, begin_ns, begin_ns + job.limit_ns)
        found = _earliest(snapshot, job, nodes, begin_ns)
        if found is None:
            continue
        where, at_ns = found
        if len(plan.free_nodes(where, at_ns, at_ns + job.limit_ns)) == len(where):
            plan.keep(where, at_ns, at_ns + job.limit_ns)
            return Decision(job.job.name, Outcome.WAITS, where, (), at_ns, decision.why)
    return decision


def _earliest(
    snapshot: Snapshot, job: Waiting, nodes: Sequence[str], begin_ns: int
) -> tuple[tuple[str, ...], int] | None:
    """When and where ``job`` fits on ``nodes``, by the running jobs' time limits."""
    if len(nodes) < job.job.nodes:
        return None
    running = sorted(snapshot.running.values(), key=lambda each: each.end_ns)
    gone = [each for each in running if each.end_ns <= begin_ns]
    left = running[len(gone) :]
    free, at_ns, first_ns = snapshot.free_without(gone), begin_ns, left[0].end_ns if left else begin_ns
    while (where := place(job.job, free, nodes, snapshot.order)) is None:
        if not left:
            return None
        group = [each for each in left if each.end_ns <= max(left[0].end_ns, first_ns + FIRST_SPAN_NS)]
        left, at_ns = left[len(group) :], group[-1].end_ns
        _give_back(free, group)
    return where, at_ns


def _give_back(free: dict[str, int], group: Sequence[Running]) -> None:
    for each in group:
        for node in each.nodes:
            free[node] += each.cpus

"""The backfill scheduler: a job may go before others if it delays no planned start of theirs.

Jobs are taken in the main scheduler's order.  Whoever cannot start now is planned (``Plan``).  The pass ends when
nobody who is left could start, whatever was planned before: where those would be planned decides nothing.

To plan a job, running jobs are taken away in the order of the ends of their time limits, the first 30 s of them at once
(slurm.conf's ``bf_window_linear`` says why; there the span doubles afterwards, which no record shows), until the job
fits.  Its nodes are kept for it, whole, from the last of these ends for its time limit.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import partial

from emulator.policies.slurm.main_scheduler import Decision, Outcome, decide, place, too_few
from emulator.policies.slurm.snapshot import FreeTimes, Snapshot, Waiting
from emulator.sites.slurm import SECOND_NS, Job, Mode


def backfill_pass(snapshot: Snapshot, now_ns: int) -> Iterator[Decision]:
    """Look at the pending jobs once.  The caller carries out each decision in ``snapshot`` before it takes the next."""
    jobs = snapshot.pending(now_ns, snapshot.cluster.settings.bf_max_job_test)
    plan, hopeful = Plan(snapshot, now_ns), 0
    for number, job in enumerate(jobs):
        hopeful = _first_hopeful(snapshot, plan, jobs, max(number, hopeful))
        if hopeful == len(jobs):
            return
        if (
            number < hopeful and not snapshot.cluster.by_qos
        ):  # under qos, who starts now may be a victim of one behind it
            decision = Decision(job.job.name, Outcome.WAITS, why=too_few(snapshot, job, plan.free_now(job)))
        else:
            decision = decide(snapshot, job, plan.free_now(job), now_ns)
        if decision.outcome in (Outcome.WAITS, Outcome.AWAITS_VICTIMS) and (planned := plan.add(job)) is not None:
            where, at_ns = planned
            decision = Decision(job.job.name, Outcome.WAITS, where, (), at_ns, decision.why)
        yield decision
        if decision.outcome is Outcome.PREEMPTS:
            plan.add(job)


def _first_hopeful(snapshot: Snapshot, plan: Plan, jobs: Sequence[Waiting], first: int) -> int:
    """The number of the first job, from ``first`` on, that might start now.

    Without preemption there is less and less room as jobs start and are planned: who has none will have none.
    """
    settings = snapshot.cluster.settings
    for number in range(first, len(jobs)):
        job = jobs[number]
        may_displace = settings.preempts and any(snapshot.preemptable(job, Mode.SUSPEND, Mode.CANCEL, Mode.REQUEUE))
        fits = snapshot.free_times(job.amounts).now & plan.free_now(job)
        if may_displace or fits.bit_count() >= job.job.nodes:
            return number
    return len(jobs)


FIRST_SPAN_NS = 30 * SECOND_NS


class Plan:
    """What is kept in one pass of backfill at ``now_ns``."""

    def __init__(self, snapshot: Snapshot, now_ns: int) -> None:
        self._snapshot, self._now_ns, self._settings = snapshot, now_ns, snapshot.cluster.settings
        self._kept: list[tuple[int, int, int]] = []
        """The beginning, the end, and the nodes, in order."""
        self._before: list[int] = [0]
        """The nodes of all that begin before each of them, and at last of all."""
        self._ends_ns: list[int] = []
        """When something that is kept is free again, in order."""
        self._kept_then: list[int] = []
        """The nodes that are kept at each of these times."""

    def free_now(self, job: Waiting) -> int:
        """The nodes of its partition that a job could have from now on until its limit is over."""
        end_ns = self._rounded(self._now_ns + job.limit_ns)
        begun = bisect_left(self._kept, (end_ns,))
        return self._snapshot.nodes_for(job) & ~self._before[begun]

    def add(self, job: Waiting) -> tuple[tuple[str, ...], int] | None:
        """Keep nodes for a job: which, and from when on.  None: it has no place within ``bf_window``."""
        room, tried = self._snapshot.free_times(job.amounts), (0, 0)
        for begin_ns, nodes in self._beginnings(job):
            at_ns = self._earliest_ns(job.job, room, nodes, begin_ns)
            if at_ns is None:
                continue
            fits = room.by(at_ns) & nodes
            if (at_ns, fits) == tried:
                continue
            tried = at_ns, fits
            free = fits & ~self._taken(at_ns, at_ns + job.limit_ns)
            if free.bit_count() < job.job.nodes:
                continue
            where = place(self._snapshot, job, fits, partial(self._snapshot.free_at, at_ns=at_ns)) or ()
            mask = self._snapshot.mask(where)
            if where and not mask & ~free:
                self._keep(mask, at_ns, at_ns + job.limit_ns)
                return where, at_ns
        return None

    def _beginnings(self, job: Waiting) -> Iterator[tuple[int, int]]:
        """Now, and when something that is kept is free again; with the nodes that are free from then on, if they are
        enough."""
        yield self._now_ns, self.free_now(job)
        allowed = self._snapshot.nodes_for(job)
        for begin_ns, kept_then in zip(self._ends_ns, self._kept_then, strict=True):
            if begin_ns > self._now_ns + self._settings.bf_window_ns:
                return
            nodes = allowed & ~kept_then
            if nodes.bit_count() < job.job.nodes:
                continue
            end_ns = self._rounded(begin_ns + job.limit_ns)
            first, last = bisect_left(self._kept, (begin_ns,)), bisect_left(self._kept, (end_ns,))
            for _, until_ns, later in self._kept[first:last]:
                if begin_ns < until_ns:
                    nodes &= ~later
            yield begin_ns, nodes

    def _earliest_ns(self, job: Job, room: FreeTimes, nodes: int, begin_ns: int) -> int | None:
        """When a job fits on ``nodes``, by the time limits of the running jobs."""
        at_ns = room.first_ns(nodes, job.nodes) if nodes.bit_count() >= job.nodes else None
        if at_ns is None or at_ns <= begin_ns:
            return None if at_ns is None else begin_ns
        ends_ns = self._snapshot.ends_ns
        together_ns = ends_ns[bisect_right(ends_ns, begin_ns)] + FIRST_SPAN_NS
        return at_ns if at_ns > together_ns else ends_ns[bisect_right(ends_ns, together_ns) - 1]

    def _taken(self, start_ns: int, end_ns: int) -> int:
        """The nodes that are kept for others within the time."""
        taken = 0
        for _, until_ns, nodes in self._kept[: bisect_left(self._kept, (self._rounded(end_ns),))]:
            if start_ns < until_ns:
                taken |= nodes
        return taken

    def _keep(self, nodes: int, start_ns: int, end_ns: int) -> None:
        kept = start_ns, self._rounded(end_ns), nodes
        first = bisect_left(self._kept, kept)
        self._kept.insert(first, kept)
        del self._before[first + 1 :]
        for _, _, each in self._kept[first:]:
            self._before.append(self._before[-1] | each)
        place = bisect_left(self._ends_ns, kept[1])
        if kept[1] not in self._ends_ns[place : place + 1]:
            self._ends_ns.insert(place, kept[1])
            self._kept_then.insert(place, self._taken(kept[1], kept[1]))
        for number in range(bisect_right(self._ends_ns, start_ns), place):
            self._kept_then[number] |= nodes

    def _rounded(self, end_ns: int) -> int:
        """An end, up to ``bf_resolution``."""
        step_ns = max(1, self._settings.bf_resolution_ns)
        return -(-end_ns // step_ns) * step_ns

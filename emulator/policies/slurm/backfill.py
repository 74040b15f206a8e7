"""The backfill scheduler: a job may go before others if it delays no planned start of theirs.

Jobs are taken in the main scheduler's order.  Of each it is asked where it would be if all that it may preempt made
room at once.  If that is now, it starts, or chooses victims (often on other nodes), and those nodes are kept for it
from now on, also while its victims leave or are in their grace.  For who is there in theory, and still finds no room
(those that would only stop keep their memory), nothing is kept.  Whoever cannot be anywhere now is planned (``Plan``).
The pass ends when nobody who is left could start, whatever was planned before: where those would be planned decides
nothing.

To plan a job, running jobs are taken away in the order of the ends of their time limits, several at once, until the job
fits: those of 60 s, then those of 120 s, and so on.  So slurm.conf has it (``bf_window_linear``): the span is 30 s at
first and doubles with each evaluation, or grows by what is given there; that with nobody taken away is the first of
these, as recorded.  Its nodes are kept for it, whole, from the last of these ends for its time limit.  The end of what
is kept is rounded down to a multiple of ``bf_resolution`` of the wall's clock, that of a job that is tried is rounded
up.  If one would start later than the next such end, it is tried again from that end on, with more nodes
(DebugFlags=Backfill of recorded runs shows all three).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import partial, reduce
from operator import or_

from emulator.policies.slurm.main_scheduler import Decision, Outcome, decide, too_few
from emulator.policies.slurm.placement import place
from emulator.policies.slurm.snapshot import ALREADY_NS, FreeTimes, Snapshot, Waiting
from emulator.sites.slurm import SECOND_NS, Job

_NOT_PLANNED = ("Partition", "JobArray")
"""With these begin the reasons of jobs that no end of another would let start, or of tasks behind others of an array.
Who waits for a limit of a QOS or an association is planned all the same, if it could not start now, as recorded."""


def backfill_pass(snapshot: Snapshot, now_ns: int) -> Iterator[Decision]:
    """Look at the pending jobs once.  The caller carries out each decision in ``snapshot`` before it takes the next."""
    jobs = snapshot.pending(now_ns, snapshot.cluster.settings.bf_max_job_test)
    plan, hopeful = Plan(snapshot, now_ns), 0
    for number, job in enumerate(jobs):
        hopeful = _first_hopeful(plan, jobs, max(number, hopeful))
        if hopeful == len(jobs):
            return
        why = snapshot.limits.why_waits(job.job)
        if number < hopeful and not why.startswith(_NOT_PLANNED):
            why = why or too_few(snapshot, job, plan.free_now(job))
            where, at_ns = plan.add(job) or ((), None)
            yield Decision(job.job.name, Outcome.WAITS, where, (), at_ns, why)
            continue
        if why:
            yield Decision(job.job.name, Outcome.WAITS, why=why)
            continue
        where = plan.where_now(job)
        decision = decide(snapshot, job, plan.free_now(job), now_ns)
        yield decision
        if decision.outcome in (Outcome.PREEMPTS, Outcome.AWAITS_VICTIMS):
            plan.keep(snapshot.mask(where), now_ns, now_ns + job.limit_ns)


def _first_hopeful(plan: Plan, jobs: Sequence[Waiting], first: int) -> int:
    """The number of the first job, from ``first`` on, that might start now.

    There is less and less room as jobs start and are planned: who has none will have none.
    """
    for number in range(first, len(jobs)):
        if plan.may_start_now(jobs[number]):
            return number
    return len(jobs)


FIRST_SPAN_NS = 30 * SECOND_NS
"""The span of the evaluation in which nobody is taken away."""


class Plan:
    """What is kept in one pass of backfill at ``now_ns``."""

    def __init__(self, snapshot: Snapshot, now_ns: int) -> None:
        self._snapshot, self._now_ns, self._settings = snapshot, now_ns, snapshot.cluster.settings
        self._resolution_ns = max(1, self._settings.bf_resolution_ns)
        self._begins_ns: list[int] = []
        """When what is kept begins, in order."""
        self._kept: list[int] = []
        """The nodes that are kept from each of these times on."""
        self._before: list[int] = [0]
        """The nodes of all that begin before each of them, as far as was asked."""
        self._ends_ns: list[int] = []
        """When something that is kept is free again, in order."""
        self._kept_then: list[int] = []
        """The nodes that are kept at each of these times."""

    def free_now(self, job: Waiting) -> int:
        """The nodes of its partition that a job could have from now on until its limit is over."""
        begun, before = bisect_left(self._begins_ns, self._rounded_up(self._now_ns + job.limit_ns)), self._before
        while len(before) <= begun:
            before.append(before[-1] | self._kept[len(before) - 1])
        return self._snapshot.nodes_for(job) & ~before[begun]

    def fits_now(self, job: Waiting) -> int:
        """Those of them where it fits, if all that it may preempt make room at once."""
        return self._snapshot.free_times(job.amounts, job.displaces).now & self.free_now(job)

    def may_start_now(self, job: Waiting) -> bool:
        """Whether these are enough."""
        fits, needed = self._snapshot.free_times(job.amounts, job.displaces).now, job.job.nodes
        return fits.bit_count() >= needed and (fits & self.free_now(job)).bit_count() >= needed

    def where_now(self, job: Waiting) -> tuple[str, ...]:
        """The nodes where it would then be."""
        free = partial(self._snapshot.free_at, at_ns=ALREADY_NS, displaced=job.displaces)
        return place(self._snapshot, job, self.fits_now(job), free) or ()

    def add(self, job: Waiting) -> tuple[tuple[str, ...], int] | None:
        """Keep nodes for a job: which, and from when on.  None: it has no place within ``bf_window``."""
        room, tried = self._snapshot.free_times(job.amounts, job.makes_way), (0, 0)
        for begin_ns, nodes, next_ns in self._beginnings(job, room):
            at_ns = self._earliest_ns(job.job, room, nodes, begin_ns)
            if at_ns is None or (next_ns is not None and at_ns > next_ns):
                continue
            fits = room.by(at_ns) & nodes
            if (at_ns, fits) == tried:
                continue
            tried = at_ns, fits
            free = fits & ~self._taken(at_ns, at_ns + job.limit_ns)
            if free.bit_count() < job.job.nodes:
                continue
            then = partial(self._snapshot.free_at, at_ns=at_ns, displaced=job.makes_way)
            where = place(self._snapshot, job, fits, then) or ()
            nodes = self._snapshot.mask(where)
            if where and not nodes & ~free:
                self.keep(nodes, at_ns, at_ns + job.limit_ns)
                return where, at_ns
        return None

    def _beginnings(self, job: Waiting, room: FreeTimes) -> Iterator[tuple[int, int, int | None]]:
        """Now, and when something that is kept is free again; with the nodes that are free from then on, and the next
        of these times.  Those before whose next one the job fits nowhere are left out: it would be tried again then.

        Several of these ends are looked at together, twice as many after each time that none of them will do.
        """
        allowed, needed, ends_ns = self._snapshot.nodes_for(job), job.job.nodes, self._ends_ns
        soonest_ns = room.first_ns(allowed, needed)
        if soonest_ns is None:
            return
        before = bisect_left(ends_ns, soonest_ns)
        if not before:
            next_ns, nodes = ends_ns[0] if ends_ns else None, self.free_now(job)
            if next_ns is None or (nodes & room.by(next_ns)).bit_count() >= needed:
                yield self._now_ns, nodes, next_ns
        last_ns = self._now_ns + self._settings.bf_window_ns
        number, together = max(0, before - 1), 1
        while number < len(ends_ns) and ends_ns[number] <= last_ns:
            after = min(number + together, len(ends_ns))
            next_ns = ends_ns[after] if after < len(ends_ns) else None
            fits = allowed if next_ns is None else allowed & room.by(next_ns)
            taken = self._taken_at_all(number, after, job.limit_ns)
            if (fits & ~taken).bit_count() < needed:
                number, together = after, together * 2
            elif together > 1:
                together //= 2
            else:
                yield ends_ns[number], allowed & ~taken, next_ns
                number = after

    def _taken_at_all(self, first: int, after: int, limit_ns: int) -> int:
        """Nodes that a job cannot have whichever of these ends it begins at; if it is one, all of them."""
        last_ns, until_ns = self._ends_ns[after - 1], self._rounded_up(self._ends_ns[first] + limit_ns)
        begun = slice(bisect_left(self._begins_ns, last_ns), bisect_left(self._begins_ns, until_ns))
        return reduce(or_, self._kept[begun], self._kept_then[after - 1] if last_ns < until_ns else 0)

    def _earliest_ns(self, job: Job, room: FreeTimes, nodes: int, begin_ns: int) -> int | None:
        """When a job fits on ``nodes``, by the time limits of the running jobs."""
        at_ns = room.first_ns(nodes, job.nodes) if nodes.bit_count() >= job.nodes else None
        if at_ns is None or at_ns <= begin_ns:
            return None if at_ns is None else begin_ns
        ends_ns = self._snapshot.ends_ns
        first = 0 if begin_ns == self._now_ns else bisect_right(ends_ns, begin_ns)
        more_ns = self._settings.bf_window_linear_ns
        span_ns = FIRST_SPAN_NS + (more_ns or FIRST_SPAN_NS)
        while at_ns > (together_ns := ends_ns[first] + span_ns):
            first, span_ns = bisect_right(ends_ns, together_ns), span_ns + (more_ns or span_ns)
        return ends_ns[bisect_right(ends_ns, together_ns) - 1]

    def _taken(self, start_ns: int, end_ns: int) -> int:
        """The nodes that are kept for others within the time: at the last end before it, or from then on."""
        last, taken, first = bisect_right(self._ends_ns, start_ns) - 1, 0, 0
        if last >= 0:
            taken, first = self._kept_then[last], bisect_left(self._begins_ns, self._ends_ns[last])
        return reduce(or_, self._kept[first : bisect_left(self._begins_ns, self._rounded_up(end_ns))], taken)

    def keep(self, nodes: int, start_ns: int, end_ns: int) -> None:
        """Nodes are kept for a job within the time."""
        is_later = start_ns > self._now_ns
        until_ns = self._rounded_up(end_ns) if is_later else self._rounded_down(end_ns)
        if until_ns > start_ns:
            self._keep(nodes, start_ns, until_ns)

    def _keep(self, nodes: int, start_ns: int, until_ns: int) -> None:
        place = bisect_left(self._ends_ns, until_ns)
        if place == len(self._ends_ns) or self._ends_ns[place] != until_ns:
            then = self._taken(until_ns, until_ns)
            self._ends_ns.insert(place, until_ns)
            self._kept_then.insert(place, then)
        first = bisect_left(self._begins_ns, start_ns)
        self._begins_ns.insert(first, start_ns)
        self._kept.insert(first, nodes)
        del self._before[first + 1 :]
        for number in range(bisect_right(self._ends_ns, start_ns), place):
            self._kept_then[number] |= nodes

    def _rounded_down(self, end_ns: int) -> int:
        """An end, to ``bf_resolution`` of the wall's clock."""
        return end_ns - (end_ns + self._snapshot.wall_ns) % self._resolution_ns

    def _rounded_up(self, end_ns: int) -> int:
        return end_ns + -(end_ns + self._snapshot.wall_ns) % self._resolution_ns

"""Allocations by completion goals (reverse-adaptive, sections IV and V).

Where work comes in tasks, a job plans to end one task length before its deadline: a task that begins later ends too
late.  A job without a deadline should end as early as possible: it requires as many containers as it can use, but none
of its work is urgent.

A job may be unable to meet its deadline: the deadline has passed, or all containers until then cannot do its work.  By
the text of Algorithm 1 nothing of its work fits any more, so that it keeps s_fit = s_pend and needs all that it can use
(``gives_up: never``).  The two other rules are ours: such a job needs nothing, because it has no chance left that s_fit
could protect, and gets only what the other jobs cannot use.  They differ in when a job counts as lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import compress
from typing import Annotated, Literal

from msgspec import Meta

from emulator.policies.capacity import Capacity
from emulator.policies.reverse_adaptive.fitting import Goal, chances, left_over
from emulator.policies.views import ClusterView, ShareDecision
from emulator.vocabulary import Frozen


class Cycle(Frozen):
    """Options of these allocations."""

    cycle_s: Annotated[float, Meta(gt=0, le=1e6)] = 30.0
    """Control cycle T: how long a placement holds if no job arrives or ends before."""

    @property
    def length_ns(self) -> int:
        """Length of a cycle."""
        return round(self.cycle_s * 10**9)


class Deadlines(Cycle):
    """Options of the two schedulers of the paper."""

    gives_up: Literal["never", "by-deadline", "by-forecast"] = "never"
    """When a job that cannot meet its deadline counts as lost, and gets only what others cannot use.  ``never``: it
    needs all that it can use, as Algorithm 1 has it.  ``by-deadline``: once its deadline has passed, or all the
    containers that it can use would not do until then.  ``by-forecast``: also if the forecast leaves too few."""


DEFAULT = Cycle()
AS_PUBLISHED = Deadlines()
_NEVER_NS = 1 << 62


def adaptive(view: ClusterView, options: Deadlines = AS_PUBLISHED) -> ShareDecision:
    """The Adaptive Scheduler: jobs get the containers that they need on average until their deadlines; the rest goes
    to the least satisfied jobs.  Uses the forecast of capacity only to give jobs up by it.
    """
    names, goals = _goals(view)
    required = _required(view.now_ns, goals)
    at_least = [need if goal.work_ns else 0 for goal, need in zip(goals, required, strict=True)]
    shares = _shares(view.containers, goals, _hopeful(view, goals, options), at_least, required)
    return _decision(view, options, names, shares)


def reverse_adaptive(view: ClusterView, options: Deadlines = AS_PUBLISHED) -> ShareDecision:
    """Work is done now if, after this cycle, it would no longer fit into the forecast capacity before its deadline;
    the rest goes to the least satisfied jobs.
    """
    names, goals = _goals(view)
    can = _hopeful(view, goals, options)
    needed = iter(_fit(list(compress(goals, can)), view.forecast, view.now_ns, options.length_ns))
    fit = [next(needed) if chance else 0 for chance in can]
    return _decision(view, options, names, _shares(view.containers, goals, can, fit, _required(view.now_ns, goals)))


def fewest_misses(view: ClusterView, options: Cycle = DEFAULT) -> ShareDecision:
    """As many jobs as possible meet their deadlines, the earliest deadline first; the others get what is left.

    The reference of reverse-adaptive, section V-C: it ignores fairness.
    """
    names, goals = _goals(view)
    kept = kept_goals(goals, view.forecast, view.now_ns)
    shares, free = [0] * len(goals), view.containers
    for index in sorted(range(len(goals)), key=lambda index: index not in kept):
        shares[index] = min(free, goals[index].most)
        free -= shares[index]
    return _decision(view, options, names, shares)


def kept_goals(goals: Sequence[Goal], capacity: Capacity, now_ns: int) -> set[int]:
    """Indices of the jobs chosen to meet their deadlines, as many as can (Moore and Hodgson, with a changing capacity).

    Jobs are added one by one, the earliest deadline first.  When the added work is more than the capacity until a
    deadline, the largest job so far is dropped.  If time is measured as the work that the capacity can do, this is one
    machine of constant speed, and there Moore's algorithm gives the fewest late jobs.  It assumes that a job can use
    any number of containers.  A job that cannot meet its deadline even with all containers it can use is dropped first.
    """
    heap: list[tuple[int, int]] = []
    taken_ns = 0
    for index in sorted(range(len(goals)), key=lambda index: goals[index].deadline_ns):
        goal = goals[index]
        if goal.work_ns > goal.most * (goal.deadline_ns - now_ns):
            continue
        heappush(heap, (-goal.work_ns, index))
        taken_ns += goal.work_ns
        if taken_ns > capacity.between(now_ns, goal.deadline_ns):
            taken_ns += heappop(heap)[0]
    return {index for _, index in heap}


def _goals(view: ClusterView) -> tuple[list[str], list[Goal]]:
    """Names and remaining work of the jobs, the earliest deadline first; without a deadline no work is required."""
    found: list[tuple[Goal, str]] = []
    for job in view.jobs.values():
        facts = job.facts
        most, usable = facts.most_containers, job.containers + job.pending
        most = most if most < usable else usable
        if facts.deadline_ns is None:
            goal = Goal(_NEVER_NS, 0, most)
        else:
            before_ns = facts.deadline_ns - job.task_ns
            left_ns = max((job.work_left_ns or 0) - job.begun_ns, 1 if job.containers else 0)  # what runs has not ended
            goal = Goal(before_ns if before_ns > 0 else 0, left_ns, most, job.task_ns)
        found.append((goal, facts.name))
    found.sort(key=lambda pair: pair[0].deadline_ns)  # among equals in the order of submission
    return [name for _, name in found], [goal for goal, _ in found]


def _hopeful(view: ClusterView, goals: Sequence[Goal], options: Deadlines) -> list[bool]:
    """The jobs that have not been abandoned."""
    if options.gives_up == "never":
        return [True] * len(goals)
    return chances(goals, view.now_ns, view.forecast if options.gives_up == "by-forecast" else None)


def _fit(goals: Sequence[Goal], forecast: Capacity, now_ns: int, length_ns: int) -> list[int]:
    """Containers needed in the cycle of ``length_ns`` that begins now: s_fit.

    A job whose deadline falls within the cycle, or has passed, needs all that it can use: Algorithm 1 takes nothing off
    its s_fit = s_pend.
    """
    end_ns = now_ns + length_ns
    late_ns = left_over(goals, forecast, end_ns)
    return [
        (-(-late // length_ns) if goal.deadline_ns > end_ns else goal.most) if late else 0
        for goal, late in zip(goals, late_ns, strict=True)
    ]


def _required(now_ns: int, goals: Sequence[Goal]) -> list[int]:
    """Average containers needed until the deadline: s_req; without a deadline, as many as the job can use."""
    found = []
    for goal in goals:
        needed = goal.most
        if now_ns < goal.deadline_ns < _NEVER_NS:
            needed = -(-goal.work_ns // (goal.deadline_ns - now_ns)) or 1
        found.append(needed if needed < goal.most else goal.most)
    return found


def _shares(
    containers: int, goals: Sequence[Goal], can: Sequence[bool], fit: Sequence[int], required: Sequence[int]
) -> list[int]:
    """Shares of the jobs: first those that are not given up; the others share the rest equally."""
    from emulator.policies.reverse_adaptive.utility import Needs, max_min_shares  # here, because it imports numpy

    first = [goal.most if chance else 0 for goal, chance in zip(goals, can, strict=True)]
    shares = max_min_shares(Needs.of(fit, required, first), containers)
    left = containers - sum(shares)
    if not left or all(can):
        return shares
    then = [0 if chance else goal.most for goal, chance in zip(goals, can, strict=True)]
    rest = max_min_shares(Needs.of([0] * len(goals), then, then), left)
    return [share + more for share, more in zip(shares, rest, strict=True)]


def _decision(view: ClusterView, options: Cycle, names: Sequence[str], shares: Sequence[int]) -> ShareDecision:
    return ShareDecision(tuple(zip(names, shares, strict=True)), view.now_ns + options.length_ns)

"""Allocations by completion goals (reverse-adaptive, sections IV and V).

A job without a deadline is to be done as early as possible: it requires all it can use, and nothing of it cannot wait.

The paper does not say what a job needs that cannot make its deadline any more: because the deadline has passed, or
because all the containers until then would not do its work.  Here it needs nothing, for s_fit is what keeps the chances
of a job and it has none left; it gets what the others have no use for.  Were it to need all that it can use, every job
would be late with it whenever there is too much work, and FIFO would miss fewer deadlines than either.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from emulator.policies.reverse_adaptive.fewest import kept_goals
from emulator.policies.reverse_adaptive.fitting import Goal, left_over
from emulator.policies.reverse_adaptive.utility import Needs, max_min_shares
from emulator.policies.views import AllocationDecision, ClusterView
from emulator.vocabulary import Frozen


class Cycle(Frozen):
    """Options of these allocations."""

    cycle_s: Annotated[float, Meta(gt=0, le=1e6)] = 30.0
    """Control cycle T: how long a placement holds, should no job arrive or end before."""

    @property
    def length_ns(self) -> int:
        """Of a cycle."""
        return round(self.cycle_s * 10**9)


DEFAULT = Cycle()
_NEVER_NS = 1 << 62
_order = itemgetter(0, 1)


def adaptive(view: ClusterView, options: Cycle = DEFAULT) -> AllocationDecision:
    """Jobs get the containers that they need on average until their deadlines; what is left makes the least satisfied
    more satisfied.  Knows nothing of capacity to come.
    """
    names, goals = _goals(view)
    can = [goal.can_be_met(view.now_ns) for goal in goals]
    required = _required(view.now_ns, goals)
    at_least = [need if goal.work_ns else 0 for goal, need in zip(goals, required, strict=True)]
    return _decision(view, options, names, _shares(view.containers, goals, can, at_least, required))


def reverse_adaptive(view: ClusterView, options: Cycle = DEFAULT) -> AllocationDecision:
    """Work that would not fit any more, after this cycle, into the capacity forecast until the deadlines is done now;
    what is left makes the least satisfied more satisfied.
    """
    names, goals = _goals(view)
    now_ns, forecast = view.now_ns, view.forecast
    can = [goal.can_be_met(now_ns, forecast) for goal in goals]
    chances = [goal if chance else replace(goal, work_ns=0) for goal, chance in zip(goals, can, strict=True)]
    late_ns = left_over(chances, forecast, now_ns + options.length_ns)
    fit = [-(-work_ns // options.length_ns) for work_ns in late_ns]
    return _decision(view, options, names, _shares(view.containers, goals, can, fit, _required(now_ns, goals)))


def fewest_misses(view: ClusterView, options: Cycle = DEFAULT) -> AllocationDecision:
    """As many jobs as can meet their deadlines do, the earliest deadline first; the others get what is left.

    The reference of reverse-adaptive, section V-C: it is fair to nobody.
    """
    names, goals = _goals(view)
    kept = kept_goals(goals, view.forecast, view.now_ns)
    shares, free = [0] * len(goals), view.containers
    for index in sorted(range(len(goals)), key=lambda index: index not in kept):
        shares[index] = min(free, goals[index].most)
        free -= shares[index]
    return _decision(view, options, names, shares)


def _goals(view: ClusterView) -> tuple[list[str], list[Goal]]:
    """What is left of each job, the earliest deadline first; of one without a deadline nothing has to be done."""
    found = []
    for job in view.jobs.values():
        facts = job.facts
        most = min(facts.most_containers, job.containers + job.pending)
        if facts.deadline_ns is None:
            goal = Goal(_NEVER_NS, 0, most)
        else:
            goal = Goal(facts.deadline_ns, job.work_left_ns or 0, most)
        found.append((goal.deadline_ns, job.order, facts.name, goal))
    found.sort(key=_order)
    return [name for _, _, name, _ in found], [goal for _, _, _, goal in found]


def _required(now_ns: int, goals: Sequence[Goal]) -> list[int]:
    """Containers on average until the deadline: s_req; all that can be used where there is none."""
    return [
        min(goal.most, max(1, -(-goal.work_ns // (goal.deadline_ns - now_ns))))
        if now_ns < goal.deadline_ns < _NEVER_NS
        else goal.most
        for goal in goals
    ]


def _shares(
    containers: int, goals: Sequence[Goal], can: Sequence[bool], fit: Sequence[int], required: Sequence[int]
) -> list[int]:
    """Of the jobs that can make their deadlines; the others share what those leave, alike."""
    first = [goal.most if chance else 0 for goal, chance in zip(goals, can, strict=True)]
    then = [0 if chance else goal.most for goal, chance in zip(goals, can, strict=True)]
    shares = max_min_shares(Needs.of(fit, required, first), containers)
    rest = max_min_shares(Needs.of([0] * len(goals), then, then), containers - sum(shares))
    return [share + more for share, more in zip(shares, rest, strict=True)]


def _decision(view: ClusterView, options: Cycle, names: Sequence[str], shares: Sequence[int]) -> AllocationDecision:
    queues = tuple(queue.name for queue in view.queues)
    named = tuple(zip(names, shares, strict=True))
    return AllocationDecision(queues, shares=named, valid_until_ns=view.now_ns + options.length_ns)

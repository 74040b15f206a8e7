"""Allocations by completion goals (reverse-adaptive, sections IV and V).

A job without a deadline is to be done as early as possible: it requires all it can use, and nothing of it cannot wait.
A job whose deadline has passed requires all it can use, and none of it can wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Annotated

from msgspec import Meta

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
    required = _required(view.now_ns, goals)
    at_least = [need if goal.work_ns else 0 for goal, need in zip(goals, required, strict=True)]
    needs = Needs.of(at_least, required, _most(goals))
    return _decision(view, options, names, max_min_shares(needs, view.containers))


def reverse_adaptive(view: ClusterView, options: Cycle = DEFAULT) -> AllocationDecision:
    """Work that would not fit any more, after this cycle, into the capacity forecast until the deadlines is done now;
    what is left makes the least satisfied more satisfied.
    """
    names, goals = _goals(view)
    late_ns = left_over(goals, view.forecast, view.now_ns + options.length_ns)
    fit = [-(-work_ns // options.length_ns) for work_ns in late_ns]
    needs = Needs.of(fit, _required(view.now_ns, goals), _most(goals))
    return _decision(view, options, names, max_min_shares(needs, view.containers))


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
    """Containers on average until the deadline: s_req; all that can be used where it has passed, or there is none."""
    return [
        min(goal.most, max(1, -(-goal.work_ns // (goal.deadline_ns - now_ns))))
        if now_ns < goal.deadline_ns < _NEVER_NS
        else goal.most
        for goal in goals
    ]


def _most(goals: Sequence[Goal]) -> list[int]:
    return [goal.most for goal in goals]


def _decision(view: ClusterView, options: Cycle, names: Sequence[str], shares: Sequence[int]) -> AllocationDecision:
    queues = tuple(queue.name for queue in view.queues)
    named = tuple(zip(names, shares, strict=True))
    return AllocationDecision(queues, shares=named, valid_until_ns=view.now_ns + options.length_ns)

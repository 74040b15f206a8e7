"""FLEX: packs a few good orders and takes the best (flex, section 3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from emulator.policies.flex.demand import NEVER_NS, Demand, completions, first_shares, normalised
from emulator.policies.flex.moldable import best_shares, ends_ns
from emulator.policies.flex.optimum import best_order
from emulator.policies.flex.penalties import Objective, Penalty
from emulator.vocabulary import Frozen

SEARCHED_JOBS = 12
"""Up to this many jobs, a search goes on from the best orders.  With more jobs, one job in another place matters less,
and the search takes too long."""
BEAM_WIDTH, STEPPED_BEAM_WIDTH = 256, 1024
"""Partial orders that the search keeps; the second value is for step penalties, whose bounds are weaker.  Nearly always
enough for the optimum of ten jobs."""


class Plan(Frozen):
    """A schedule: the result of FLEX, or one of those tried for it; jobs by index."""

    order: tuple[int, ...]
    """Jobs in the order of service."""
    rule: str
    """The rule that proposed the order."""
    ends_ns: tuple[int, ...]
    """From now; ``NEVER_NS`` for a job without slots."""
    cost: int
    """Value of the objective."""
    shares: tuple[int, ...] = ()
    """Slots until the first job ends: they hold until the next plan is made (flex, section 2.2).  Empty: it is not
    known yet whether this is the plan."""


def plan(jobs: Sequence[Demand], objective: Objective, slots: int, optimal: bool = False, search: bool = True) -> Plan:
    """The cheapest schedule of those tried.

    Args:
        jobs: in the order of arrival; their minima may exceed ``slots``.
        objective: cost of the jobs' ends, in the same order.
        slots: number of slots; with none, no job ends.
        optimal: try all orders, however long it takes; FLEX is compared with this optimum.
        search: with up to ``SEARCHED_JOBS`` jobs, go on from the best orders.  This is ours: the paper's FLEX packs a
            modest number of orders and takes the best.
    """
    if slots <= 0 or not jobs:
        ends = (NEVER_NS,) * len(jobs)
        return Plan(tuple(range(len(jobs))), "none", ends, objective.cost(ends), (0,) * len(jobs))
    jobs = normalised(jobs, slots)
    found = sorted(_candidates(jobs, objective, slots), key=lambda candidate: candidate.cost)
    best = found[0]
    if optimal or (search and len(jobs) <= SEARCHED_JOBS):
        width = STEPPED_BEAM_WIDTH if objective.stepped else BEAM_WIDTH
        best = _searched(jobs, objective, slots, found, None if optimal else width)
    return replace(best, shares=tuple(first_shares(jobs, best.order, slots)))


def _candidate(jobs: Sequence[Demand], objective: Objective, slots: int, order: Iterable[int], rule: str) -> Plan:
    order = tuple(order)
    ends = completions(jobs, order, slots)
    return Plan(order, rule, tuple(ends), objective.cost(ends))


def _candidates(jobs: Sequence[Demand], objective: Objective, slots: int) -> list[Plan]:
    return [
        _candidate(jobs, objective, slots, ordering(jobs, objective, slots), ordering.__name__)
        for ordering in orderings(objective)
    ]


def _searched(
    jobs: Sequence[Demand], objective: Objective, slots: int, found: Sequence[Plan], width: int | None
) -> Plan:
    """The best candidate of a local search that starts from the best of ``found``.

    Sums of non-linear penalties have many orders that no single move improves.  For these, the search starts from all
    of ``found``, and partial orders are searched too.  The result is never dearer than the order of arrival.
    """
    curved = objective.total and not objective.linear
    starts = found if curved else found[:1]
    best = min((_moved(jobs, objective, slots, start) for start in starts), key=lambda candidate: candidate.cost)
    if curved or width is None:
        best = _better(jobs, objective, slots, best, best_order(jobs, objective, slots, best.order, width))
    return _better(jobs, objective, slots, best, tuple(range(len(jobs))))


def _moved(jobs: Sequence[Demand], objective: Objective, slots: int, start: Plan) -> Plan:
    """Move one job after the other to another place, as long as this lowers the cost."""
    best, tried, helped = start, {start.order}, True
    while helped:
        helped = False
        for job in range(len(jobs)):
            rest = [other for other in best.order if other != job]
            for place in range(len(jobs)):
                order = (*rest[:place], job, *rest[place:])
                if order not in tried:
                    tried.add(order)
                    better = _better(jobs, objective, slots, best, order)
                    helped = helped or better is not best
                    best = better
    return best


def _better(jobs: Sequence[Demand], objective: Objective, slots: int, best: Plan, order: tuple[int, ...]) -> Plan:
    other = _candidate(jobs, objective, slots, order, "search")
    return other if other.cost < best.cost else best


# ---- orders for the packing scheme, several for every metric (flex, section 3.2) ----
#
# The paper does not give its orders.  Ours are rules of scheduling theory that are optimal on one machine (a cluster is
# one machine when no maximum binds), and the order of the generic scheme (``moldable``):
#
# * by work over weight: Smith (1956), for weighted sums of ends;
# * by deadline: Jackson (1955), for the maximum lateness; Moore and Hodgson (1968) choose the jobs that will be late;
# * from the back: the last place goes to the job that costs least there: Lawler (1973), for the maximum of any
#   penalties; for sums of tardiness, to the job that costs least for its work;
# * by time alone, the longest first: for the makespan where maxima bind.


BACKWARD_JOBS = 200
"""``from_the_back`` looks at all remaining jobs for each place; with more jobs than this it takes too long."""

GENERIC_JOBS = 100
"""With more jobs than this, the generic scheme is not tried for a weighted sum of ends.  It takes half of the time, and
over 240 random instances of 172 jobs its order was better only once, by 0.09%."""

Ordering = Callable[[Sequence[Demand], Objective, int], list[int]]


def by_work_over_weight(jobs: Sequence[Demand], objective: Objective, slots: int) -> list[int]:
    """Smallest remaining work over weight first."""
    return sorted(range(len(jobs)), key=lambda index: _work_over(jobs[index], _weight(objective.penalties[index])))


def by_deadline(jobs: Sequence[Demand], objective: Objective, slots: int) -> list[int]:
    """Earliest deadline first; for step penalties, the deadline of the first step."""
    return sorted(range(len(jobs)), key=lambda index: _deadline(objective.penalties[index]))


def by_time_alone(jobs: Sequence[Demand], objective: Objective, slots: int) -> list[int]:
    """Longest run time at its maximum share first."""
    return sorted(range(len(jobs)), key=lambda index: -ends_ns(jobs[index], min(jobs[index].maximum, slots)))


def on_time_first(jobs: Sequence[Demand], objective: Objective, slots: int) -> list[int]:
    """Jobs that meet their deadlines, by deadline; then the late jobs, chosen as those with the least weight for their
    work."""
    kept: list[int] = []
    late: list[int] = []
    total = 0
    for index in by_deadline(jobs, objective, slots):
        kept.append(index)
        total += jobs[index].work_ns
        while total > max(0, _deadline(objective.penalties[index])) * slots:
            least = max(kept, key=lambda job: _work_over(jobs[job], _weight(objective.penalties[job])))
            kept.remove(least)
            late.append(least)
            total -= jobs[least].work_ns
            if least == index:
                break
    late.sort(key=lambda index: _work_over(jobs[index], _weight(objective.penalties[index])))
    return kept + late


def from_the_back(jobs: Sequence[Demand], objective: Objective, slots: int) -> list[int]:
    """Give the last place to the job that costs least there, then the place before it, and so on; by deadline for more
    than ``BACKWARD_JOBS`` jobs."""
    if len(jobs) > BACKWARD_JOBS:
        return by_deadline(jobs, objective, slots)
    rest = list(range(len(jobs)))
    left = sum(job.work_ns for job in jobs)
    order: list[int] = []
    while rest:
        end = -(-left // slots)

        def cost(index: int, end: int = end) -> tuple[int, int]:
            of_job, work = objective.penalties[index], jobs[index].work_ns
            if objective.total:
                return ((of_job.at(end) - of_job.at(0)) * 1_000_000 // (work or 1), -work)
            return of_job.at(end), -work

        last = min(rest, key=cost)
        rest.remove(last)
        order.append(last)
        left -= jobs[last].work_ns
    return order[::-1]


def generic(jobs: Sequence[Demand], objective: Objective, slots: int) -> list[int]:
    """In the order of the jobs' ends when each holds its best fixed share."""
    shares = best_shares(jobs, objective, slots)
    return sorted(range(len(jobs)), key=lambda index: ends_ns(jobs[index], shares[index]))


def orderings(objective: Objective) -> tuple[Ordering, ...]:
    """The orderings worth trying, the most promising first."""
    if objective.linear:
        return (by_work_over_weight, generic) if len(objective.penalties) <= GENERIC_JOBS else (by_work_over_weight,)
    if objective.total:
        return from_the_back, on_time_first, by_deadline, by_work_over_weight, generic
    return from_the_back, by_deadline, by_time_alone, by_work_over_weight, generic


def _weight(penalty: Penalty) -> int:
    """For step penalties, the height of the first step."""
    return penalty.steps[0][1] if penalty.steps else penalty.weight


def _deadline(penalty: Penalty) -> int:
    return penalty.steps[0][0] if penalty.steps else penalty.due_ns


def _work_over(job: Demand, weight: int) -> int:
    """Work per unit of weight, as a whole number."""
    return (job.work_ns << 64) // weight if weight else NEVER_NS << 64

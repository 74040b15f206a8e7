"""FLEX: packs a few good orders and takes the best (flex, section 3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from emulator.policies.flex.demand import NEVER_NS, Demand, completions, first_shares, normalised
from emulator.policies.flex.optimum import best_order
from emulator.policies.flex.orderings import orderings
from emulator.policies.flex.penalties import Objective
from emulator.vocabulary import Frozen

SEARCHED_JOBS = 12
"""Up to this many jobs, a search goes on from the best orders.  With more jobs, one job in another place matters less,
and the search takes too long."""
BEAM_WIDTH, STEPPED_BEAM_WIDTH = 256, 1024
"""Partial orders that the search keeps; the second value is for step penalties, whose bounds are weaker.  Nearly always
enough for the optimum of ten jobs."""


class Plan(Frozen):
    """The result of FLEX; jobs by index."""

    order: tuple[int, ...]
    """Jobs in the order of service."""
    rule: str
    """The rule that proposed the order."""
    ends_ns: tuple[int, ...]
    """From now; ``NEVER_NS`` for a job without slots."""
    cost: int
    """Value of the objective."""
    shares: tuple[int, ...]
    """Slots until the first job ends: they hold until the next plan is made (flex, section 2.2)."""


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
    return Plan(best.order, best.rule, tuple(best.ends_ns), best.cost, tuple(first_shares(jobs, best.order, slots)))


class _Candidate(Frozen):
    cost: int
    order: tuple[int, ...]
    rule: str
    ends_ns: list[int]


def _candidate(jobs: Sequence[Demand], objective: Objective, slots: int, order: Iterable[int], rule: str) -> _Candidate:
    order = tuple(order)
    ends = completions(jobs, order, slots)
    return _Candidate(objective.cost(ends), order, rule, ends)


def _candidates(jobs: Sequence[Demand], objective: Objective, slots: int) -> list[_Candidate]:
    return [
        _candidate(jobs, objective, slots, ordering(jobs, objective, slots), ordering.__name__)
        for ordering in orderings(objective)
    ]


def _searched(
    jobs: Sequence[Demand], objective: Objective, slots: int, found: Sequence[_Candidate], width: int | None
) -> _Candidate:
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


def _moved(jobs: Sequence[Demand], objective: Objective, slots: int, start: _Candidate) -> _Candidate:
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


def _better(
    jobs: Sequence[Demand], objective: Objective, slots: int, best: _Candidate, order: tuple[int, ...]
) -> _Candidate:
    other = _candidate(jobs, objective, slots, order, "search")
    return other if other.cost < best.cost else best

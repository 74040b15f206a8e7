"""FLEX: the best packing of a few good orders (flex, section 3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from emulator.policies.flex.demand import NEVER_NS, Demand, normalised
from emulator.policies.flex.optimum import best_order
from emulator.policies.flex.orderings import orderings
from emulator.policies.flex.packing import completions, first_shares
from emulator.policies.flex.penalties import Objective
from emulator.vocabulary import Frozen

SEARCHED_JOBS = 12
"""Up to so many jobs it is searched on from the best orders; of more, one in another place matters less, and it takes
too long."""
BEAM_WIDTH, STEPPED_BEAM_WIDTH = 256, 1024
"""Beginnings of an order that the search keeps, and where penalties are steps, whose bounds say less: enough for the
optimum of ten jobs, nearly always."""


class Plan(Frozen):
    """What FLEX answers; jobs by index."""

    order: tuple[int, ...]
    """Whom to serve first."""
    rule: str
    """Where the order comes from."""
    ends_ns: tuple[int, ...]
    """From now; ``NEVER_NS``: without slots."""
    cost: int
    """Of the objective."""
    shares: tuple[int, ...]
    """Slots until the first job ends: what is to be enforced until it is asked again (flex, section 2.2)."""


def plan(jobs: Sequence[Demand], objective: Objective, slots: int, optimal: bool = False) -> Plan:
    """The schedule that costs least of those tried.

    Args:
        jobs: in the order of arrival; minima may ask for more than there is.
        objective: what the ends of the jobs cost, in the same order.
        slots: how many there are; with none, no job ends.
        optimal: try all orders, however long it takes: what FLEX is held against.
    """
    if slots <= 0 or not jobs:
        ends = (NEVER_NS,) * len(jobs)
        return Plan(tuple(range(len(jobs))), "none", ends, objective.cost(ends), (0,) * len(jobs))
    jobs = normalised(jobs, slots)
    found = sorted(_candidates(jobs, objective, slots), key=lambda candidate: candidate.cost)
    best = found[0]
    if optimal or len(jobs) <= SEARCHED_JOBS:
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
    """Better ones near the best of ``found``.

    Sums of penalties that are no straight lines have many orders that no single move makes better: there it goes from
    all of ``found``, and beginnings of orders are searched.
    """
    curved = objective.total and not objective.linear
    starts = found if curved else found[:1]
    best = min((_moved(jobs, objective, slots, start) for start in starts), key=lambda candidate: candidate.cost)
    if curved or width is None:
        best = _better(jobs, objective, slots, best, best_order(jobs, objective, slots, best.order, width))
    return best


def _moved(jobs: Sequence[Demand], objective: Objective, slots: int, start: _Candidate) -> _Candidate:
    """One job after the other put in another place, as long as that helps."""
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

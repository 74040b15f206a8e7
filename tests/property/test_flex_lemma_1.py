"""flex, Lemma 1: some order of the jobs packs into an optimal schedule.

It holds for weighted sums of ends, and for every metric while no maximum binds.  It does not hold in general: two test
cases show that no order will do.
"""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from emulator.policies.flex.demand import completions
from emulator.policies.flex.optimiser import plan
from tests.examples import drawn
from tests.flex_cases import SECOND_NS, all_orders, demands, jobs_of, lines, malleable_optimum

SLOTS = 6
ROUNDING = 1e-6
pairs = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 40)), min_size=4, max_size=4)


@drawn
@given(demands(4, SLOTS, least_work_s=1), pairs)
def test_weighted_sums_of_ends(jobs, pairs) -> None:
    objective = lines(pairs[: len(jobs)], early=True, total=True)
    best = plan(jobs, objective, SLOTS, optimal=True).cost / SECOND_NS
    assert best == pytest.approx(malleable_optimum(jobs, objective, SLOTS), rel=ROUNDING, abs=ROUNDING)


@drawn
@given(demands(4, SLOTS, bound=False, least_work_s=1), pairs, st.booleans(), st.booleans())
def test_any_metric_while_no_maximum_binds(jobs, pairs, early, total) -> None:
    objective = lines(pairs[: len(jobs)], early, total)
    best = plan(jobs, objective, SLOTS, optimal=True).cost / SECOND_NS
    assert best == pytest.approx(malleable_optimum(jobs, objective, SLOTS), rel=ROUNDING, abs=ROUNDING)


@drawn
@given(demands(4, SLOTS, least_work_s=1), pairs, st.booleans(), st.booleans())
def test_no_order_is_better_than_the_optimum(jobs, pairs, early, total) -> None:
    objective = lines(pairs[: len(jobs)], early, total)
    optimum = malleable_optimum(jobs, objective, SLOTS)
    assume(optimum < float("inf"))
    assert plan(jobs, objective, SLOTS, optimal=True).cost / SECOND_NS >= optimum - ROUNDING * max(1, abs(optimum))


def test_not_for_the_largest_lateness() -> None:
    """Two jobs share what the first leaves until it ends, and all three are on time; in any order one is late."""
    jobs = jobs_of((4, 0, 2), (4, 0, 2), (6, 0, 2))
    objective = lines([(1, 2), (1, 3), (1, 4)], early=True, total=False)
    assert malleable_optimum(jobs, objective, 4) == pytest.approx(0, abs=ROUNDING)
    ends = [completions(jobs, order, 4) for order in all_orders(jobs)]
    assert min(objective.cost(of_order) for of_order in ends) == SECOND_NS
    assert plan(jobs, objective, 4, optimal=True).cost == SECOND_NS


def test_not_for_the_makespan() -> None:
    """Three jobs that can use one slot each, and two slots: they must take turns (McNaughton 1959)."""
    jobs = jobs_of((2, 0, 1), (2, 0, 1), (2, 0, 1))
    objective = lines([(1, 0)] * 3, early=True, total=False)
    assert malleable_optimum(jobs, objective, 2) == pytest.approx(3)
    assert plan(jobs, objective, 2, optimal=True).cost == 4 * SECOND_NS

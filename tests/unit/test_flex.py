"""The optimiser of shares: packing, the generic scheme, FLEX, FAIR and FIFO."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.policies.flex import optimum
from emulator.policies.flex.demand import NEVER_NS, Demand, completions, first_shares, normalised
from emulator.policies.flex.moldable import best_shares, ends_ns
from emulator.policies.flex.optimiser import plan
from emulator.policies.flex.penalties import METRICS, ONE, Metric, Objective, Penalty, penalty
from emulator.policies.shares import fair_shares, fifo_shares
from emulator.vocabulary import JobFacts
from tests.examples import drawn
from tests.flex_cases import SECOND_NS, all_orders, demands, jobs_of, lines, steps

SLOTS = 7
costs = st.lists(st.tuples(st.integers(0, 9), st.integers(-5, 40)), min_size=6, max_size=6)


def by_the_pseudocode(jobs: list[Demand], order: tuple[int, ...], slots: int) -> tuple[list[int], list[dict[int, int]]]:
    """Fig. 3, line by line, in exact steps: ends in nanoseconds, rounded up, and the shares that were dealt."""
    now, ends, dealt = Fraction(0), [NEVER_NS] * len(jobs), []
    left = {index: Fraction(job.work_ns) for index, job in enumerate(jobs)}
    while left:
        shares = {index: jobs[index].minimum for index in left}
        slack = slots - sum(shares.values())
        for index in order:
            if index in left and slack > 0:
                more = min(slack, jobs[index].maximum - shares[index])
                shares[index] += more
                slack -= more
        dealt.append(shares)
        after = {
            index: left[index] / share if left[index] else Fraction(0)
            for index, share in shares.items()
            if share or not left[index]
        }
        if not after:
            break
        first = min(after, key=lambda index: (after[index], order.index(index)))
        lasts = after[first]
        now += lasts
        ends[first] = math.ceil(now)
        left = {index: work - shares[index] * lasts for index, work in left.items() if index != first}
    return ends, dealt


@given(demands(6, SLOTS), st.randoms(use_true_random=False))
def test_packing_is_that_of_the_paper(jobs, random) -> None:
    order = random.sample(range(len(jobs)), len(jobs))
    expected, _ = by_the_pseudocode(jobs, tuple(order), SLOTS)
    assert completions(jobs, order, SLOTS) == pytest.approx(expected, abs=len(jobs) + 1)


@given(demands(6, SLOTS, least_work_s=1), st.randoms(use_true_random=False))
def test_the_first_shares_are_those_of_the_paper(jobs, random) -> None:
    order = random.sample(range(len(jobs)), len(jobs))
    _, (first, *_) = by_the_pseudocode(jobs, tuple(order), SLOTS)
    assert first_shares(jobs, order, SLOTS) == [first[index] for index in range(len(jobs))]


@drawn
@given(demands(5, SLOTS), costs, st.booleans(), st.booleans())
def test_the_optimum_is_that_of_all_orders(jobs, costs, early, total) -> None:
    for objective in (lines(costs[: len(jobs)], early, total), steps(costs[: len(jobs)])):
        least = min(objective.cost(completions(jobs, order, SLOTS)) for order in all_orders(jobs))
        found = plan(jobs, objective, SLOTS, optimal=True)
        assert found.cost == objective.cost(found.ends_ns)
        # Beginnings that leave the same within a microsecond count as equal.
        assert found.cost <= least + (1 << 11) * len(jobs) * 9 * (not objective.stepped)


@drawn
@given(demands(4, SLOTS), st.integers(0, SLOTS))
def test_no_packing_ends_before_the_bound_of_the_search(jobs, slots) -> None:
    """Also where there are no slots: a job without work has ended."""
    jobs = normalised(jobs, slots)
    earliest = optimum._ends_together(optimum._slack_of_minima(jobs, slots), jobs, range(len(jobs)))
    for order in all_orders(jobs):
        ends = sorted(completions(jobs, order, slots))
        assert all(bound <= end for bound, end in zip(earliest, ends, strict=True))


@given(demands(6, SLOTS), costs, st.booleans())
def test_flex_serves_within_the_bounds_and_is_no_worse_than_first_come_first_served(jobs, costs, total) -> None:
    objective = lines(costs[: len(jobs)], True, total)
    found = plan(jobs, objective, SLOTS)
    assert sorted(found.order) == list(range(len(jobs)))
    assert sum(found.shares) <= SLOTS
    assert all(share <= job.maximum for job, share in zip(jobs, found.shares, strict=True))
    assert found.cost <= objective.cost(completions(jobs, range(len(jobs)), SLOTS))


def test_the_order_of_arrival_is_taken_where_no_single_move_finds_a_better_one() -> None:
    jobs = jobs_of((8, 2, 4), (7, 0, 3), (10, 1, 2), (10, 1, 2), (0, 2, 2), (10, 1, 2))
    objective = lines([(1, 0)] * 4 + [(0, 0), (1, 0)], True, True)
    arrival = objective.cost(completions(jobs, range(6), SLOTS))
    assert plan(jobs, objective, SLOTS).cost <= arrival


def test_without_search_the_plan_is_the_best_of_the_papers_orders() -> None:
    """Jobs late from the start, one of which another order would have in time."""
    jobs = jobs_of((20, 1, 4), (30, 1, 8), (10, 1, 2), (45, 2, 8))
    objective = steps([(3, 6), (5, 7), (4, 8), (6, 11)])
    searched, published = (plan(jobs, objective, 8, search=search) for search in (True, False))
    assert published.rule != "search"
    assert searched.cost <= published.cost
    assert searched.cost == plan(jobs, objective, 8, optimal=True).cost


@drawn
@given(demands(3, SLOTS, least_work_s=1), costs, st.booleans(), st.booleans())
def test_the_generic_scheme_is_optimal_for_fixed_shares(jobs, costs, total, early) -> None:
    jobs = normalised([Demand(job.name, job.work_ns, max(1, job.minimum), job.maximum) for job in jobs], SLOTS)
    for objective in (lines(costs[: len(jobs)], early, total), steps(costs[: len(jobs)])):

        def cost(shares, objective=objective) -> int:
            return objective.cost([ends_ns(job, share) for job, share in zip(jobs, shares, strict=True)])

        choices = product(*(range(job.minimum, job.maximum + 1) for job in jobs))
        least = min(cost(shares) for shares in choices if sum(shares) <= SLOTS)
        assert cost(best_shares(jobs, objective, SLOTS)) <= least + 9 * len(jobs)  # ends are whole nanoseconds


@given(st.lists(st.tuples(st.integers(1, 10**4), st.integers(1, 5), st.integers(5, 300)), min_size=1, max_size=5))
def test_many_slots_in_steps_are_dealt_as_one_by_one(rows) -> None:
    jobs, slots = normalised(jobs_of(*rows), 500), 500
    objective = lines([(1, 0)] * len(jobs), True, True)
    shares = best_shares(jobs, objective, slots)
    one_by_one = [job.minimum for job in jobs]
    for _ in range(slots - sum(one_by_one)):
        gains = [
            (ends_ns(job, share) - ends_ns(job, share + 1) if share < job.maximum else -1)
            for job, share in zip(jobs, one_by_one, strict=True)
        ]
        if max(gains) < 0:
            break
        one_by_one[gains.index(max(gains))] += 1
    ends = [sum(ends_ns(job, share) for job, share in zip(jobs, found, strict=True)) for found in (shares, one_by_one)]
    assert ends[0] == pytest.approx(ends[1], rel=1e-6)  # ends are whole nanoseconds: not quite convex


@given(demands(8, 20), st.integers(0, 20))
def test_fair_is_one_waterline(jobs, slots) -> None:
    jobs = normalised(jobs, slots)
    shares = fair_shares(jobs, slots)
    working = [(job, share) for job, share in zip(jobs, shares, strict=True) if job.work_ns]
    assert all(share == 0 for job, share in zip(jobs, shares, strict=True) if not job.work_ns)
    assert all(job.minimum <= share <= job.maximum for job, share in working)
    assert sum(shares) == min(slots, sum(job.maximum for job, _ in working))
    could_give = [share for job, share in working if share > job.minimum]
    could_take = [share for job, share in working if share < job.maximum]
    assert not could_give or not could_take or max(could_give) <= min(could_take) + 1


def test_fifo_has_maxima_and_no_minima() -> None:
    jobs = jobs_of((5, 2, 4), (0, 1, 4), (5, 2, 8), (5, 2, 8))
    assert fifo_shares(jobs, 10) == [4, 0, 6, 0]


def test_minima_that_ask_for_too_much_are_lowered_in_proportion() -> None:
    jobs = normalised(jobs_of((1, 30, 100), (1, 20, 100), (1, 10, 100)), 10)
    assert [job.minimum for job in jobs] == [5, 3, 2]
    assert [job.minimum for job in normalised(jobs_of((1, 1, 1), (1, 1, 1), (1, 1, 1)), 2)] == [1, 1, 0]


def test_a_minimum_above_the_maximum_is_the_maximum() -> None:
    (job,) = normalised(jobs_of((5, 8, 3)), 10)
    assert (job.minimum, job.maximum) == (3, 3)


def test_work_of_zero_ends_at_once_and_takes_no_slots() -> None:
    objective = lines([(1, 0), (1, 0)], True, True)
    found = plan(jobs_of((0, 2, 5), (10, 2, 5)), objective, 5)
    assert (found.ends_ns, found.shares) == ((0, 2 * SECOND_NS), (0, 5))


@pytest.mark.parametrize("slots", [0, -3])
def test_without_slots_no_job_ends(slots) -> None:
    found = plan(jobs_of((5, 1, 5), (5, 1, 5)), lines([(1, 0), (1, 0)], True, True), slots)
    assert (found.shares, found.ends_ns) == ((0, 0), (NEVER_NS, NEVER_NS))
    assert plan([], Objective([], True), 5).order == ()


def test_a_job_whose_maximum_is_zero_never_ends() -> None:
    found = plan(jobs_of((5, 0, 0), (5, 0, 5)), lines([(1, 0), (1, 0)], True, True), 5)
    assert found.ends_ns == (NEVER_NS, SECOND_NS)


def test_who_weighs_nothing_comes_last() -> None:
    jobs = jobs_of((1, 0, 5), (50, 0, 5))
    assert plan(jobs, lines([(0, 0), (1, 0)], True, True), 5).order[0] == 1


def test_where_nobody_weighs_anything_all_is_done_and_costs_nothing() -> None:
    jobs = jobs_of((10, 0, 5), (5, 0, 5))
    for objective in (lines([(0, 0)] * 2, True, True), lines([(0, 3)] * 2, False, False), steps([(0, 3)] * 2)):
        found = plan(jobs, objective, 5)
        assert (found.cost, sum(found.shares), max(found.ends_ns)) == (0, 5, 3 * SECOND_NS)


@pytest.mark.parametrize(("early", "total", "cost_s"), [(False, True, 13), (True, True, 13), (False, False, 7)])
def test_jobs_whose_deadlines_have_passed_are_late_by_as_little_as_can_be(early, total, cost_s) -> None:
    """Ends at 2 s and 4 s, deadlines 4 s and 3 s ago: the largest is 7 s if the first goes first, else 8."""
    found = plan(jobs_of((10, 0, 5), (10, 0, 5)), lines([(1, -4), (1, -3)], early, total), 5)
    assert found.cost == cost_s * SECOND_NS


def test_deadlines_in_the_past_are_late_whatever_is_done() -> None:
    jobs = jobs_of((10, 0, 5), (10, 0, 5))
    found = plan(jobs, steps([(1, -3), (1, 3)]), 5)
    assert (found.cost, found.order[0]) == (1, 1)


FACTS = JobFacts(
    "job", "default", weight_ppm=500_000, deadline_ns=9 * SECOND_NS,
    sla=((5 * SECOND_NS, 1_000_000), (9 * SECOND_NS, 3_000_000)),
)  # fmt: skip


def penalty_of(metric: Metric, now_s: int = 0) -> Penalty:
    """Of a job submitted at 2 s that takes 4 s alone."""
    return penalty(metric, FACTS, 2 * SECOND_NS, 4 * SECOND_NS, now_s * SECOND_NS)


@pytest.mark.parametrize(
    ("metric", "expected"),  # in weighted seconds, of an end at 6 s and at 10 s, asked at 4 s
    [
        (Metric("response"), (4, 8)),
        (Metric("response", weighted=True), (2, 4)),
        (Metric("makespan"), (6, 10)),
        (Metric("stretch"), (1, 2)),
        (Metric("tardy"), (0, 1)),
        (Metric("tardy", weighted=True), (0, 0.5)),
        (Metric("tardiness"), (0, 1)),
        (Metric("lateness"), (-3, 1)),
        (Metric("sla"), (1, 3)),
    ],
)
def test_penalties(metric, expected) -> None:
    of_job = penalty_of(metric, now_s=4)
    assert tuple(of_job.at(end * SECOND_NS) / (ONE * SECOND_NS) for end in (2, 6)) == expected


def test_a_job_without_a_deadline_is_never_late() -> None:
    for name in ("tardy", "tardiness", "sla"):
        assert penalty(Metric(name), JobFacts("job", "default"), 0, 1, 0).at(10**18) == 0


def test_of_a_number_only_the_sum_is_a_metric() -> None:
    with pytest.raises(ValueError, match="of tardy only the sum"):
        Metric("tardy", sum=False)


@given(st.sampled_from(sorted(METRICS)), st.booleans(), st.integers(0, 10**11), st.integers(0, 10**11))
def test_penalties_never_fall(name, weighted, earlier, later) -> None:
    of_job = penalty_of(Metric(name, weighted))
    assert of_job.at(min(earlier, later)) <= of_job.at(max(earlier, later))

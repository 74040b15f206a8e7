"""Adaptive, Reverse-Adaptive and the fewest misses: the fit, the utility, the shares, against slower ways to them."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from emulator.core.decisions import share_out
from emulator.experiment.availability import capacity_of
from emulator.experiment.catalog import catalog_directory
from emulator.experiment.load import load_experiment
from emulator.experiment.model import Choice
from emulator.experiment.policies import find_policy
from emulator.fluid.model import simulate
from emulator.policies.axes import ALLOCATION
from emulator.policies.capacity import Capacity
from emulator.policies.policy import AllocationPolicy
from emulator.policies.reverse_adaptive.allocations import kept_goals
from emulator.policies.reverse_adaptive.fitting import Goal, chances, fitted, left_over
from emulator.policies.reverse_adaptive.utility import (
    LEAST,
    ONE,
    Needs,
    at_utility,
    map_utility,
    max_min_shares,
    reduce_utility,
)
from emulator.policies.views import ClusterView, JobView, Known, QueueView
from emulator.vocabulary import HOUR_NS, JobFacts, map_reduce
from tests.examples import fixed
from tests.unit.test_fluid import QUEUES, SECOND_NS, job

NAMES = ("adaptive", "reverse-adaptive", "fewest-misses")
GOALS = st.lists(st.builds(Goal, st.integers(1, 30), st.integers(0, 60), st.integers(1, 9)), min_size=1, max_size=6)
STEPS = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=5)


def capacity(gaps: list[tuple[int, int]], first: int = 4) -> Capacity:
    instants = itertools.accumulate(gap for gap, _ in gaps)
    return Capacity([(0, first), *((at, count) for at, (_, count) in zip(instants, gaps, strict=True))])


# ---- the fit ----


@given(GOALS, STEPS, st.integers(0, 12))
def test_the_fit_keeps_to_capacity_deadlines_and_widths(goals: list[Goal], gaps, start: int) -> None:
    left, periods = fitted(goals, capacity(gaps), start)
    for period in periods:
        assert sum(work for _, work in period.fitted_ns) <= capacity(gaps).between(period.start_ns, period.end_ns)
        for index, work in period.fitted_ns:
            assert period.start_ns >= start
            assert goals[index].deadline_ns >= period.end_ns
            assert work <= goals[index].most * (period.end_ns - period.start_ns)
    for index, goal in enumerate(goals):
        done = sum(work for period in periods for mine, work in period.fitted_ns if mine == index)
        assert left[index] == goal.work_ns - done >= 0


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 60)), min_size=1, max_size=6), STEPS, st.integers(0, 12))
def test_of_wide_jobs_what_is_left_is_what_no_schedule_could_do(pairs, gaps, start: int) -> None:
    """Of the jobs with deadlines up to an instant, all but the capacity until then is left: by the closed form."""
    goals = [Goal(deadline, work, 1000) for deadline, work in pairs]
    supply, left = capacity(gaps), left_over(goals, capacity(gaps), start)
    due = sorted({max(start, goal.deadline_ns) for goal in goals})
    short = [
        sum(goal.work_ns for goal in goals if max(start, goal.deadline_ns) <= end) - supply.between(start, end)
        for end in due
    ]
    assert sum(left) == max(0, *short)
    earliest_first = sorted(range(len(goals)), key=lambda index: (goals[index].deadline_ns, index))
    cut = [index for index in earliest_first if 0 < left[index] < goals[index].work_ns]
    assert len(cut) <= len(due)


def test_the_papers_steps() -> None:
    """Fig. 3: J3 has most of its room after D2, J2 between D1 and D2 beside the rest of J3, J1 before D1."""
    goals = [Goal(7, 30, 99), Goal(15, 40, 99), Goal(23, 50, 99)]
    left, periods = fitted(goals, Capacity([(0, 6), (7, 5), (15, 5)]), 0)
    assert [period.fitted_ns for period in periods] == [((2, 40),), ((2, 10), (1, 30)), ((1, 10), (0, 30))]
    assert left == [0, 0, 0]
    assert fitted(goals, Capacity([(0, 5), (7, 5), (15, 5)]), 1)[0] == [10, 0, 0], "what cannot wait is the earliest's"


# ---- the utility ----


def test_figure_4() -> None:
    """s_fit 10, s_req 15, s_pend 35, r_pend 10."""
    points = {0: -math.inf, 1: -1.0, 10: 0.0, 15: 0.5, 25: 0.75, 35: 1.0, 50: 1.0}
    assert {alloc: map_utility(alloc, 10, 15, 35) for alloc in points} == pytest.approx(points)
    assert map_utility(5, 10, 15, 35) == pytest.approx(math.log(5) / math.log(10) - 1)
    assert map_utility(20, 10, 8, 40) == pytest.approx(10 / 30)
    assert [reduce_utility(alloc, 10) for alloc in (0, 1, 10, 20)] == [-math.inf, -1, 0, 0]


NEEDS = st.lists(st.tuples(*[st.integers(0, 40)] * 3).map(sorted), min_size=1, max_size=6)


def needs_of(rows: list[list[int]], late: list[bool]) -> Needs:
    """Of some jobs less is required on average than fits no later."""
    fits = [row[1] if swap else row[0] for row, swap in zip(rows, late, strict=False)]
    required = [row[0] if swap else row[1] for row, swap in zip(rows, late, strict=False)]
    return Needs.of(fits, required, [row[2] for row in rows])


@given(NEEDS, st.lists(st.booleans(), min_size=6, max_size=6), st.integers(LEAST, ONE))
def test_the_inverse_gives_no_more_than_the_utility(rows, late, utility: int) -> None:
    needs = needs_of(rows, late)
    given_ = at_utility(needs, utility).tolist()
    for alloc, fit, required, pending in zip(given_, *(part.tolist() for part in needs), strict=True):
        if alloc > (1 if fit else 0) and alloc < pending:
            assert map_utility(alloc, fit, required, pending) <= utility / ONE + 1e-6
        if alloc < pending and alloc >= 1:
            assert map_utility(alloc + 1, fit, required, pending) > utility / ONE - 1e-4


@given(NEEDS, st.lists(st.booleans(), min_size=6, max_size=6), st.integers(0, 120))
def test_no_container_would_make_the_least_satisfied_more_satisfied(rows, late, containers: int) -> None:
    needs = needs_of(rows, late)
    shares = max_min_shares(needs, containers)
    rows_of = list(zip(*(part.tolist() for part in needs), strict=True))
    assert sum(shares) == min(containers, sum(pending for _, _, pending in rows_of))
    assert all(0 <= share <= pending for share, (_, _, pending) in zip(shares, rows_of, strict=True))
    utilities = [map_utility(share, *row) if row[2] else 1.0 for share, row in zip(shares, rows_of, strict=True)]
    for poor, rich in itertools.permutations(range(len(rows_of)), 2):
        if shares[rich] and shares[poor] < rows_of[poor][2]:  # one container from the rich to the poor
            after = map_utility(shares[rich] - 1, *rows_of[rich])
            assert min(utilities[poor], utilities[rich]) >= min(after, utilities[poor]) - 1e-4
            assert after <= utilities[poor] + 1e-4 or after < map_utility(shares[poor] + 1, *rows_of[poor]) + 1e-4


@given(NEEDS, st.lists(st.booleans(), min_size=6, max_size=6), st.integers(0, 120))
def test_the_shares_are_those_of_the_highest_utility_that_the_containers_allow(rows, late, containers: int) -> None:
    needs = needs_of(rows, late)
    shares = numpy.array(max_min_shares(needs, containers))
    allowed = [at_utility(needs, utility) for utility in (LEAST, 0, *range(LEAST, ONE, 997), ONE)]
    for of_utility in allowed:
        given_to_all = int(of_utility.sum())
        assert (shares >= of_utility).all() or given_to_all > containers
        assert (shares <= of_utility).all() or given_to_all < containers


# ---- the policies ----


def chosen(name: str, cycle_s: float = 1, **options: str) -> AllocationPolicy:
    return find_policy(ALLOCATION, Choice(name=name, cycle_s=cycle_s, **options), Path.cwd())  # type: ignore[call-arg]


def giving_up(rule: str) -> dict[str, AllocationPolicy]:
    """The policies, with a rule for jobs that cannot meet their deadlines."""
    ours = {name: chosen(name, gives_up=rule) for name in NAMES[:2]}
    return {**ours, "fewest-misses": chosen("fewest-misses")}


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 20), st.none() | st.integers(1, 40)), min_size=1, max_size=5),
    st.sampled_from(NAMES),
)
def test_all_work_is_done_deadlines_or_not(rows, name: str) -> None:
    jobs = [
        job(f"job-{i}", tasks, submit, 3, deadline_ns=None if due is None else (submit + due) * SECOND_NS)
        for i, (tasks, submit, due) in enumerate(rows)
    ]
    outcome = simulate(jobs, QUEUES, Capacity([(0, 8), (9 * SECOND_NS, 2), (20 * SECOND_NS, 6)]), chosen(name))
    assert set(outcome.ends_ns) == {spec.name for spec in jobs}


@given(
    st.lists(st.tuples(st.integers(1, 8), st.integers(1, 40)), min_size=1, max_size=5),
    STEPS.filter(lambda gaps: gaps[-1][1] > 0),
)
@example([(1, 4), (1, 24), (6, 22), (7, 14)], [(1, 9)])
@fixed
def test_what_can_meet_its_deadlines_does_under_reverse_adaptive(rows, gaps) -> None:
    """Jobs that are all there, and could all meet them with some room, do so."""
    supply = Capacity([(at * SECOND_NS, 20 * count) for at, count in capacity(gaps).steps])
    jobs = [job(f"job-{i}", 200 * tasks, 0, 1, deadline_ns=due * SECOND_NS) for i, (tasks, due) in enumerate(rows)]
    goals = [Goal(spec.facts.deadline_ns or 0, sum(spec.map_ns), 10**6) for spec in jobs]
    slack = [Goal(goal.deadline_ns - 2 * SECOND_NS, goal.work_ns * 5 // 4, goal.most) for goal in goals]
    if any(left_over(slack, supply, 0)) or any(goal.deadline_ns <= 2 * SECOND_NS for goal in goals):
        return
    outcome = simulate(jobs, QUEUES, supply, chosen("reverse-adaptive"))
    assert all(outcome.ends_ns[spec.name] <= (spec.facts.deadline_ns or 0) for spec in jobs)


@pytest.mark.parametrize("cycle_s", [1, 10, 30, 60, 300])
def test_a_job_that_is_due_within_the_cycle_is_in_time(cycle_s: float) -> None:
    """It is due in 30 s and needs four of ten containers until then; the other job needs nearly all that is left."""
    jobs = [job("due", 8, 0, 15, deadline_ns=30 * SECOND_NS), job("later", 97, 0, 60, deadline_ns=600 * SECOND_NS)]
    ends = simulate(jobs, QUEUES, Capacity([(0, 10)]), chosen("reverse-adaptive", cycle_s)).ends_ns
    assert ends["due"] <= 30 * SECOND_NS
    assert ends["later"] <= 600 * SECOND_NS


def test_a_stable_forecast_draws_fig_1() -> None:
    """Until 4.75 h all jobs hold containers, then J1 alone until it ends at 7.15 h, then both others; D1 and D2 are
    missed."""
    experiment = load_experiment(catalog_directory() / "reverse-adaptive-example.yaml", ())
    supply = capacity_of(experiment.cluster.availability, 100)
    jobs = [
        job(entry.name, entry.maps, 0, 387, deadline_ns=round((entry.deadline_s or 0) * SECOND_NS))
        for entry in experiment.workload.jobs or ()
    ]
    outcome = simulate(jobs, QUEUES, supply, chosen("reverse-adaptive", 60), Capacity([(0, 100)]))
    holders = [(step.start_ns / HOUR_NS, {name for name, _ in step.shares}) for step in outcome.steps]
    changes = [here for before, here in itertools.pairwise([(0.0, set[str]()), *holders]) if before[1] != here[1]]
    assert [names for _, names in changes[:3]] == [{"J1", "J2", "J3"}, {"J1"}, {"J2", "J3"}]
    assert [at_h for at_h, _ in changes[:3]] == pytest.approx([0, 4.75, 7.15], abs=0.02)
    assert [outcome.ends_ns[spec.name] <= (spec.facts.deadline_ns or 0) for spec in jobs] == [False, False, True]


@given(st.integers(1, 30), st.integers(0, 60), st.integers(1, 9), STEPS, st.integers(0, 35))
def test_a_deadline_can_be_met_if_all_the_work_fits_before_it(due: int, work: int, most: int, gaps, now: int) -> None:
    supply, wide, narrow = capacity(gaps), Goal(due, work, 10**6), Goal(due, work, most)
    fits = due >= now and not any(left_over([wide], supply, now))
    assert chances([wide], now, supply) == [fits]
    assert chances([narrow], now) == [(due >= now and work <= most * (due - now))]
    assert chances([narrow], now, supply) == [fits and chances([narrow], now)[0]]


@pytest.mark.parametrize("rule", ["by-deadline", "by-forecast"])
def test_a_job_that_is_given_up_is_done_all_the_same_and_drags_no_other(rule: str) -> None:
    never = [job("never", 8, 0, 100, deadline_ns=SECOND_NS), job("can", 8, 0, 2, deadline_ns=30 * SECOND_NS)]
    outcomes = {name: simulate(never, QUEUES, Capacity([(0, 8)]), policy) for name, policy in giving_up(rule).items()}
    assert all(set(outcome.ends_ns) == {"never", "can"} for outcome in outcomes.values())
    assert {outcome.ends_ns["can"] for outcome in outcomes.values()} == {2 * SECOND_NS}, "it gives way to what can"


@pytest.mark.parametrize("name", NAMES[:2])
def test_a_job_whose_task_runs_longer_than_expected_keeps_its_container(name: str) -> None:
    """By its mean length all its work is done, but it has not ended."""
    facts = JobFacts("long", "default", groups=map_reduce(1, 0), deadline_ns=SECOND_NS)
    runs = JobView(
        facts, 0, 0, 1, 1, 0, work_ns=SECOND_NS, work_left_ns=SECOND_NS, task_ns=SECOND_NS, begun_ns=SECOND_NS
    )
    other = JobView(JobFacts("other", "default", groups=map_reduce(9, 0)), 1, 0, 0, 0, 9, work_ns=9, work_left_ns=9)
    view = ClusterView(0, Known((QueueView("default", 0, 0, 2, 1, 9),), (runs, other), containers=2))
    assert dict(share_out(chosen(name), view).shares) == {"long": 1, "other": 1}


@pytest.mark.parametrize("name", NAMES[:2])
def test_by_the_papers_text_a_job_past_its_deadline_needs_all_that_it_can_use(name: str) -> None:
    """Algorithm 1: nothing is taken off its s_fit = s_pend, so it is the least satisfied of all."""
    jobs = [job("late", 8, 0, 100, deadline_ns=SECOND_NS), job("can", 8, 0, 2, deadline_ns=60 * SECOND_NS)]
    first = simulate(jobs, QUEUES, Capacity([(0, 8)]), chosen(name)).steps[0]
    assert dict(first.shares)["late"] >= 7
    assert simulate(jobs, QUEUES, Capacity([(0, 8)]), chosen(name, gives_up="by-deadline")).steps[0].shares == (
        ("can", 8),
    )


@pytest.mark.parametrize(("rule", "knows"), [("never", False), ("by-deadline", False), ("by-forecast", True)])
def test_the_forecast_is_used_for_giving_up_only_where_it_is_asked_for(rule: str, knows: bool) -> None:
    """All containers until the deadline would do the work if they stayed; the forecast says that they do not."""
    supply = Capacity([(0, 8), (4 * SECOND_NS, 1)])
    jobs = [
        job("too-much", 8, 0, 10, deadline_ns=15 * SECOND_NS),
        job("fits", 8, 0, 4, deadline_ns=6 * SECOND_NS),
    ]
    ends = {name: simulate(jobs, QUEUES, supply, policy).ends_ns["fits"] for name, policy in giving_up(rule).items()}
    assert ends["fewest-misses"] == 4 * SECOND_NS
    assert {name: ends[name] == 4 * SECOND_NS for name in NAMES[:2]} == dict.fromkeys(NAMES[:2], knows)


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(1, 60)), min_size=1, max_size=7), STEPS, st.integers(0, 5))
def test_the_fewest_misses_are_those_of_all_subsets(pairs, gaps, now: int) -> None:
    goals = [Goal(deadline, work, 10**6) for deadline, work in pairs]
    supply = capacity(gaps)

    def can(subset: tuple[int, ...]) -> bool:
        return not any(left_over([goals[index] for index in subset], supply, now))

    most = max(size for size in range(len(goals) + 1) if any(map(can, itertools.combinations(range(len(goals)), size))))
    kept = kept_goals(goals, supply, now)
    assert len(kept) == most
    assert can(tuple(kept))


def test_options_are_checked() -> None:
    view = ClusterView(
        0,
        Known(
            (QueueView("default", 0, 0, 8, 0, 0),),
            (JobView(JobFacts("a", "default", groups=map_reduce(9, 0)), 0, 0, 0, 0, 9, work_ns=9, work_left_ns=9),),
            containers=8,
        ),
    )
    for name in NAMES:
        decision = share_out(chosen(name, 2.5), view)
        assert (decision.shares, decision.valid_until_ns) == ((("a", 8),), 2_500_000_000)
        with pytest.raises(Exception, match="cycle_s"):
            chosen(name, 0)

"""Capacity in time: what a file says is what there is, exactly; what cannot be is refused with its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.experiment.availability import (
    Availability,
    Forecast,
    ForecastError,
    capacity_of,
    forecast_of,
)
from emulator.experiment.expand import expand
from emulator.experiment.load import load_experiment
from emulator.fluid.model import Stuck, simulate
from emulator.fluid.session import simulated
from emulator.policies.axes import ALLOCATION
from emulator.policies.capacity import Capacity
from emulator.policies.policy import AllocationPolicy
from emulator.policies.views import ClusterView, ShareDecision
from emulator.resolved import resolve
from emulator.vocabulary import HOUR_NS, SECOND_NS
from tests.experiment_files import refusal, write
from tests.unit.test_fluid import EXPERIMENT, QUEUES, job

DAY_S = 86400.0
DAY = Availability(spline=((0, 60), (6 * 3600, 90), (18 * 3600, 20)), period_s=DAY_S)


# ---- the function of time ----


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 9)), max_size=6),
    st.integers(0, 9),
    st.integers(1, 60) | st.none(),
    st.lists(st.integers(0, 500), min_size=2, max_size=6),
)
def test_what_lies_between_two_instants_is_the_sum_of_what_there_is(gaps, first, tail, instants) -> None:
    steps, now = [(0, first)], 0
    for gap, count in gaps:
        now += gap
        steps.append((now, count))
    capacity = Capacity(steps, None if tail is None else now + tail)
    start, end = min(instants), max(instants)
    assert capacity.between(start, end) == sum(capacity.at(instant) for instant in range(start, end))
    for instant in instants:
        change = capacity.next_change_ns(instant)
        last = instant + 600 if change is None else change
        assert len({capacity.at(between) for between in range(instant, last)}) == 1
        assert change is None or change > instant


@pytest.mark.parametrize(
    ("steps", "period"),
    [([], None), ([(1, 5)], None), ([(0, 5), (0, 6)], None), ([(0, -1)], None), ([(0, 5), (9, 6)], 9)],
)
def test_what_is_no_function_of_time_is_refused(steps: list[tuple[int, int]], period: int | None) -> None:
    with pytest.raises(ValueError, match="capacity"):
        Capacity(steps, period)


def test_a_day_comes_again() -> None:
    capacity = capacity_of(DAY, 100)
    for hour in range(24):
        assert capacity.at(hour * HOUR_NS) == capacity.at((hour + 7 * 24) * HOUR_NS)
    assert capacity.between(0, 7 * 24 * HOUR_NS) == 7 * capacity.between(24 * HOUR_NS, 48 * HOUR_NS)
    counts = [capacity.at(minute * 60 * SECOND_NS) for minute in range(24 * 60)]
    assert (min(counts), max(counts)) == (20, 89), "a step is as high as the curve in its middle, rounded down"
    assert abs(counts[-1] - counts[0]) <= 1, "the end of a day goes over into the next"
    assert counts[6 * 60 : 18 * 60] == sorted(counts[6 * 60 : 18 * 60], reverse=True)


def test_without_a_period_the_last_value_stays() -> None:
    capacity = capacity_of(Availability(spline=((0, 10), (100, 50)), step_s=10), 100)
    assert [capacity.at(second * SECOND_NS) for second in (0, 100, 10_000)] == [12, 50, 50]
    assert capacity_of(Availability(steps=((5, 1),)), 8).steps == ((0, 8), (5 * SECOND_NS, 1))


def test_a_file_is_steps(tmp_path: Path) -> None:
    counts = write(tmp_path, "time_s,containers\n0,8\n60.5,0\n3600,4\n", "f.csv")
    shares = write(tmp_path, "time_s,share\n0,1\n60.5,0\n3600,0.5\n", "s.csv")
    of_file = capacity_of(Availability(file=str(counts), period_s=7200), 8)
    assert of_file.steps == ((0, 8), (60_500_000_000, 0), (HOUR_NS, 4))
    assert capacity_of(Availability(file=str(shares), period_s=7200), 8).steps == of_file.steps


@given(st.floats(0, 0.5), st.floats(-0.5, 0.5), st.integers(0, 99))
def test_a_forecast_is_wrong_by_its_error(sigma: float, bias: float, seed: int) -> None:
    told = DAY.model_copy(update={"forecast": Forecast(error=ForecastError(sigma=sigma, bias=bias))})
    truth, believed = capacity_of(told, 1000), forecast_of(told, 1000, seed)
    week_ns = 7 * 24 * HOUR_NS
    ratio = believed.between(0, week_ns) / truth.between(0, week_ns)
    assert ratio == pytest.approx(1 + bias, abs=0.03 + sigma / 2)
    assert believed.most <= 1000
    assert believed.steps == forecast_of(told, 1000, seed).steps
    if not sigma and not bias:
        assert believed.steps == truth.steps


def test_a_stable_forecast_has_the_whole_cluster_always() -> None:
    told = DAY.model_copy(update={"forecast": Forecast(kind="stable")})
    believed = forecast_of(told, 1000, 1)
    assert (believed.steps, believed.period_ns) == (((0, 1000),), None)
    assert capacity_of(told, 1000).steps == capacity_of(DAY, 1000).steps


def test_policies_are_told_the_forecast_and_given_the_truth(tmp_path: Path) -> None:
    seen: list[tuple[int, int, int]] = []

    def own(view: ClusterView) -> ShareDecision:
        seen.append((view.containers, view.forecast.at(view.now_ns), view.forecast.at(20 * SECOND_NS)))
        return ShareDecision((("only", view.containers),))

    simulate(
        [job("only", 8, task_s=10)],
        QUEUES,
        Capacity([(0, 8), (5 * SECOND_NS, 2)]),
        AllocationPolicy("own", own, "test"),
        Capacity([(0, 7), (10 * SECOND_NS, 1)]),
    )
    assert seen == [(8, 7, 1), (2, 7, 1)]


def test_a_capacity_that_comes_again_and_is_never_used_ends_the_run() -> None:
    def nothing(view: ClusterView) -> ShareDecision:
        return ShareDecision(())

    capacity = Capacity([(0, 8), (SECOND_NS, 2)], 2 * SECOND_NS)
    with pytest.raises(Stuck, match="only hold no containers"):
        simulate([job("only", 8)], QUEUES, capacity, AllocationPolicy("own", nothing, "test"))
    waits = [job("late", 8, submit_s=100, task_s=10)]
    assert simulate(waits, QUEUES, capacity, ALLOCATION.by_name["fair"]).ends_ns["late"] > 110 * SECOND_NS


# ---- experiment files ----


@pytest.mark.parametrize(
    ("availability", "words"),
    [
        ("{steps: [[5, 1], [5, 2]]}", ["must increase"]),
        ("{steps: [[0, 9]]}", ["steps.0", "9 is more than the 8 containers of the cluster"]),
        ("{spline: [[0, 8], [50, 9]]}", ["spline.1", "9 is more than the 8 containers of the cluster"]),
        ("{steps: [[0, -1]]}", ["steps.0"]),
        ("{steps: [[-1, 1]]}", ["steps.0"]),
        ("{steps: [[0, .nan]]}", ["steps.0"]),
        ("{steps: [[.nan, 1]]}", ["steps.0"]),
        ("{steps: [[0, 1.5]]}", ["steps.0"]),
        ("{steps: [[5, 1]], period_s: 60}", ["the first time must be 0 s, not 5"]),
        ("{spline: [[5, 1], [9, 2]]}", ["the first time must be 0 s, not 5"]),
        ("{spline: [[0, 1]]}", ["spline"]),
        ("{spline: [[0, 1], [90, 2]], period_s: 90}", ["must be before period_s"]),
        ("{spline: [[0, 1], [90000, 2]], step_s: 0.01}", ["more than 100000 steps; raise it"]),
        ("{steps: [[0, 1]], spline: [[0, 1], [9, 2]]}", ["exactly one of steps, spline and file"]),
        ("{}", ["exactly one of steps, spline and file"]),
        ("{steps: [[0, 1]], period_s: 1}", ["period_s"]),
        ("{steps: [[0, 1]], forecast: {error: {sigma: -1}}}", ["sigma"]),
        ("{steps: [[0, 1]], forecast: {error: {bias: .inf}}}", ["bias"]),
        ("{steps: [[0, 1]], forecast: {file: nowhere.csv}}", ["nowhere.csv", "cannot be read"]),
        (
            "{steps: [[0, 1]], forecast: {kind: stable, file: here.csv}}",
            ["forecast", "a stable forecast needs no file"],
        ),
        ("{file: nowhere.csv}", ["nowhere.csv", "cannot be read"]),
    ],
)
def test_an_availability_that_cannot_be_is_said_with_its_field(
    tmp_path: Path, availability: str, words: list[str]
) -> None:
    path = write(tmp_path, EXPERIMENT.replace("nodes: 2,", f"nodes: 2, availability: {availability},"))
    message = refusal(path)
    assert all(word in message for word in ["cluster.availability", *words]), message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ":1: must be time_s,containers or time_s,share"),
        ("time_s,containers\n", "has no rows"),
        ("time_s,containers\n5,1\n", ":2: the times must increase from 0"),
        ("time_s,containers\n0,1\n9,2\n9,3\n", ":4: the times must increase"),
        ("time_s,containers\n0,9\n", ":2: containers: must be from 0 to 8, not 9"),
        ("time_s,containers\n0,-1\n", ":2: containers: must be from 0 to 8, not -1"),
        ("time_s,containers\n0,nan\n", ":2: containers: must be from 0 to 8, not nan"),
        ("time_s,containers\n0,1\n60,\n120,3\n", ":3: containers: is missing; add the value"),
        ("time_s,containers\n0,1.5\n", ":2: containers must be a whole number"),
        ("time_s,share\n0,1.5\n", ":2: share: must be from 0 to 1"),
        ("time_s,containers\n0,many\n", ":2: containers: 'many' is not a number"),
        ("time_s,containers\n0,1\n7200,3\n", ":3: 7200 is not before period_s 7200"),
        ("time_s,containers\n0,1,2\n", ":2: must have 2 values, not 3"),
    ],
)
def test_a_broken_file_is_said_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    write(tmp_path, text, "f.csv")
    named = EXPERIMENT.replace("nodes: 2,", "nodes: 2, availability: {file: f.csv, period_s: 7200},")
    assert f"f.csv{words}" in refusal(write(tmp_path, named)) or f"f.csv: {words}" in refusal(write(tmp_path, named))


def test_the_fluid_engine_keeps_it_at_once(tmp_path: Path) -> None:
    path = write(tmp_path, EXPERIMENT.replace("nodes: 2,", "nodes: 2, availability: {steps: [[5, 1]]},"))
    experiment = load_experiment(path)
    jobs = expand(experiment, 1)
    assert simulated(resolve(experiment, jobs), lambda records: None)[1].ends_ns["long"] == 45 * SECOND_NS

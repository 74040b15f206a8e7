"""Metrics and statistics of distributions, on figures that can be checked by hand or against scipy."""

from __future__ import annotations

import math

import numpy
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from analysis import metrics, statistics
from analysis.curves import steps
from analysis.frames import DataFrame, pandas

FINITE = st.floats(-1e6, 1e6, allow_nan=False)


def test_jain_fairness() -> None:
    assert metrics.jain_fairness([5, 5, 5]) == pytest.approx(1)
    assert metrics.jain_fairness([1, 0, 0, 0]) == pytest.approx(0.25)
    assert metrics.jain_fairness([1, 3, math.nan]) == pytest.approx(16 / 20)
    assert math.isnan(metrics.jain_fairness([]))


def test_tails_and_cdf() -> None:
    assert metrics.tails([*range(101), math.nan]) == {"p50": 50, "p90": 90, "p95": 95, "p99": 99, "max": 100}
    assert all(math.isnan(value) for value in metrics.tails([]).values())
    values, shares = metrics.cdf([3, 1, math.nan, 2, 2])
    assert values.tolist() == [1, 2, 2, 3]
    assert shares.tolist() == [0.25, 0.5, 0.75, 1]


@given(st.lists(st.tuples(FINITE, st.floats(0, 1e5))), FINITE)
def test_steps_count_the_open_intervals(intervals: list[tuple[float, float]], at_s: float) -> None:
    ends = [start + length for start, length in intervals]
    times_s, counts = steps([start for start, _ in intervals], ends)
    place = int(numpy.searchsorted(times_s, at_s, side="right")) - 1
    found = counts[place] if place >= 0 else 0
    assert found == sum(start <= at_s < end for (start, _), end in zip(intervals, ends, strict=True))


def test_an_interval_that_never_ends_stays_open() -> None:
    times_s, counts = steps([1, 2], [math.nan, 5])
    assert (times_s.tolist(), counts.tolist()) == ([1, 2, 5], [1, 2, 1])


def test_missed_deadlines() -> None:
    jobs = pandas.DataFrame(
        {
            "run": "r",
            "repeat": 1,
            "job": ["early", "late", "failed", "free"],
            "queue": "q",
            "submit_s": 0.0,
            "start_s": 1.0,
            "finish_s": [5.0, 15.0, 5.0, 5.0],
            "completion_s": [5.0, 15.0, 5.0, 5.0],
            "deadline_s": [10.0, 10.0, 10.0, math.nan],
            "margin_s": [5.0, -5.0, 5.0, math.nan],
            "state": ["succeeded", "succeeded", "failed", "succeeded"],
            "suspensions": 0,
            "kills": 0,
            "useful_s": [8.0, 8.0, 0.0, 8.0],
            "lost_work_s": [0.0, 8.0, 0.0, 0.0],
        }
    )
    names = [name for name in jobs["job"] for _ in range(2)]
    tasks = pandas.DataFrame({"run": "r", "repeat": 1, "job": names, "kind": ["map", "reduce"] * 4, "length_s": 4.0})
    found = metrics.job_metrics(jobs, tasks, 1)
    assert found["missed"].tolist() == [False, True, True, None]
    assert found["ideal_s"].tolist() == [8, 8, 8, 8]
    assert found["stretch"].tolist() == [0.625, 1.875, 0.625, 0.625]
    assert found["wasted_fraction"].tolist() == [0, 0.5, 0, 0]
    (queue,) = metrics.queue_metrics(found).to_dict("records")
    assert (queue["deadlines"], queue["missed"], queue["failed"]) == (3, 2, 1)
    assert metrics.job_metrics(jobs, tasks, 100)["ideal_s"].tolist() == [8, 8, 8, 8], "one task after the other"


def test_spread_and_its_interval() -> None:
    values = numpy.random.default_rng(3).normal(10, 2, 200)
    found = statistics.spread([*values, math.nan])
    assert found.n == 200
    assert found.mean == pytest.approx(values.mean())
    assert found.sd == pytest.approx(values.std(ddof=1))
    low, high = scipy.stats.t.interval(0.95, 199, values.mean(), scipy.stats.sem(values))
    assert found.low == pytest.approx(low)
    assert found.high == pytest.approx(high)
    wider = statistics.mean_interval(values, comparisons=10)
    assert wider == pytest.approx(scipy.stats.t.interval(0.995, 199, values.mean(), scipy.stats.sem(values)))
    assert statistics.spread([4.0]) == statistics.Spread(1, 4.0, None, None, None)
    with pytest.raises(ValueError, match="no values"):
        statistics.spread([math.nan])


def test_jobs_are_paired_by_repeat_and_name() -> None:
    def jobs(**completions_s: float) -> DataFrame:
        rows = [{"repeat": 1, "job": n, "queue": "q", "completion_s": c} for n, c in completions_s.items()]
        return pandas.DataFrame(rows)

    pairs = statistics.pair_jobs(jobs(x=10, y=20, z=5, only_a=1), jobs(x=14, y=20, z=math.nan, only_b=1))
    assert pairs[["job", "a", "b", "difference"]].to_numpy().tolist() == [["x", 10, 14, -4], ["y", 20, 20, 0]]
    found = statistics.compare_pairs(pairs["difference"], pairs["repeat"])
    assert (found.jobs, found.a_lower, found.b_lower, found.spread.mean) == (2, 0.5, 0.0, -2)
    assert found.percentiles[50] == -2
    assert (found.spread.low, found.p_value) == (None, None), "one run"


def test_runs_weigh_the_same_and_their_means_are_tested() -> None:
    differences, runs = [-3, -5, -1, -6, -2, -2.5], [1, 1, 2, 3, 4, 4]
    found = statistics.compare_pairs(differences, runs)
    means = [-4, -1, -6, -2.25]
    assert found.spread == statistics.spread(means)
    assert found.p_value == pytest.approx(scipy.stats.ttest_1samp(means, 0)[1])
    assert statistics.compare_pairs([0, 0], [1, 2]).p_value is None
    (low, high) = statistics.mean_interval([7.0, 7.0]) or (0, 0)
    assert (low, high) == (7, 7), "the seed changes nothing"


@pytest.mark.parametrize("seeds", [3, 10, 40])
def test_the_interval_holds_where_the_jobs_of_a_run_depend_on_each_other(seeds: int) -> None:
    """Jobs of one run share most of their luck; over 1,000 experiments the interval has the true mean in 95%."""
    random, experiments, jobs, true_s = numpy.random.default_rng(7), 1000, 20, 5.0
    shared_s = random.normal(true_s, 10, (experiments, seeds, 1))
    differences_s = shared_s + random.normal(0, 2, (experiments, seeds, jobs))
    runs = numpy.repeat(numpy.arange(seeds), jobs)
    hits = 0
    for one in differences_s:
        found = statistics.compare_pairs(one.ravel(), runs).spread
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= true_s <= found.high
    assert hits / experiments == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / experiments))

"""Synthetic workloads: what the parameters say is what comes out, and the seed decides all of it."""

from __future__ import annotations

from collections import Counter
from statistics import median

import pytest
from pydantic import ValidationError

from analysis.figures.workload import workload_figure
from workloads.generate import Parameters, generate
from workloads.histogram import LogHistogram
from workloads.inspection import Inspection, inspect_trace
from workloads.record import WorkloadJob

S = 10**9


def jobs_of(seed: int = 1, **parameters: object) -> list[WorkloadJob]:
    return list(generate(Parameters.model_validate(parameters), seed).jobs)


def inspected(seed: int = 1, **parameters: object) -> Inspection:
    return inspect_trace(generate(Parameters.model_validate(parameters), seed))


def test_lengths_have_the_medians_of_facebooks_tasks() -> None:
    found = inspected(jobs=2000, maps_sigma=0.5, reduces_sigma=0.5)
    assert found.distributions["map length"].quantile(0.5) == pytest.approx(19, rel=0.08)
    assert found.distributions["reduce length"].quantile(0.5) == pytest.approx(231, rel=0.08)


def test_counts_are_lognormal_and_some_jobs_are_map_only() -> None:
    jobs = jobs_of(jobs=4000, maps_median=20, maps_sigma=1, map_only_fraction=0.75, most_tasks=50)
    maps = [len(job.lengths_ns("map")) for job in jobs]
    assert median(maps) == pytest.approx(20, rel=0.08)
    assert (min(maps) >= 1, max(maps)) == (True, 50)
    # Of a lognormal, 84% lie below the median times e to the sigma: here above 50, which larger draws are cut to.
    assert sum(count == 50 for count in maps) / 4000 == pytest.approx(0.18, abs=0.03)
    map_only = [job for job in jobs if not job.lengths_ns("reduce")]
    assert len(map_only) / 4000 == pytest.approx(0.75, abs=0.03)
    assert all(job.shuffle_bytes == 0 for job in map_only)


def test_poisson_arrivals_have_exponential_gaps() -> None:
    gaps = inspected(jobs=2000, span_s=20_000).distributions["time between submissions"]
    mean = gaps.total / gaps.count
    assert mean == pytest.approx(10, rel=0.01)
    assert gaps.quantile(0.5) == pytest.approx(6.93, rel=0.08), "mean x ln 2"
    assert gaps.quantile(0.9) == pytest.approx(23.0, rel=0.08), "mean x ln 10"


def test_bursty_arrivals_vary_by_the_ratio_between_hours() -> None:
    jobs = jobs_of(jobs=12_000, span_s=86_400, arrivals="bursty", maps_median=1, maps_sigma=0, map_only_fraction=1)
    hourly = Counter(job.submit_ns // (3600 * S) for job in jobs)
    assert max(hourly.values()) / min(hourly.values()) == pytest.approx(30, rel=0.25)
    assert sorted(hourly) == list(range(24))
    in_order = [hourly[hour] for hour in range(24)]
    assert in_order != sorted(in_order), "the hours' order is drawn"


def test_the_seed_decides_all() -> None:
    assert jobs_of(3, jobs=50) == jobs_of(3, jobs=50)
    assert jobs_of(3, jobs=50) != jobs_of(4, jobs=50)
    longer = {job.job: job.tasks for job in jobs_of(3, jobs=80)}
    assert all(longer[job.job] == job.tasks for job in jobs_of(3, jobs=50)), "a job's draws are its own"


def test_submissions_are_sorted_and_in_the_span() -> None:
    jobs = jobs_of(jobs=300, span_s=100, start_s=1000)
    times = [job.submit_ns for job in jobs]
    assert times == sorted(times)
    assert 1000 * S <= times[0] <= times[-1] <= 1100 * S
    assert len({job.job for job in jobs}) == 300


@pytest.mark.parametrize("wrong", [{"jobs": 0}, {"span_s": 0}, {"burst_ratio": 0.5}, {"map_s": float("nan")}])
def test_what_it_refuses(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        Parameters.model_validate(wrong)


def test_the_figure_says_what_a_logarithmic_axis_has_no_place_for() -> None:
    figure = workload_figure(inspected(jobs=100))
    (shuffle,) = (title for panel in figure.axes if (title := panel.get_title(loc="left")).startswith("shuffle"))
    map_only = sum(not job.shuffle_bytes for job in jobs_of(jobs=100))
    assert shuffle == f"shuffle a job ({map_only} values of 0 not drawn)"


def test_quantiles_are_exact_until_there_are_too_many_values_to_keep() -> None:
    found = LogHistogram()
    found.add([100, 10, 1])
    assert [found.quantile(share) for share in (0.1, 0.5, 0.9)] == [1, 10, 100]
    found.add([100.0] * 100_000)
    assert found.quantile(0.5) == pytest.approx(100, rel=0.006)

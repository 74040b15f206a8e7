"""Samples of a campaign: nothing is lost on the way to the file, and what is said of them follows from them."""

from __future__ import annotations

import statistics
from pathlib import Path

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.measure.samples import Samples, summarise

DURATIONS = st.lists(st.integers(0, 10**9), min_size=1, max_size=300)


@given(st.dictionaries(st.tuples(st.text(max_size=9), st.none() | st.integers(0, 2**40)), DURATIONS, max_size=5))
def test_what_is_written_is_read_back(tmp_path: Path, values: dict[tuple[str, int | None], list[int]]) -> None:
    samples = Samples()
    for (operation, at), durations in values.items():
        for real_ns in durations:
            samples.add(operation, real_ns, at)
    samples.write(tmp_path / "samples.parquet")
    assert Samples.read(tmp_path / "samples.parquet").values == values


@given(DURATIONS)
def test_outliers_stay_and_intervals_hold_their_percentile(values: list[int]) -> None:
    found = summarise(values)
    assert found.n == len(values)
    assert (found.quantiles_real_ns[0], found.quantiles_real_ns[-1]) == (min(values), max(values))
    assert found.mean_real_ns == pytest.approx(statistics.fmean(values))
    assert found.mean_ci95_real_ns[0] <= found.mean_real_ns + 1e-3
    assert found.mean_ci95_real_ns[1] >= found.mean_real_ns - 1e-3
    for value, low, high in (found.p50_real_ns, found.p95_real_ns, found.p99_real_ns):
        assert min(values) <= low <= value <= high <= max(values)


def test_the_intervals_are_as_sure_as_they_say() -> None:
    """Of samples drawn from a known distribution, about 95 of 100 intervals hold the true value."""
    generator = numpy.random.default_rng(1)
    scale, rounds = 1e6, 400
    hold = numpy.zeros(3)
    for _ in range(rounds):
        found = summarise([int(value) for value in generator.exponential(scale, 200)])
        truths = (
            (found.mean_ci95_real_ns, scale),
            (found.p50_real_ns[1:], scale * numpy.log(2)),
            (found.p95_real_ns[1:], scale * numpy.log(20)),
        )
        hold += [low <= truth <= high for (low, high), truth in truths]
    assert all(hold / rounds > 0.92)
    assert all(hold / rounds < 0.995)

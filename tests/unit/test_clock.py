"""Scaled time is exact and monotonic; lag percentiles are right to a bucket."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.live.clock import ScaledClock
from emulator.records.lag import LagRecorder

_SCALES = st.one_of(
    st.integers(1, 10_000), st.floats(1e-3, 1e4), st.fractions(Fraction(1, 1000), 10_000, max_denominator=10**6)
)
_INSTANTS = st.integers(-(10**18), 10**18)


def test_scales_are_what_they_print_as() -> None:
    clock = ScaledClock(1_000, 0.1)
    assert clock.to_emulated_ns(11_000) == 1_000
    assert clock.to_real_ns(1_000) == 11_000
    assert ScaledClock(5, 20).to_emulated_ns(6) == 20
    # Years of it, and not a nanosecond off, where floats would be off by thousands.
    assert ScaledClock(0, 0.3).to_emulated_ns(10**18) == 3 * 10**17


@given(scale=_SCALES, origin_real_ns=_INSTANTS, emulated_ns=_INSTANTS)
def test_a_timer_never_fires_early_and_never_a_step_late(
    scale: int | float | Fraction, origin_real_ns: int, emulated_ns: int
) -> None:
    clock = ScaledClock(origin_real_ns, scale)
    real_ns = clock.to_real_ns(emulated_ns)
    assert clock.to_emulated_ns(real_ns) >= emulated_ns > clock.to_emulated_ns(real_ns - 1)


@given(scale=_SCALES, first_real_ns=_INSTANTS, second_real_ns=_INSTANTS)
def test_order_is_kept(scale: int | float | Fraction, first_real_ns: int, second_real_ns: int) -> None:
    clock = ScaledClock(0, scale)
    first_real_ns, second_real_ns = sorted((first_real_ns, second_real_ns))
    assert clock.to_emulated_ns(first_real_ns) <= clock.to_emulated_ns(second_real_ns)


def test_now_follows_the_machine() -> None:
    clock = ScaledClock(0, 2)
    first_ns = clock.now_ns()
    assert clock.now_ns() >= first_ns > 0


@pytest.mark.parametrize("scale", [0, -1, 0.0, float("nan"), float("inf")])
def test_no_scale_without_sense(scale: float) -> None:
    with pytest.raises(ValueError, match="time scale must be"):
        ScaledClock(0, scale)


@given(lags=st.lists(st.integers(0, 10**12), min_size=1), fraction=st.floats(0, 1))
def test_percentiles_are_right_to_a_sixteenth(lags: list[int], fraction: float) -> None:
    recorder = LagRecorder()
    for lag in lags:
        recorder.record(7, 7 + lag)
    rank = max(0, -(-fraction * len(lags) // 1) - 1)
    true = sorted(lags)[int(rank)]
    assert true <= recorder.percentile_real_ns(fraction) <= true * 17 // 16
    assert recorder.max_real_ns == max(lags)
    assert recorder.count == len(lags)


@given(first=st.lists(st.integers(0, 10**12)), second=st.lists(st.integers(0, 10**12)))
def test_merging_is_as_if_one_had_seen_all(first: list[int], second: list[int]) -> None:
    one, other, both = LagRecorder(), LagRecorder(), LagRecorder()
    for recorder, lags in ((one, first), (other, second), (both, first + second)):
        for lag in lags:
            recorder.record(0, lag)
    one.merge(other.to_record())
    assert one.to_record() == both.to_record()
    assert one.count == both.count


def test_early_is_not_late_and_memory_is_bounded() -> None:
    recorder = LagRecorder()
    assert (recorder.p50_real_ns, recorder.p99_real_ns, recorder.max_real_ns) == (0, 0, 0)
    recorder.record(100, 90)
    assert recorder.max_real_ns == 0
    for lag in range(200_000):
        recorder.record(0, lag * lag)
    assert len(recorder.to_record()["buckets"]) < 600
    assert recorder.p50_real_ns < recorder.p99_real_ns <= recorder.max_real_ns

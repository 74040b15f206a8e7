"""The task runtime estimate: exact for a constant rate, blind to time spent suspended, and whole numbers throughout."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from emulator.core.application_master.task import TIME_CONSTANT_NS, RateEstimate
from emulator.vocabulary import SECOND_NS

KEY_NS = st.integers(1_000, 100 * SECOND_NS)
READINGS = st.lists(st.tuples(st.integers(0, 10**15), st.integers(0, 10**6)), max_size=20)


def constant(key_ns: int, readings: list[int], start_ns: int = 0) -> RateEstimate:
    """After readings at the ends of those keys of a task that began at ``start_ns``."""
    estimate = RateEstimate().with_reading(start_ns, 0)
    for keys_done in readings:
        estimate = estimate.with_reading(start_ns + keys_done * key_ns, keys_done)
    return estimate


@given(KEY_NS, st.lists(st.integers(1, 1000), min_size=1, max_size=30), st.integers(0, 1000))
def test_a_constant_rate_gives_the_exact_remaining_time(key_ns: int, readings: list[int], more: int) -> None:
    estimate = constant(key_ns, sorted(readings))
    keys_done, keys_total = max(readings), max(readings) + more
    left_ns = estimate.remaining_ns(keys_total, keys_done * key_ns)
    assert left_ns is not None
    # Rates are rounded down to one key in 10^18 ns.
    assert 0 <= left_ns - more * key_ns <= max(1, more * key_ns * key_ns // 10**17)


@given(KEY_NS, st.integers(1, 100), st.integers(1, 100), st.integers(0, 10**15), st.integers(1, 100))
def test_time_spent_suspended_is_not_counted(key_ns: int, before: int, after: int, pause_ns: int, more: int) -> None:
    through = constant(key_ns, [before, before + after])
    resumed_ns = before * key_ns + pause_ns
    paused = constant(key_ns, [before]).unanchored().with_reading(resumed_ns, before)
    paused = paused.with_reading(resumed_ns + after * key_ns, before + after)
    assert (paused.rate, paused.keys_done) == (through.rate, through.keys_done)
    total, end_ns = before + after + more, (before + after) * key_ns
    assert paused.remaining_ns(total, end_ns + pause_ns) == through.remaining_ns(total, end_ns)


def test_while_suspended_the_time_left_does_not_shrink() -> None:
    running = constant(SECOND_NS, [5])
    stopped = running.unanchored()
    assert running.remaining_ns(10, 7 * SECOND_NS) == 3 * SECOND_NS
    assert [stopped.remaining_ns(10, t * SECOND_NS) for t in (7, 100)] == [5 * SECOND_NS] * 2


def test_nothing_is_known_before_the_first_key() -> None:
    assert RateEstimate().remaining_ns(10, 0) is None
    assert constant(SECOND_NS, []).remaining_ns(10, 0) is None
    waiting = constant(SECOND_NS, []).with_reading(SECOND_NS, 0).with_reading(2 * SECOND_NS, 0)
    assert waiting.remaining_ns(10, 2 * SECOND_NS) is None
    assert waiting.with_reading(4 * SECOND_NS, 1).remaining_ns(3, 4 * SECOND_NS) == 8 * SECOND_NS


def test_a_change_of_rate_is_smoothed_over_a_minute() -> None:
    fast = constant(SECOND_NS, [10])
    slow = fast.with_reading(10 * SECOND_NS + TIME_CONSTANT_NS, 10 + 30)  # half the rate for one time constant
    assert slow.rate == 750_000_000
    assert slow.remaining_ns(40 + 75, 10 * SECOND_NS + TIME_CONSTANT_NS) == 100 * SECOND_NS


@given(READINGS)
def test_old_and_backward_readings_change_nothing(readings: list[tuple[int, int]]) -> None:
    estimate = RateEstimate()
    for at_ns, keys_done in readings:
        before = estimate
        estimate = estimate.with_reading(at_ns, keys_done)
        if before.at_ns is not None and (at_ns <= before.at_ns or keys_done < before.keys_done):
            assert estimate is before


@given(READINGS, st.integers(0, 10**6), st.integers(0, 10**15))
def test_everything_is_a_whole_number_and_never_negative(
    readings: list[tuple[int, int]], keys_total: int, now_ns: int
) -> None:
    estimate = RateEstimate()
    for at_ns, keys_done in readings:
        estimate = estimate.with_reading(at_ns, keys_done)
        assert estimate.rate is None or (type(estimate.rate) is int and estimate.rate >= 0)
    left_ns = estimate.remaining_ns(max(keys_total, estimate.keys_done), now_ns)
    assert left_ns is None or (type(left_ns) is int and left_ns >= 0)

"""Readings wait for an ApplicationMaster, and come again until its estimates can have taken them in."""

from __future__ import annotations

from emulator.core.application_master.task import RateEstimate
from emulator.live.hosts.application_host import Readings


def test_readings_later_than_the_last_refresh_come_again() -> None:
    readings = Readings()
    readings.add("c", 4_000, 1)
    readings.add("c", 9_000, 2)
    assert readings.read("c", since_ns=5_000) == ((4_000, 1), (9_000, 2))
    assert readings.read("c", since_ns=6_000) == ((9_000, 2),)
    assert readings.read("c", since_ns=9_000) == ((9_000, 2),)
    assert readings.read("c", since_ns=9_000) == ()


def test_a_reduce_whose_keys_end_just_after_each_refresh_has_an_estimate() -> None:
    """Each reading is read the first time between a refresh and the next heartbeat."""
    readings, estimate, period_ns = Readings(), RateEstimate(), 5_000
    for key in range(1, 6):
        refresh_ns = key * period_ns
        readings.add("c", refresh_ns + 100, key)
        for at_ns, keys_done in readings.read("c", refresh_ns + 400 - period_ns):
            if at_ns <= refresh_ns:
                estimate = estimate.with_reading(at_ns, keys_done)
    assert estimate.rate is not None
    assert estimate.keys_done == 4


def test_what_nobody_reads_is_thinned_and_keeps_its_first_and_last() -> None:
    readings = Readings()
    for key in range(100_000):
        readings.add("c", key, key)
    read = readings.read("c", since_ns=100_000)
    assert len(read) <= 1001
    assert read[0] == (0, 0)
    assert read[-1] == (99_999, 99_999)
    assert list(read) == sorted(read)


def test_a_forgotten_container_has_none() -> None:
    readings = Readings()
    readings.add("c", 1, 1)
    readings.forget("c")
    readings.forget("unknown")
    assert readings.read("c", since_ns=0) == ()

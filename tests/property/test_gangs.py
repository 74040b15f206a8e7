"""Gangs in whole clusters of the real machines: whatever happens to messages, processes and nodes, none is half placed
(``emulator.chaos.invariants``), and all jobs end, so that no gang waits for another for ever.
"""

from __future__ import annotations

import pytest
from cluster_cases import BAD_NETWORK, CALM, Case, cases, ordered_about, races, run, storms, with_gangs
from hypothesis import given, settings


@given(with_gangs(cases(CALM)))
@settings(max_examples=60, derandomize=True)
def test_every_gang_succeeds(case: Case) -> None:
    run(case)


@given(with_gangs(cases(BAD_NETWORK) | storms()))
@settings(max_examples=80, derandomize=True)
def test_every_gang_succeeds_over_a_network_that_loses_repeats_and_reorders(case: Case) -> None:
    run(case)


@given(with_gangs(cases(CALM | BAD_NETWORK, faults=True) | races() | ordered_about()))
@settings(max_examples=100, derandomize=True)
def test_every_gang_ends_whatever_crashes_and_whatever_is_lost(case: Case) -> None:
    run(case)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@given(with_gangs(cases(CALM | BAD_NETWORK, faults=True) | cases(BAD_NETWORK) | storms() | races()))
@settings(max_examples=3000)
def test_the_same_at_length(case: Case) -> None:
    run(case)

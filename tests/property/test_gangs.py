"""Gangs in whole clusters of the real machines: whatever happens to messages, processes and nodes, none is half placed
(``emulator.chaos.invariants``), and all jobs end, so that no gang waits for another for ever.
"""

from __future__ import annotations

import pytest
from cluster_cases import (
    BAD_NETWORK,
    CALM,
    Case,
    cases,
    ordered_about,
    races,
    run,
    sized,
    storms,
    with_gangs,
    with_sized_gangs,
)
from hypothesis import given

from tests.examples import drawn, fixed


@given(with_gangs(cases(CALM | BAD_NETWORK) | storms()))
@fixed
def test_every_gang_succeeds(case: Case) -> None:
    run(case)


@given(with_gangs(cases(CALM | BAD_NETWORK, faults=True) | races() | ordered_about()))
@fixed
def test_every_gang_ends_whatever_crashes_and_whatever_is_lost(case: Case) -> None:
    run(case)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@given(with_gangs(cases(CALM | BAD_NETWORK, faults=True) | cases(BAD_NETWORK) | storms() | races()))
@drawn
def test_the_same_at_length(case: Case) -> None:
    run(case)


@given(with_sized_gangs(cases(CALM | BAD_NETWORK).flatmap(sized)))
@fixed
def test_gangs_of_several_sizes_start_whole_and_none_starves_another(case: Case) -> None:
    run(case)

"""Heartbeats that say and change nothing can be left out: the records of the run are equal, to the nanosecond."""

from __future__ import annotations

import pytest
from cluster_cases import BAD_NETWORK, CALM, Case, cases, run, sized, storms, with_sized_gangs
from hypothesis import given

from emulator.records.journal import merge
from tests.examples import drawn, fixed


def check_equal(case: Case) -> None:
    thrifty, full = run(case), run(case, every_heartbeat=True)
    assert merge(thrifty.records) == merge(full.records)
    assert thrifty.kernel.events <= full.kernel.events


@given(cases(CALM | BAD_NETWORK, faults=True, restarts=False) | storms())
@fixed
def test_leaving_out_empty_heartbeats_makes_an_equal_journal_whatever_goes_wrong(case: Case) -> None:
    check_equal(case)


@given(with_sized_gangs(cases(CALM).flatmap(sized)) | cases(CALM).flatmap(sized))
@fixed
def test_the_same_with_containers_of_several_sizes(case: Case) -> None:
    check_equal(case)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@given(cases(CALM | BAD_NETWORK, faults=True, restarts=False) | storms())
@drawn
def test_the_same_at_length(case: Case) -> None:
    check_equal(case)

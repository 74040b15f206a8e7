"""Clusters in which every job has a share: whatever goes wrong all jobs end, and empty heartbeats can be left out."""

from __future__ import annotations

from cluster_cases import BAD_NETWORK, CALM, Case, cases, run
from hypothesis import given
from test_heartbeats import check_equal

from tests.examples import fixed


@given(cases(CALM | BAD_NETWORK, faults=True, shared=True))
@fixed
def test_every_job_ends_whatever_goes_wrong(case: Case) -> None:
    run(case)


@given(cases(CALM, shared=True))
@fixed
def test_leaving_out_empty_heartbeats_makes_an_equal_journal(case: Case) -> None:
    check_equal(case)

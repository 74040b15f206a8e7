"""Whole clusters of the real machines in virtual time: whatever happens to messages, processes and nodes, all jobs end,
no container is over-committed, no task runs twice, and every key is done exactly once.
"""

from __future__ import annotations

import pytest
from cluster_cases import BAD_NETWORK, CALM, Case, cases, run, storms
from hypothesis import given, settings


@given(cases(CALM))
@settings(max_examples=150, derandomize=True)
def test_every_job_succeeds(case: Case) -> None:
    run(case)


@given(cases(BAD_NETWORK) | storms())
@settings(max_examples=300, derandomize=True)
def test_every_job_succeeds_over_a_network_that_loses_repeats_and_reorders(case: Case) -> None:
    run(case)


@given(cases(CALM | BAD_NETWORK, faults=True))
@settings(max_examples=300, derandomize=True)
def test_every_job_ends_whatever_crashes_and_whatever_is_lost(case: Case) -> None:
    run(case)


@given(storms())
@settings(max_examples=200, derandomize=True)
def test_reduces_suspended_again_and_again_are_done_once(case: Case) -> None:
    run(case)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@given(cases(CALM | BAD_NETWORK, faults=True) | cases(BAD_NETWORK) | storms())
@settings(max_examples=4000)
def test_the_same_at_length(case: Case) -> None:
    run(case)

"""Heartbeats that say and change nothing can be left out: the records of the run are equal, to the nanosecond."""

from __future__ import annotations

import pytest
from cluster_cases import BAD_NETWORK, CALM, Case, cases, run, storms
from hypothesis import given, settings

from emulator.core.effects import Send
from emulator.core.messages import NodeHeartbeat, NodeHeartbeatResponse
from emulator.journal import Record, merge


def check_equal(case: Case) -> None:
    thrifty, full = run(case), run(case, every_heartbeat=True)
    if case.losses:
        assert without_farewells(thrifty.records) == without_farewells(full.records)
    else:
        assert merge(thrifty.records) == merge(full.records)
    assert thrifty.kernel.events <= full.kernel.events


def without_farewells(records: list[Record]) -> list[tuple[object, ...]]:
    """The records, their numbers aside, without what a lost node is told whose heartbeat was still on its way.

    Known: one that says nothing is not sent where heartbeats are left out, and a node is lost by the tests only after
    that; nobody is there to hear the answer.
    """
    return [
        (record.t_ns, record.actor, record.message, record.effects)
        for record in merge(records)
        if not (isinstance(record.message, NodeHeartbeat) and any(map(_is_farewell, record.effects)))
    ]


def _is_farewell(effect: object) -> bool:
    return isinstance(effect, Send) and isinstance(effect.message, NodeHeartbeatResponse) and effect.message.shut_down


@given(cases(CALM))
@settings(max_examples=60, derandomize=True)
def test_leaving_out_empty_heartbeats_makes_an_equal_journal(case: Case) -> None:
    check_equal(case)


@given(cases(CALM, faults=True))
@settings(max_examples=60, derandomize=True)
def test_the_same_whatever_crashes_and_whatever_is_lost(case: Case) -> None:
    check_equal(case)


@given(cases(BAD_NETWORK, faults=True) | storms())
@settings(max_examples=60, derandomize=True)
def test_the_same_over_a_network_that_loses_repeats_and_reorders(case: Case) -> None:
    check_equal(case)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@given(cases(CALM | BAD_NETWORK, faults=True) | storms())
@settings(max_examples=1000)
def test_the_same_at_length(case: Case) -> None:
    check_equal(case)

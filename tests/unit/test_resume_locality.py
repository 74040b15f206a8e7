"""A stopped process that cannot have its old node: it waits, or is given up (os-assisted-preemption, section V-A)."""

from __future__ import annotations

import re

import pytest
from simulated import SECOND_NS, make_job, make_settings, run_checked

from emulator.core.messages import KillContainer
from emulator.core.settings import SpareAfter
from emulator.policies.axes import PLACEMENT
from emulator.policies.placement import Local
from emulator.policies.views import ClusterView, Known, NodeView, PlacementDecision, SuspendedView
from emulator.records.history import JobRow
from emulator.records.journal import merge
from emulator.vocabulary import REDUCE
from tests.histories import fold

LOCAL = PLACEMENT.by_name["local"]
JOBS = (make_job("low", reduces_s=(60.0, 30.0)), make_job("high", "production", 10.0, reduces_s=(100.0,)))
"""On two nodes of one container each: high takes that of low's shorter task; the other comes free after 60 s."""


def low_with(options: Local) -> tuple[JobRow, list[str]]:
    """How low fares, and why containers were killed."""
    settings = make_settings(
        nodes=2, containers=1, mechanism="suspend", unmanaged_masters=True, placement=LOCAL.with_options(options)
    )
    cluster = run_checked(settings, JOBS)
    kills = (record.message for record in cluster.records if isinstance(record.message, KillContainer))
    return fold(cluster.records, JOBS).jobs[0], list(
        {kill.why for kill in kills if kill.job == "low" and "ended" not in kill.why}
    )


def test_one_that_waits_goes_on_with_what_it_has_done() -> None:
    low, kills = low_with(Local(after="wait"))
    assert (low.suspensions, low.kills, low.lost_work_ns, kills) == (1, 0, 0, [])
    assert 125 * SECOND_NS < (low.finish_ns or 0) < 140 * SECOND_NS


@pytest.mark.parametrize("delay_s", [0.0, 5.0, 80.0])
def test_one_that_is_given_up_begins_anew_elsewhere(delay_s: float) -> None:
    low, kills = low_with(Local(delay_s))
    assert low.suspensions == 1
    (why,) = kills
    assert re.fullmatch(r"given up: node-[12] had no room for it in time", why)
    assert 5 * SECOND_NS < low.lost_work_ns < 15 * SECOND_NS
    begins_s = max(60, 12 + delay_s)
    assert (begins_s + 30) * SECOND_NS < (low.finish_ns or 0) < (begins_s + 42) * SECOND_NS


@pytest.mark.parametrize("stopped", [True, False])
def test_what_it_answers(stopped: bool) -> None:
    nodes = [NodeView(name, "r", True, 1, 1) for name in ("old", "other")]
    task = SuspendedView("j", REDUCE, 0, "old", 0, since_ns=10 * SECOND_NS, stopped=stopped)
    place = LOCAL.with_options(Local(delay_s=5)).function
    early, late = (ClusterView(at_s * SECOND_NS, Known(nodes=tuple(nodes))) for at_s in (14, 15))
    assert place(early, task, nodes[0]) == PlacementDecision(True)
    assert place(early, task, nodes[1]) == PlacementDecision(False, holds_until_ns=15 * SECOND_NS)
    expected = PlacementDecision(False, gives_up=True) if stopped else PlacementDecision(True, rank=1)
    assert place(late, task, nodes[1]) == expected
    assert not LOCAL.with_options(Local(after="wait")).function(late, task, nodes[1]).gives_up


def test_who_has_been_suspended_so_often_is_spared() -> None:
    spare = SpareAfter(2, 10)
    assert not spare.spares([], 5)
    assert not spare.spares([1], 5)
    assert spare.spares([1, 3], 10)
    assert spare.spares([0, 1, 3], 10)
    assert not spare.spares([1, 3], 11)


@pytest.mark.parametrize("delay_s", [0.0, 5.0, 80.0])
def test_leaving_out_heartbeats_changes_nothing(delay_s: float) -> None:
    settings = make_settings(
        nodes=2, containers=1, mechanism="suspend", unmanaged_masters=True, placement=LOCAL.with_options(Local(delay_s))
    )
    left_out, all_run = (run_checked(settings, JOBS, every_heartbeat=every) for every in (False, True))
    assert merge(left_out.records) == merge(all_run.records)

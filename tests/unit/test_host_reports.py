"""What is made of the statuses of a run's hosts."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from emulator.display.status import ClusterStatus
from emulator.errors import RunError
from emulator.experiment.load import load_experiment
from emulator.live.hosts.host_reports import HostReports, HostStatus
from emulator.live.hosts.plan import timeout_real_ns
from emulator.records.lag import LagRecorder
from emulator.resolved import resolve
from tests.simulated_runs import FIG4


def cut_off_from(*peers: str) -> HostStatus:
    return HostStatus(None, [], 0, LagRecorder().to_record(), peers)


def test_a_link_that_stays_broken_ends_the_run_unless_a_host_at_its_end_has_been_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock_real_s = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock_real_s[0])
    reports = HostReports(resolve(load_experiment(FIG4), ()))
    reports.take("nodes-1", cut_off_from("rm"))
    clock_real_s[0] = 9.0
    reports.check({"rm"})
    with pytest.raises(RunError, match="the connection from nodes-1 to rm has broken, and both are alive"):
        reports.check(set())
    reports.replaced("rm")  # which has taken nine seconds
    reports.check(set())
    reports.take("nodes-1", cut_off_from())
    clock_real_s[0] = 30.0
    reports.check(set())
    reports.take("nodes-1", cut_off_from("rm"))
    clock_real_s[0] = 31.0
    reports.check(set())
    clock_real_s[0] = 39.0
    with pytest.raises(RunError, match="has broken"):
        reports.check(set())


def test_a_run_stands_still_only_if_its_hosts_were_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    clock_real_ns = [0]
    monkeypatch.setattr(time, "monotonic_ns", lambda: clock_real_ns[0])
    run = resolve(load_experiment(FIG4), ())
    reports = HostReports(run)
    at_work = replace(cut_off_from(), cluster=ClusterStatus(10**9, {}, 0, {"research-XL": "submitted"}))
    reports.take("rm", at_work)
    assert not reports.nothing_moves
    clock_real_ns[0] = 2 * timeout_real_ns(run)
    assert not reports.nothing_moves, "meanwhile a host was being replaced"
    reports.take("rm", at_work)
    assert reports.nothing_moves

"""Progress as ApplicationMasters report it, and the time left that the ResourceManager makes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated import SECOND_NS, CheckedCluster, make_job, make_settings, run_checked

from emulator.core.application_master.job_progress import remaining_ns
from emulator.core.messages import ApplicationHeartbeat, Message
from emulator.core.resource_manager.queue_ledger import job_view


def reported(cluster: CheckedCluster, job: str) -> list[tuple[int, int]]:
    """What the ResourceManager was told of a job's progress: (instant, millionths)."""
    return [
        (record.t_ns, record.message.progress_ppm)
        for record in cluster.records
        if record.actor == "rm"
        and isinstance(record.message, ApplicationHeartbeat)
        and record.message.job == job
        and record.message.progress_ppm is not None
    ]


def test_the_shares_of_maps_and_reduces() -> None:
    """Before its maps are done a job can come to half, with reduces only to 95%."""
    with_maps = run_checked(
        make_settings(containers=9, job_eviction="mlf", slow_start_ppm=1_000_000),
        (make_job("a", "production", maps_s=(5.0, 10.0), reduces_s=(20.0, 40.0)),),
    )
    progress = [ppm for _, ppm in reported(with_maps, "a")]
    assert progress[0] == 50_000
    assert 50_000 + 225_000 in progress
    assert 50_000 + 450_000 in progress
    assert progress == sorted(progress)
    assert 900_000 < progress[-1] <= 950_000
    alone = run_checked(make_settings(job_eviction="mlf"), (make_job("a", reduces_s=(10.0,)),))
    walking = {50_000 + (666_667 + keys * 333_333 // 10) * 9 // 10 for keys in range(8)}
    assert walking | {50_000} <= {ppm for _, ppm in reported(alone, "a")}


def test_a_suspended_job_keeps_its_progress_and_says_nothing_new() -> None:
    jobs = (make_job("low", reduces_s=(30.0,)), make_job("high", "production", 10.0, reduces_s=(40.0,)))
    for mechanism in ("checkpoint", "suspend"):
        cluster = run_checked(make_settings(containers=3, job_eviction="mlf", mechanism=mechanism), jobs)
        told = reported(cluster, "low")
        gap_ns, before, after = max((b[0] - a[0], a[1], b[1]) for a, b in pairwise(told))
        assert gap_ns > 20 * SECOND_NS
        assert 50_000 < before <= after < 950_000


def test_progress_is_reported_only_where_a_policy_reads_it() -> None:
    job = (make_job("a", reduces_s=(9.0,), deadline_s=100),)
    for eviction, told in (("mdf", False), ("mr", False), ("mlf", True)):
        assert bool(reported(run_checked(make_settings(job_eviction=eviction), job), "a")) is told


@dataclass
class _Watched(CheckedCluster):
    """Notes what the ResourceManager expects of job ``a`` whenever it has been told something."""

    expected: list[tuple[int, int]] = field(default_factory=list)

    def tell(self, address: str, message: Message) -> None:
        super().tell(address, message)
        manager = self.machine_of_rm()
        if isinstance(message, ApplicationHeartbeat) and "a" in manager.state.applications:
            left_ns = job_view(manager.state.applications["a"], self.kernel.now_ns).remaining_ns
            if left_ns is not None:
                self.expected.append((self.kernel.now_ns, left_ns))


def test_a_job_is_expected_to_end_the_nearer_its_end_the_better() -> None:
    """Hadoop counts two thirds of a reduce as done when it begins, so that a young job is expected too soon."""
    job = make_job("a", reduces_s=(60.0, 60.0))
    cluster = _Watched(make_settings(containers=4, job_eviction="mlf"), {"a": job})
    cluster.run_to_end(500)
    assert len(cluster.expected) > 50
    ends_ns = {at_ns // SECOND_NS: at_ns + left_ns for at_ns, left_ns in cluster.expected}
    assert ends_ns[10] < ends_ns[30] < ends_ns[50] < 62 * SECOND_NS
    last_ns, left_ns = cluster.expected[-1]
    assert last_ns + left_ns == pytest.approx(62 * SECOND_NS, abs=6 * SECOND_NS)


@given(st.integers(1, 1_000_000), st.integers(0, 10**17))
def test_what_is_left_takes_as_long_in_proportion(progress: int, elapsed_ns: int) -> None:
    left_ns = remaining_ns(progress, elapsed_ns)
    assert left_ns is not None
    assert abs(left_ns * progress - elapsed_ns * (1_000_000 - progress)) < progress


def test_without_progress_nothing_is_known() -> None:
    assert remaining_ns(0, SECOND_NS) is None

"""Which heartbeats may be left out: the ResourceManager's account of whom it waits for."""

from __future__ import annotations

from dataclasses import replace

from simulated import make_job, make_settings, run_checked

from emulator.chaos.faulty_cluster import BadNetwork
from emulator.core.resource_manager.awaited_heartbeats import AwaitedHeartbeats
from emulator.policies import axes as policies
from emulator.policies.views import ClusterView, JobView
from emulator.records.journal import merge


def test_a_node_that_a_task_waits_for_is_awaited_after_a_change_in_which_another_node_gets_nothing() -> None:
    attention = AwaitedHeartbeats()
    attention.begin()
    attention.refused("nm:old", is_host=True, timeout_ns=None)  # all containers are withheld
    attention.begin()
    attention.refused("nm:other", is_host=False, timeout_ns=7)  # its heartbeat has made room, and it gets nothing
    attention.changed()
    assert attention.awaited == {"nm:old"}
    assert attention.free_node_ns(5, 2) == 7


def from_a_time_on(view: ClusterView, jobs: tuple[JobView, ...]) -> tuple[str, ...]:
    return tuple(job.name for job in jobs if view.now_ns >= job.submit_ns + 5_300_000_000)


def test_a_job_selection_may_leave_jobs_out_for_a_time() -> None:
    """Then the container goes to the first node that sends a heartbeat after that time, whichever it is."""
    selection = policies.JOB_SELECTION.own("mine:from_a_time_on", from_a_time_on)
    jobs = make_job("j", reduces_s=(30.0,)), make_job("k", submit_s=17.0, reduces_s=(3.0,))
    for seed in range(1, 6):
        settings = make_settings(seed=seed, nodes=6, containers=1)
        settings = replace(settings, scheduler=replace(settings.scheduler, job_selection=selection))
        thrifty, full = (run_checked(settings, jobs, every_heartbeat=every) for every in (False, True))
        assert merge(thrifty.records) == merge(full.records)


def test_a_free_node_whose_heartbeat_is_lost_is_not_waited_for() -> None:
    """The next free node gets the container, at once and not when the first one sends its next heartbeat."""
    settings = make_settings(nodes=2, containers=2)
    jobs = make_job("big", reduces_s=(8.0,)), make_job("urgent", "production", submit_s=1.0, reduces_s=(0.1,))
    for seed in range(20):
        network = BadNetwork(seed, loss_percent=20, latest_ns=0)
        thrifty, full = (
            run_checked(settings, jobs, bad_network=network, every_heartbeat=every) for every in (False, True)
        )
        assert merge(thrifty.records) == merge(full.records)

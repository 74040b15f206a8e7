"""``protocol.news``: how soon the ResourceManager and the ApplicationMasters know what has happened."""

from __future__ import annotations

import pytest
from simulated import SECOND_NS, CheckedCluster, make_job, make_settings, run_checked

from emulator.chaos.faulty_cluster import BadNetwork
from emulator.core import effects as fx
from emulator.core.messages import NodeHeartbeat

LONG = make_job("long", "research", 0.0, (), (20.0,) * 4)
URGENT = make_job("urgent", "production", 7.25, (), (3.0,))


def launches(run: CheckedCluster, job: str) -> list[float]:
    """When the tasks of a job were launched, in seconds."""
    made = ((r.t_ns, effect) for r in run.records for effect in r.effects if isinstance(effect, fx.Launch))
    return [at_ns / SECOND_NS for at_ns, launch in made if launch.job == job and not launch.attempt.endswith("/am")]


def ends(run: CheckedCluster, job: str) -> float:
    return run.invariants.finished[job].finish_ns / SECOND_NS


def test_told_at_once_nothing_waits_for_a_heartbeat() -> None:
    """With costs of 0: submitted, launched, ended and followed by the next at the very instant."""
    settings = make_settings(nodes=1, containers=2, mechanism="wait", allocation="soft-cap", news="at-once")
    run = run_checked(settings, (LONG, make_job("next", "production", 3.5, (), (3.0,))))
    assert launches(run, "long") == [0.0, 20.0, 40.0, 60.0]
    assert ends(run, "long") == 80.0
    assert launches(run, "next") == [80.0]
    assert ends(run, "next") == 83.0


@pytest.mark.parametrize("mechanism", ["kill", "checkpoint", "suspend"])
def test_a_victim_goes_within_a_round_of_the_preemptor(mechanism: str) -> None:
    settings = make_settings(nodes=1, containers=4, mechanism=mechanism, memory_gb=8, news="at-once")
    run = run_checked(settings, (LONG, URGENT))
    preemptor = run.machine_of_rm().heartbeat
    assert preemptor is not None
    round_ns = preemptor.after(round(7.25 * SECOND_NS))
    begins = launches(run, "urgent")[0]
    key_s = 1.0  # a checkpoint finishes the key in progress; the job's master and its reduce each take a container
    assert begins <= (round_ns + preemptor.period_ns) / SECOND_NS + 2 * key_s


def test_out_of_turn_a_node_tells_of_an_end_at_once_and_all_others_wait() -> None:
    jobs = (make_job("short", "research", 0.0, (), (2.0, 5.0)),)
    told = {}
    for news in ("heartbeat", "out-of-turn", "at-once"):
        run = run_checked(make_settings(containers=3, mechanism="wait", allocation="soft-cap", news=news), jobs)
        reports = [(r.t_ns, r.message) for r in run.records if isinstance(r.message, NodeHeartbeat)]
        began = launches(run, "short")[0]
        told[news] = began, min(at_ns for at_ns, message in reports if message.freed) / SECOND_NS - began - 2.0
    assert told["heartbeat"][1] > 0
    assert told["out-of-turn"] == (told["heartbeat"][0], 0)
    assert told["at-once"] == (0.0, 0)


def test_what_is_told_at_once_and_lost_is_repeated_in_heartbeats() -> None:
    """As in the property tests of all clusters, but every second message is lost."""
    settings = make_settings(nodes=2, containers=2, mechanism="checkpoint", news="at-once")
    run = run_checked(settings, (LONG, URGENT), bad_network=BadNetwork(3, loss_percent=50, latest_ns=SECOND_NS))
    assert set(run.finished_jobs) == {"long", "urgent"}

"""Whole clusters of the real machines in virtual time: whatever happens to messages, processes and nodes, all jobs end,
no container is over-committed, no task runs twice, and every key is done exactly once.
"""

from __future__ import annotations

import pytest
from cluster_cases import BAD_NETWORK, CALM, PROFILE, Case, cases, ordered_about, races, run, sized, storms
from hypothesis import given
from simulated import SECOND_NS, make_job, make_settings

from emulator.chaos.faulty_cluster import BadNetwork
from emulator.core.effects import ExplainJobEviction
from emulator.core.messages import JobState
from emulator.sim.cost_model import CostModel
from tests.examples import drawn, fixed


@given(cases(CALM | BAD_NETWORK) | storms())
@fixed
def test_every_job_succeeds_and_reduces_suspended_again_and_again_are_done_once(case: Case) -> None:
    run(case)


@given(cases(CALM | BAD_NETWORK, faults=True))
@fixed
def test_every_job_ends_whatever_crashes_and_whatever_is_lost(case: Case) -> None:
    run(case)


@given(cases(CALM | BAD_NETWORK, faults=True, waits=True).flatmap(sized))
@fixed
def test_no_node_is_above_its_resources_whatever_is_lost_and_late(case: Case) -> None:
    run(case)


@given(cases(CALM | BAD_NETWORK, faults=True).flatmap(sized))
@fixed
def test_room_on_one_node_is_taken_from_less_urgent_jobs_whatever_is_lost_and_late(case: Case) -> None:
    ranks = {queue.name: queue.rank for queue in case.settings.scheduler.queues}
    rank_of = {job.facts.name: ranks[job.facts.queue] for job in case.jobs}
    whys = [e for record in run(case).records for e in record.effects if isinstance(e, ExplainJobEviction)]
    for why in whys:
        assert why.requester not in why.victims
        if len(ranks) > 1:
            assert all(rank_of[victim] > rank_of[why.requester] for victim in why.victims)


@given(ordered_about())
@fixed
def test_a_user_suspends_resumes_and_kills_single_tasks(case: Case) -> None:
    run(case)


@given(races())
@fixed
def test_of_two_attempts_at_a_reduce_one_wins(case: Case) -> None:
    run(case)


def test_an_end_told_at_the_instant_of_an_empty_heartbeat_and_lost_is_told_again() -> None:
    """Found by the test below: the answer to the empty heartbeat passed for that to the lost one."""
    cluster = make_settings(seed=33, nodes=2, containers=3, max_suspended=1, task_eviction="lrt", overheads=PROFILE)
    jobs = [make_job("research", "research", 0.0, (), (10, 10, 30, 31, 10, 10), 0.5)]
    for number, (submit_s, lengths_s) in enumerate(((6.107, (1,)), (13.0, (3, 1, 4)), (20.0, (1,)))):
        jobs.append(make_job(f"urgent-{number}", "production", submit_s, (), lengths_s, 0.5))
    run(Case(cluster, tuple(jobs), CostModel(), BadNetwork(0, loss_percent=5, latest_ns=4 * SECOND_NS)))


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_node_that_is_lost_while_its_registration_travels_is_lost(nodes: int) -> None:
    """Found by the test below: the ResourceManager took the node for alive, and for ever."""
    cluster = make_settings(nodes=nodes, containers=2, max_suspended=0)
    jobs = (make_job("big", "research", 0.0, (), (8.0,) * 3, 0.3), make_job("urgent", "production", 1.0, (), (0.1,)))
    costs = CostModel(message_ns=30_000_000)
    states = run(Case(cluster, jobs, costs, None, losses=((2, 0),), returns=((1, 0),))).finished_jobs
    assert set(states.values()) == {JobState.SUCCEEDED if nodes > 1 else JobState.FAILED}


def test_jobs_that_take_turns_without_end_are_given_up() -> None:
    """Found by the test below; all else is checked until then."""
    cluster = make_settings(containers=3, allocation="single-queue", job_eviction="mlf", mechanism="kill")
    jobs = tuple(make_job(name, "research", 0.0, (), (100.0,), deadline_s=300) for name in ("one", "two"))
    assert not run(Case(cluster, jobs, CostModel(), None)).finished_jobs


@pytest.mark.slow
@pytest.mark.timeout(1200)
@given(cases(CALM | BAD_NETWORK, faults=True) | cases(BAD_NETWORK) | storms() | races())
@drawn
def test_the_same_at_length(case: Case) -> None:
    run(case)

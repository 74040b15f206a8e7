"""Random clusters under YARN's CapacityScheduler: every check of ``CheckedCluster`` holds whatever goes wrong,
and heartbeats that are left out make no difference."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import msgspec
import pytest
from cluster_cases import BAD_NETWORK, CALM, Case, cases, sized
from cluster_cases import run as run_of_any
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from simulated import CheckedCluster

from emulator.chaos.faulty_cluster import BadNetwork
from emulator.core.job import JobSpec
from emulator.core.resource_manager.applications import NodeState
from emulator.core.settings import OverheadSettings, Settings
from emulator.policies import axes as policies
from emulator.policies.resources import PARTS, WHOLE_PPM, fits, plus, total
from emulator.policies.yarn.amounts import Amounts
from emulator.policies.yarn.options import (
    ROOT,
    FairQueue,
    OrderingPolicy,
    YarnOptions,
    YarnPreemption,
    YarnQueue,
    YarnQueueSettings,
)
from emulator.policies.yarn.victims import RoundVictims
from emulator.vocabulary import Resources
from tests.examples import drawn, fixed

_ENDS = OverheadSettings(launch_ns=150_000_000, application_start_ns=350_000_000, amrm_client=True)


def queues_of(settings: Settings) -> dict[str, YarnQueue]:
    """The queues as shares of the cluster."""
    whole = WHOLE_PPM if settings.has_sizes else sum(node.containers for node in settings.nodes)
    return {queue.name: YarnQueue(queue.capacity / whole, queue.maximum / whole) for queue in settings.scheduler.queues}


def fair_settings(queues: list[str]) -> st.SearchStrategy[dict[str, YarnQueueSettings]]:
    """What the FairScheduler has of the queues and the root."""
    times = st.sampled_from((None, 0, 1, 5))
    policies_of = st.sampled_from((None, *(OrderingPolicy(each) for each in ("fifo", "fair", "drf"))))
    shares = st.sampled_from((0.0, 0.2, 1.0))
    fair = st.builds(FairQueue, st.sampled_from((0.0, 1.0, 3.0)), shares, times, times, shares)
    of_queue = st.builds(YarnQueueSettings, ordering_policy=policies_of, fair=fair, max_parallel_apps=st.none())
    return st.fixed_dictionaries(dict.fromkeys((*queues, ROOT), of_queue))


@st.composite
def yarns(draw: st.DrawFn, network: st.SearchStrategy[BadNetwork | None], faults: bool = False) -> Case:
    """A case of any allocation that preempts, under YARN's."""
    case = draw(cases(network, faults).filter(lambda case: case.settings.scheduler.preempts))
    preemption = YarnPreemption(
        interval_s=draw(st.sampled_from((0.7, 1, 3))),
        max_wait_before_kill_s=draw(st.sampled_from((0, 1, 4))),
        total_preemption_per_round=draw(st.sampled_from((0.3, 1))),
        natural_termination_factor=draw(st.sampled_from((0.2, 1))),
        max_ignored_over_capacity=draw(st.sampled_from((0, 0.1))),
        intra_queue=draw(st.booleans()),
        intra_queue_max_allowable_limit=1,
        intra_queue_minimum_threshold=0,
    )
    allocation = policies.ALLOCATION.by_name["yarn-capacity"].with_options(
        YarnOptions(
            draw(st.sampled_from((1, 1, 2, 100))),
            preemption,
            queues=queues_of(case.settings),
            settings=draw(st.just({}) | fair_settings([queue.name for queue in case.settings.scheduler.queues])),
        )
    )
    scheduler = dataclasses.replace(
        case.settings.scheduler,
        allocation=allocation,
        job_selection=policies.JOB_SELECTION.by_name["priority"],
    )
    overheads = draw(st.sampled_from((case.settings.overheads, _ENDS)))
    return dataclasses.replace(
        case, settings=dataclasses.replace(case.settings, scheduler=scheduler, overheads=overheads)
    )


def with_sizes(case: Case) -> st.SearchStrategy[Case]:
    """The same in nodes of random resources."""
    return sized(case).map(_with_their_queues)


def _with_their_queues(case: Case) -> Case:
    case = _whole(case)
    scheduler = case.settings.scheduler
    function: Any = scheduler.allocation.function
    options = function.keywords["options"]
    options = msgspec.structs.replace(options, queues=queues_of(case.settings))
    allocation = policies.ALLOCATION.by_name["yarn-capacity"].with_options(options)
    settings = dataclasses.replace(case.settings, scheduler=dataclasses.replace(scheduler, allocation=allocation))
    return dataclasses.replace(case, settings=settings)


def _whole(case: Case) -> Case:
    """The same with a thousand times as much of each resource: YARN counts whole cores."""

    def times(amount: Resources) -> Resources:
        return tuple(each * PARTS for each in amount)

    def asking(job: JobSpec) -> JobSpec:
        groups = tuple(structs.replace(group, request=times(group.request)) for group in job.facts.groups)
        return structs.replace(job, facts=structs.replace(job.facts, groups=groups))

    nodes = tuple(dataclasses.replace(node, resources=times(node.resources)) for node in case.settings.nodes)
    settings = dataclasses.replace(case.settings, nodes=nodes, master_request=times(case.settings.master_request))
    return dataclasses.replace(case, settings=settings, jobs=tuple(map(asking, case.jobs)))


SIZED = yarns(CALM).flatmap(with_sizes)


def masters_leave_too_little(cluster: CheckedCluster) -> bool:
    """Whether all admitted jobs wait, and one of them for more than the ApplicationMasters leave of the cluster.

    Then YARN lets all wait for ever: it keeps for a request what its queue may still hold, and gives that to nobody
    (Hadoop's ``ParentQueue``, which subtracts the headroom of a blocked queue from what the queues after it may hold).
    """
    state = cluster.machine_of_rm().state
    jobs = [job for job in state.applications.values() if job.admitted]
    if not all(job.requests.pending and job.containers.keys() <= {job.master} for job in jobs):
        return False
    nodes = [node.settings.resources for node in state.nodes.values() if node.state is NodeState.ALIVE]
    masters = [held.request for held in state.containers.values()]
    wanted = [job.request_for(group) for job in jobs for group in job.facts.groups if job.requests.wanted(group.name)]
    wanted += [job.master_request for job in jobs if job.requests.application_master is not None]
    return any(not fits(total([*masters, each], ()), total(nodes, ())) for each in wanted)


run = partial(run_of_any, may_stand_still=masters_leave_too_little)


@given(yarns(CALM) | SIZED)
@fixed
def test_every_job_succeeds(case: Case) -> None:
    run(case)


FAULTY = yarns(CALM | BAD_NETWORK, faults=True)


@given(FAULTY | FAULTY.flatmap(with_sizes))
@fixed
def test_every_job_ends_whatever_goes_wrong(case: Case) -> None:
    run(case)


@given(yarns(CALM) | SIZED)
@fixed
def test_heartbeats_left_out_make_no_difference(case: Case) -> None:
    left_out, all_run = (run(case, every_heartbeat=every) for every in (False, True))
    ends = [{name: master.finish_ns for name, master in cluster.masters.items()} for cluster in (left_out, all_run)]
    assert ends[0] == ends[1]


@given(yarns(CALM) | SIZED)
@fixed
def test_a_machine_whose_revision_stays_has_not_changed(case: Case) -> None:
    run(case, watch_revisions=True, repeat_empty_heartbeats=True)


RESOURCES = st.tuples(*[st.integers(0, 6)] * 2)


@given(RESOURCES, RESOURCES, st.lists(RESOURCES, max_size=7), st.booleans())
@fixed
def test_a_round_takes_no_container_in_vain(amount: tuple, at_most: tuple, held: list, enough_of_any: bool) -> None:
    """Each that goes makes some of what is still lacking free, and before the last of them it was not enough."""
    named = [(str(number), each) for number, each in enumerate(held)]
    chosen = RoundVictims(Amounts((6, 6))).choose(amount, at_most, named, enough_of_any)
    going = [held[int(name)] for name in chosen]
    asked = [place for place in (0, 1) if amount[place]]
    for number, victim in enumerate(going):
        before = total(going[:number], ("", ""))
        lacked = [place for place in asked if before[place] < amount[place]]
        assert lacked == asked if enough_of_any else lacked
        assert any(victim[place] for place in lacked)
    together = total(going, ("", ""))
    assert fits(together, at_most) or not going
    if all(fits(plus(together, each), at_most) for each in held):  # it was not the limit that ended it
        left = [place for place in asked if together[place] < amount[place]]
        spared = list(held)
        for victim in going:
            spared.remove(victim)
        enough = len(left) < len(asked) if enough_of_any else not left
        assert enough or not any(each[place] for each in spared for place in left)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@given(FAULTY | FAULTY.flatmap(with_sizes))
@drawn
def test_the_same_at_length(case: Case) -> None:
    run(case)

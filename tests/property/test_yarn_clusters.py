"""Random clusters under YARN's CapacityScheduler: every check of ``CheckedCluster`` holds whatever goes wrong,
and heartbeats that are left out make no difference."""

from __future__ import annotations

import dataclasses

import pytest
from cluster_cases import BAD_NETWORK, CALM, Case, cases, run, sized, with_sized_gangs
from hypothesis import given
from hypothesis import strategies as st

from emulator.chaos.faulty_cluster import BadNetwork
from emulator.core.settings import OverheadSettings
from emulator.policies import axes as policies
from emulator.policies.resources import fits, plus, total
from emulator.policies.yarn.allocation import YarnOptions
from emulator.policies.yarn.amounts import Amounts
from emulator.policies.yarn.options import YarnPreemption
from emulator.policies.yarn.victims import RoundVictims
from tests.examples import drawn, fixed

_ENDS = OverheadSettings(launch_ns=150_000_000, application_start_ns=350_000_000, amrm_client=True)


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
        YarnOptions(draw(st.sampled_from((1, 1, 2, 100))), preemption)
    )
    scheduler = dataclasses.replace(
        case.settings.scheduler,
        allocation=allocation,
        job_selection=policies.JOB_SELECTION.by_name["priority"],
        task_eviction=policies.TASK_EVICTION.by_name[draw(st.sampled_from(("newest", "newest", "srt", "random")))],
    )
    overheads = draw(st.sampled_from((case.settings.overheads, _ENDS)))
    return dataclasses.replace(
        case, settings=dataclasses.replace(case.settings, scheduler=scheduler, overheads=overheads)
    )


SIZED = yarns(CALM).flatmap(sized)


@given(yarns(CALM) | SIZED | with_sized_gangs(SIZED))
@fixed
def test_every_job_succeeds(case: Case) -> None:
    run(case)


FAULTY = yarns(CALM | BAD_NETWORK, faults=True)


@given(FAULTY | FAULTY.flatmap(sized))
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
@given(FAULTY | FAULTY.flatmap(sized))
@drawn
def test_the_same_at_length(case: Case) -> None:
    run(case)

"""Shares in a cluster: who is given the next container, what is taken back, what a job has left, what cannot be."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from simulated import SECOND_NS, CheckedCluster, make_job, make_settings, run_checked

from emulator.core.decisions import PolicyError
from emulator.core.messages import (
    ApplicationHeartbeatResponse,
    ContainerReport,
    ContainerState,
    JobFinished,
    Outcome,
)
from emulator.core.resource_manager.applications import Application, HeldContainer
from emulator.core.resource_manager.measured import WorkLedger
from emulator.experiment.expand import expand
from emulator.experiment.load import load_experiment
from emulator.experiment.warnings import minima_warning
from emulator.policies.policy import AllocationPolicy, ShareAllocation
from emulator.policies.shares import demands
from emulator.policies.views import ClusterView, JobView, Known, QueueView, ShareDecision
from emulator.records.journal import merge
from emulator.sim.cost_model import CostModel
from emulator.vocabulary import MAP, REDUCE, JobFacts, TaskGroup, Work, map_reduce
from tests.experiment_files import refusal, write
from tests.refusals import changed

EXPERIMENT = """\
name: small
engine: sim
overheads: hadoop-0.23
cluster: {nodes: 2, slots: {map: 2, reduce: 1}, application_masters: outside}
scheduler: {allocation: {name: fair}}
workload:
  jobs:
    - {name: long, queue: default, maps: 8, map_s: 10, reduces: 2, reduce_s: 10}
    - {name: short, queue: default, submit_s: 5, maps: 4, map_s: 5}
"""


def finishes_s(allocation: str, mechanism: str = "wait") -> dict[str, float]:
    """Of a job of long reduces that has the cluster to itself, and a short one that comes then."""
    cluster = make_settings(nodes=2, containers=3, allocation=allocation, mechanism=mechanism)
    jobs = make_job("long", "research", 0.0, (), (30.0,) * 12), make_job("short", "production", 12.0, (), (5.0,) * 3)
    ends = [record.message for record in run_checked(cluster, jobs).records if isinstance(record.message, JobFinished)]
    return {end.job: end.finish_ns / 1e9 for end in ends}


def test_a_freed_container_goes_to_the_most_underallocated_job() -> None:
    fifo, fair, flex = (finishes_s(name) for name in ("fifo", "fair", "flex"))
    assert flex["short"] <= fair["short"] < fifo["short"]


@pytest.mark.parametrize("mechanism", ["kill", "checkpoint", "suspend"])
def test_what_a_job_holds_above_its_share_is_taken_back(mechanism: str) -> None:
    assert finishes_s("flex", mechanism)["short"] < finishes_s("flex")["short"] - 5


def test_masters_outside_take_no_container() -> None:
    cluster = make_settings(nodes=1, containers=1, allocation="fair", mechanism="wait", unmanaged_masters=True)
    jobs = tuple(make_job(f"job-{number}", "research", 0.0, (1.0,), (2.0,)) for number in range(3))
    assert len(run_checked(cluster, jobs).finished_jobs) == 3


def test_a_master_given_to_a_node_that_is_first_heard_of_when_it_has_started_anew_is_made_elsewhere() -> None:
    cluster = make_settings(nodes=2, containers=1, allocation="fair", mechanism="wait", unmanaged_masters=True)
    jobs = tuple(make_job(f"job-{number}", "research", 1.0, (), (2.0,)) for number in range(2))

    def nobody_hears_it(run: CheckedCluster) -> None:
        run.kernel.at(1, partial(run.restart_manager, 3 * SECOND_NS))  # its first heartbeat is lost
        run.kernel.at(1, partial(run.silence_node, "node-2"))
        run.kernel.at(25 * SECOND_NS, partial(run.return_node, "node-2"))

    slow_messages = CostModel(message_ns=SECOND_NS // 10)
    assert len(run_checked(cluster, jobs, costs=slow_messages, disturb=nobody_hears_it).finished_jobs) == 2


def test_slots_for_maps_take_no_reduce() -> None:
    cluster = make_settings(
        nodes=1, containers=3, allocation="fair", mechanism="wait", unmanaged_masters=True, slots=(1, 2)
    )
    run = run_checked(cluster, (make_job("job", "research", 0.0, (4.0,) * 4, (2.0,) * 4),))
    told = [record.message for record in run.records if isinstance(record.message, ApplicationHeartbeatResponse)]
    given = [allocation for response in told if response.answer for allocation in response.answer.allocated]
    assert Counter(allocation.group for allocation in given) == {MAP: 4, REDUCE: 4}


def one_each(view: ClusterView) -> ShareDecision:
    return ShareDecision(tuple((job, 1) for job in view.jobs), valid_until_ns=view.now_ns + 1)


def test_no_job_gets_more_than_a_policy_of_ones_own_gives_it() -> None:
    base = make_settings(nodes=2, containers=4, allocation="fair", mechanism="wait", unmanaged_masters=True)
    own = ShareAllocation("mine:RECORD", one_each, "your own")
    cluster = replace(base, scheduler=replace(base.scheduler, allocation=own))
    run = run_checked(cluster, (make_job("job", "research", 0.0, (), (5.0,) * 4),))
    assert run.kernel.now_ns > 4 * 5 * SECOND_NS


def test_where_nothing_could_be_taken_back_the_same_is_not_tried_again_until_the_shares_are_old() -> None:
    due_ns: list[int | None] = []
    base = make_settings(containers=2, allocation="fair", mechanism="kill", unmanaged_masters=True)
    cluster = replace(base, scheduler=replace(base.scheduler, epoch_ns=20 * SECOND_NS))

    def disturb(run: CheckedCluster) -> None:
        def look() -> None:
            due_ns.append(run.machines["rm"].heartbeat_due_ns(run.kernel.now_ns))

        run.kernel.at(30 * SECOND_NS + 1, look)

    run_checked(cluster, (make_job("job", "research", 0.0, (), (60.0,) * 3),), disturb=disturb)
    assert due_ns == [40 * SECOND_NS]


FROM_NS, UNTIL_NS = 15 * SECOND_NS, 80 * SECOND_NS


def all_to_short(view: ClusterView) -> ShareDecision:
    """From ``FROM_NS`` on; the other job has a share again from ``UNTIL_NS`` on, whatever happens."""
    between = FROM_NS <= view.now_ns < UNTIL_NS
    shares = tuple((job, 6 if job == "short" else 0 if between else 2) for job in view.jobs)
    return ShareDecision(shares, valid_until_ns=next((at for at in (FROM_NS, UNTIL_NS) if at > view.now_ns), None))


@pytest.mark.parametrize("seed", [5, 6, 7])
def test_stopped_tasks_go_on_when_their_job_has_a_share_again_although_nothing_else_has_changed(seed: int) -> None:
    base = make_settings(
        seed=seed, nodes=6, containers=1, allocation="fair", mechanism="suspend", unmanaged_masters=True
    )
    allocation = ShareAllocation("mine:RECORD", all_to_short, "your own")
    cluster = replace(base, scheduler=replace(base.scheduler, allocation=allocation))
    jobs = make_job("long", "research", 0.0, (), (60.0,) * 2), make_job("short", "production", 15.0, (), (5.0,) * 6)
    thrifty, every = (run_checked(cluster, jobs, every_heartbeat=each) for each in (False, True))
    assert merge(thrifty.records) == merge(every.records)
    assert UNTIL_NS < thrifty.kernel.now_ns < UNTIL_NS + 60 * SECOND_NS


def test_a_function_that_gives_shares_needs_a_record() -> None:
    base = make_settings(allocation="soft-cap", mechanism="wait")
    own = AllocationPolicy("mine:one_each", one_each, "your own")
    cluster = replace(base, scheduler=replace(base.scheduler, allocation=own))
    with pytest.raises(PolicyError, match="name a ShareAllocation of it"):
        run_checked(cluster, (make_job("job", "research", 0.0, (), (5.0,)),))


# ---- work that is left ----


def _report(
    kind: str, outcome: Outcome | None = Outcome.SUCCEEDED, input_ready_ns: int | None = None
) -> ContainerReport:
    state = ContainerState.SUSPENDED if outcome is None else ContainerState.DONE
    return ContainerReport("c", "job", kind, "n", 1, state, outcome=outcome, input_ready_ns=input_ready_ns)


def _held(group: str, since_s: int) -> HeldContainer:
    (held,) = (each for each in map_reduce(1, 1) if each.name == group)
    return HeldContainer("c", "job", held, "n", None, 0, slot_ns=since_s * SECOND_NS)


def test_work_is_the_mean_of_the_finished_tasks_times_those_left() -> None:
    ledger, job = WorkLedger(), Application(JobFacts("job", "q", groups=map_reduce(10, 2)), 0, 0)
    assert ledger.of(job, (Work.SHUFFLE,)) == (10 * SECOND_NS, 10 * SECOND_NS, True)
    ledger.left(job, _held(MAP, 0), _report(MAP), 4 * SECOND_NS)
    ledger.left(job, _held(MAP, 2), _report(MAP), 4 * SECOND_NS)
    assert ledger.of(job, (Work.SHUFFLE,)) == (30 * SECOND_NS, 24 * SECOND_NS, False)
    assert ledger.of(job, (Work.SHUFFLE, Work.KEYS)).guessed


def test_what_was_done_and_lost_is_no_work_and_what_was_saved_is() -> None:
    ledger, job = WorkLedger(), Application(JobFacts("job", "q", groups=map_reduce(0, 2)), 0, 0)
    ledger.left(job, _held(REDUCE, 0), _report(REDUCE, Outcome.KILLED), 9 * SECOND_NS)
    ledger.left(job, _held(REDUCE, 0), _report(REDUCE, Outcome.CHECKPOINTED), 4 * SECOND_NS)
    ledger.left(job, _held(REDUCE, 5), _report(REDUCE, None), 6 * SECOND_NS)
    ledger.left(job, _held(REDUCE, 6), _report(REDUCE, input_ready_ns=7 * SECOND_NS), 8 * SECOND_NS)
    assert ledger.of(job, (Work.KEYS,)).left_ns == 6 * SECOND_NS


def test_a_job_of_which_nothing_is_known_is_like_the_others_unless_it_is_given() -> None:
    ledger = WorkLedger()
    known, new = (
        Application(JobFacts(name, "q", groups=map_reduce(4, 0)), order, 0)
        for order, name in enumerate(("known", "new"))
    )
    ledger.left(known, _held(MAP, 0), _report(MAP), 3 * SECOND_NS)
    assert ledger.of(new, (Work.SHUFFLE,)) == (12 * SECOND_NS, 12 * SECOND_NS, True)
    maps = TaskGroup(MAP, 4, Work.SHUFFLE, mean_ns=7 * SECOND_NS)
    told = Application(JobFacts("told", "q", (maps,)), 2, 0)
    assert ledger.of(told, (Work.SHUFFLE,)) == (28 * SECOND_NS, 28 * SECOND_NS, False)


def test_of_a_job_of_which_nothing_is_known_one_task_runs_early() -> None:
    facts = JobFacts("job", "q", groups=map_reduce(4, 0))
    views = [JobView(facts, 0, 0, 0, 0, 4, work_left_ns=1, work_guessed=guessed) for guessed in (False, True)]
    view = ClusterView(0, Known((QueueView("q", 0, 0, 4, 0, 0),), tuple(views), containers=4))
    assert [found.minimum for found in demands(view, views)] == [0, 1]


def test_lengths_are_told_where_they_are_known(tmp_path: Path) -> None:
    experiment = load_experiment(write(tmp_path, EXPERIMENT), ["workload.lengths_known=true"])
    assert [[group.mean_ns for group in job.facts.groups] for job in expand(experiment, 1)] == [
        [10 * SECOND_NS, 10 * SECOND_NS],
        [5 * SECOND_NS],
    ]


# ---- experiment files ----


@pytest.mark.parametrize(
    ("change", "to", "words"),
    [
        ("nodes: 2,", "nodes: 2, containers_per_node: 4,", ["4 is not the sum of slots, 2 and 1"]),
        (", application_masters: outside", "", ["there is none for an ApplicationMaster"]),
        ("reduce: 1}", "reduce: 0}", ["there are no slots for reduces"]),
        ("map: 2, reduce: 1", "map: 0, reduce: 0", ["needs at least one slot"]),
        ("nodes: 2,", "nodes: 2, small_nodes: {node-3: 0.5},", ["there is no node 'node-3'"]),
        ("nodes: 2,", "nodes: 2, small_nodes: {node-2: 0.4},", ["leaves no container on node-2"]),
        ("nodes: 2,", "nodes: 2, small_nodes: {node-2: .nan},", ["small_nodes"]),
        ("name: fair", "name: optimum", ["for the fluid engine only"]),
        ("name: fair", "name: soft-cap, queues: {default: {capacity: 1}}", ["does not distinguish maps from reduces"]),
        ("name: fair}", "name: fair}, epoch_s: 0", ["epoch_s"]),
        ("name: fair}", "name: fair}, epoch_s: .nan", ["epoch_s"]),
        ("name: fair}", "name: fair}, mechanism: kill, victims: all", ["only reduces can be preempted"]),
    ],
)
def test_what_cannot_be_is_said_with_its_field(tmp_path: Path, change: str, to: str, words: list[str]) -> None:
    message = refusal(write(tmp_path, changed(EXPERIMENT, change, to)))
    assert all(word in message for word in words), message


def test_shares_wait_unless_a_mechanism_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, EXPERIMENT)
    assert load_experiment(path).scheduler.choice("mechanism").name == "wait"
    assert load_experiment(path, ["scheduler.mechanism=kill"]).scheduler.choice("mechanism").name == "kill"


def test_small_nodes_have_a_part_of_everything(tmp_path: Path) -> None:
    cluster = load_experiment(write(tmp_path, EXPERIMENT), ["cluster.small_nodes.node-2=0.5"]).cluster
    assert (cluster.containers_per_node, cluster.containers) == (3, 4)
    assert [cluster.slots_of(name) for name in cluster.node_names] == [(2, 1), (1, 0)]


def test_minima_that_ask_for_too_much_are_said(tmp_path: Path) -> None:
    path = write(tmp_path, EXPERIMENT.replace("maps: 8,", "maps: 8, min_containers: 3,"))
    assert minima_warning(load_experiment(path)) == (
        "the jobs' min_containers add up to 3, and there are 2 slots for maps, or for reduces: while these jobs run"
        " together, their minima are lowered in proportion"
    )
    assert minima_warning(load_experiment(write(tmp_path, EXPERIMENT))) is None

"""Faults by seed: what is drawn, how a violation is found, made small, kept and run again; the command around it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from emulator.chaos.faulty_cluster import FaultyCluster
from emulator.chaos.invariants import Violation
from emulator.chaos.runner import judge, undisturbed_ns
from emulator.chaos.schedule import Fault, FaultKind, draw_faults
from emulator.core.messages import RESOURCE_MANAGER, JobState, NodeLost, Start, StartContainer, node_address
from emulator.core.resource_manager.cluster_state import ClusterState
from emulator.core.resource_manager.resource_manager import ResourceManager
from emulator.errors import RunError
from emulator.experiment.expand import expand
from emulator.experiment.load import load_experiment
from emulator.experiment.model import Experiment
from emulator.records.journal import Record
from emulator.records.replay import replay
from emulator.resolved import make_machine, resolve
from emulator.shrink import shortest
from emulator.sim.disks import VirtualDisks
from emulator.sim.session import simulate
from emulator.vocabulary import REDUCE, SECOND_NS, Saved, Work
from tests.commands import invoked, run_natjam
from tests.examples import CHAOS_SEEDS, CHAOS_SEEDS_OF_FIG_4
from tests.experiment_files import TURNS_OF_ONE, write
from tests.simulated_runs import FIG4

SMALL = """\
name: small
engine: sim
overheads: hadoop-0.23
cluster: {nodes: 3, containers_per_node: 3}
scheduler:
  allocation: {name: two-queue, queues: {production: {capacity: 0.25}, research: {capacity: 0.75}}}
workload:
  jobs:
    - {name: research, queue: research, maps: 2, map_s: 2, reduces: 7, reduce_s: [30], key_s: 1}
    - {name: production, queue: production, submit_s: 15, maps: 1, map_s: 1, reduces: 3, reduce_s: [10], key_s: 1}
"""


def small(tmp_path: Path) -> Experiment:
    return load_experiment(write(tmp_path, SMALL))


# ---- schedules ----


def test_a_seed_draws_the_same_faults_and_another_others() -> None:
    drawn = [draw_faults(seed, 200 * SECOND_NS, list(FaultKind)) for seed in range(300)]
    assert drawn[7] == draw_faults(7, 200 * SECOND_NS, list(FaultKind))
    assert len(set(drawn)) == 300
    assert {fault.kind for faults in drawn for fault in faults} == set(FaultKind)
    for faults in drawn:
        assert list(faults) == sorted(faults, key=lambda fault: fault.at_ns)
        assert all(0 <= fault.at_ns < 200 * SECOND_NS and 0 < fault.for_ns <= 50 * SECOND_NS for fault in faults)


@given(st.sets(st.integers(0, 15)), st.integers(1, 16))
def test_the_shortest_part_that_fails_is_found(needed: set[int], count: int) -> None:
    needed = {item for item in needed if item < count}
    assert set(shortest(range(count), lambda part: needed <= set(part))) == needed


# ---- what must hold is looked at ----

Tamper = Callable[[FaultyCluster], None]


class _Tampered(FaultyCluster):
    """Something is done to it that no fault may do."""

    def __init__(self, *given: Any, tamper: Tamper, **named: Any) -> None:
        super().__init__(*given, **named)
        self.kernel.at(13 * SECOND_NS, partial(tamper, self))


class _Miscounting(VirtualDisks):
    """What it has saved counts ``by`` keys too many."""

    def __init__(self, by: int) -> None:
        super().__init__()
        self._by = by

    def sound(self, saved: Saved | None) -> tuple[Saved | None, tuple[str, ...]]:
        return saved if saved is None else structs.replace(saved, keys_done=saved.keys_done + self._by), ()


def miscount_keys(cluster: FaultyCluster, by: int) -> None:
    cluster.processes.disks = _Miscounting(by)


def state_of(cluster: FaultyCluster) -> ClusterState:
    manager = cluster.machines[RESOURCE_MANAGER]
    assert isinstance(manager, ResourceManager)
    return manager.state


def run_a_task_twice(cluster: FaultyCluster) -> None:
    node = next(node for node in state_of(cluster).free_nodes)
    cluster.tell(node_address(node), StartContainer("more", "research", REDUCE, 0, "research/r000.9", 0))


def forget_a_container(cluster: FaultyCluster) -> None:
    state = state_of(cluster)
    held = next(held for held in state.containers.values() if held.group.name == REDUCE)
    state.nodes[held.node].ledger.end(held.id)


def stand_still(cluster: FaultyCluster) -> None:
    for address in cluster.machines:
        cluster.pause(address)


@pytest.mark.parametrize(
    ("tamper", "said"),
    [
        *((partial(miscount_keys, by=by), r"has walked from key \d+, not \d+") for by in (1, -1)),
        (run_a_task_twice, "research/r000.9 runs in more while .* is at the same task"),
        (forget_a_container, "rm: "),
        (stand_still, "there was no progress from .* stuck: research"),
    ],
)
def test_what_does_not_hold_is_said(tmp_path: Path, tamper: Tamper, said: str) -> None:
    experiment = small(tmp_path)
    jobs = expand(experiment, experiment.seed)
    make = partial(_Tampered, faults=(), limit_ns=2000 * SECOND_NS, tamper=tamper)
    with pytest.raises((Violation, RunError), match=said):
        simulate(resolve(experiment, jobs), lambda records: None, make_cluster=make)


def take_the_deaf_node_of_a_master_for_dead(cluster: FaultyCluster) -> None:
    """It hears only long after that its work is done elsewhere."""
    tasks = cluster.processes.tasks.values()
    node = next(task.node for task in tasks if task.launch.work is Work.MASTER)
    cluster.pause(node_address(node))
    cluster.tell(RESOURCE_MANAGER, NodeLost(node, "taken for dead"))
    cluster.kernel.at(40 * SECOND_NS, partial(cluster.go_on, node_address(node)))


def test_an_application_master_that_lives_on_a_node_taken_for_dead_has_one_state_with_the_next(tmp_path: Path) -> None:
    experiment = small(tmp_path)
    jobs = {job.name: job for job in expand(experiment, experiment.seed)}
    records: list[Record] = []
    tamper = take_the_deaf_node_of_a_master_for_dead
    make = partial(_Tampered, faults=(), limit_ns=2000 * SECOND_NS, tamper=tamper)
    cluster = simulate(resolve(experiment, tuple(jobs.values())), records.extend, make_cluster=make)
    assert isinstance(cluster, FaultyCluster)
    assert {finished.state for finished in cluster.invariants.finished.values()} == {JobState.SUCCEEDED}
    starts = [record.actor for record in records if isinstance(record.message, Start)]
    assert starts.count("am:research") == 2
    settings = resolve(experiment).settings
    assert replay(records, lambda address: make_machine(address, settings, jobs)) is None


def test_an_application_master_may_start_when_the_one_before_has_left(tmp_path: Path) -> None:
    """Its node is taken for dead 2 s before its job ends, and the next takes longer to start."""
    outside = SMALL.replace("containers_per_node: 3}", "containers_per_node: 3, application_masters: outside}")
    fault = Fault(FaultKind.FALSE_DEATH, 38_800_000_000, SECOND_NS, 1)
    assert judge(load_experiment(write(tmp_path, outside)), 60 * SECOND_NS, 1, [fault]).violation is None


@pytest.mark.parametrize("kind", list(FaultKind))
def test_each_kind_of_fault_meets_somebody_and_the_run_stands_it(tmp_path: Path, kind: FaultKind) -> None:
    at_s = 32 if kind is FaultKind.BAD_CHECKPOINT else 18
    faults = [Fault(kind, at_s * SECOND_NS, 5 * SECOND_NS, pick) for pick in (1, 5)]
    judged = judge(small(tmp_path), 100 * SECOND_NS, 1, faults)
    assert judged.violation is None
    assert set(judged.happened) == {kind}


def test_what_a_fault_costs_is_known_where_it_is_alone(tmp_path: Path) -> None:
    experiment = small(tmp_path)
    death, crash = (Fault(kind, 20 * SECOND_NS, SECOND_NS, 1) for kind in (FaultKind.NODE_DEATH, FaultKind.CRASH))
    cost = judge(experiment, 100 * SECOND_NS, 1, [death]).cost
    assert cost is not None
    assert cost.added_ns > SECOND_NS
    assert cost.lost_ns > 5 * SECOND_NS
    assert judge(experiment, 100 * SECOND_NS, 1, [death, crash]).cost is None


# ---- fixed seeds over small clusters that are full, and what seeds drawn elsewhere have found ----

FULL = """\
name: full
engine: sim
overheads: hadoop-0.23
cluster: {nodes: 3, containers_per_node: 3, max_suspended_per_node: 2}
scheduler:
  allocation: {name: two-queue, queues: {production: {capacity: 0.25}, research: {capacity: 0.75}}}
workload:
  jobs:
    - {name: research, queue: research, maps: 3, map_s: 4, reduces: 9, reduce_s: [20, 35], key_s: 1}
    - {name: production, queue: production, submit_s: 20, maps: 1, map_s: 2, reduces: 4, reduce_s: [12], key_s: 1}
    - {name: again, queue: production, submit_s: 48, maps: 0, reduces: 3, reduce_s: [6], key_s: 0.5}
"""
VARIANTS = {
    "checkpoint": (),
    "suspend": ("scheduler.mechanism=suspend",),
    "kill": ("scheduler.mechanism=kill",),
    "maps-too": ("scheduler.mechanism=suspend", "scheduler.victims=all"),
    "speculation": ("protocol.speculation={after_s: 5}", "cluster.slow_nodes={node-2: 4}"),
    "image": ("scheduler.mechanism=image", "storage.tier=ssd"),
}


def check(file: Path, overrides: tuple[str, ...], seeds: range) -> None:
    experiment = load_experiment(file, ["engine=sim", *overrides])
    span_ns = undisturbed_ns(experiment)
    found = []
    for seed in seeds:
        judged = judge(experiment, span_ns, seed, draw_faults(seed, span_ns, list(FaultKind)))
        if judged.violation is not None:
            found.append(f"seed {seed}: {judged.violation}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("variant", list(VARIANTS))
def test_fixed_seeds_on_a_full_cluster(tmp_path: Path, variant: str) -> None:
    check(write(tmp_path, FULL), VARIANTS[variant], range(CHAOS_SEEDS))


def test_fixed_seeds_of_fig_4() -> None:
    check(FIG4, (), range(CHAOS_SEEDS_OF_FIG_4))


def test_what_ran_on_a_node_that_died_silently_is_known_to_be_gone_when_the_node_is_missed(tmp_path: Path) -> None:
    """Its job fails before that, because its ApplicationMaster has died too often."""
    kinds = (FaultKind.SILENT_DEATH, FaultKind.MASTERS_DEATH, FaultKind.MASTERS_DEATH)
    faults = [Fault(kind, at_s * SECOND_NS, SECOND_NS, 2) for kind, at_s in zip(kinds, (15, 18, 30), strict=True)]
    judged = judge(load_experiment(write(tmp_path, FULL)), 100 * SECOND_NS, 1, faults)
    assert judged.violation is None
    assert judged.happened == kinds
    assert judged.jobs is not None
    assert judged.jobs[JobState.FAILED]


# ---- the command ----

OWN = """
def picky(view, jobs, random):
    assert len([node for node in view.nodes.values() if node.alive]) > 2, "a node is missed"
    return jobs[0].name
"""


def test_a_violation_is_made_small_kept_and_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(SMALL.replace("scheduler:", "scheduler:\n  job_eviction: picky_nodes:picky"))
    Path("picky_nodes.py").write_text(OWN)
    result = run_natjam("chaos", "small.yaml", "--seeds", "12", "--from", "0", "--out", "found", status=1)
    assert "a node is missed" in result.output
    found = sorted(Path("found").glob("seed-*/faults.json"))
    assert found
    for file in found:
        assert str(file) in result.output
        saved = json.loads(file.read_text())
        kinds = [fault["kind"] for fault in saved["faults"]]
        assert {"node-death", "silent-death", "node-return", "false-death"} & set(kinds)
        assert len(kinds) <= 2, "when the node goes may depend on another fault"
        again = run_natjam("chaos", "--replay", file, status=1)
        assert f"seed {saved['seed']}" in again.output
        assert "a node is missed" in again.output
    faults = json.loads(found[0].read_text())
    found[0].write_text(json.dumps({**faults, "faults": []}))
    run_natjam("chaos", "--replay", found[0])


def test_seeds_are_drawn_and_said(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    said = [invoked("chaos", tmp_path / "small.yaml", "--seeds", "1", "--out", tmp_path / "out") for _ in range(2)]
    assert [result.exit_code for result in said] == [0, 0]
    firsts = [result.output.splitlines()[0] for result in said]
    assert firsts[0] != firsts[1]
    assert all(first.startswith("seeds ") for first in firsts)
    assert "1 seed: no violation" in said[0].output
    assert "time added" in said[0].output
    assert not (tmp_path / "out").exists()


def test_a_run_that_has_no_end_where_a_node_has_gone_is_counted(tmp_path: Path) -> None:
    file = write(tmp_path, TURNS_OF_ONE.replace("nodes: 1", "nodes: 2"))
    seeds = ("--seeds", "1", "--from", "4", "--faults", "node-death")
    result = run_natjam("chaos", file, *seeds, "--out", tmp_path / "out")
    assert re.search(r"given up: preempted without end\W+\d", result.output)


def test_an_experiment_without_an_end_is_refused(tmp_path: Path) -> None:
    result = run_natjam("chaos", write(tmp_path, TURNS_OF_ONE), "--seeds", "1", "--out", tmp_path / "out", status=1)
    assert "tasks are preempted without end" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("chaos",), "give either an experiment file, or --replay"),
        (("chaos", FIG4, "--replay", FIG4), "give either an experiment file, or --replay"),
        (("chaos", FIG4, "--faults", "crash,rain"), "--faults 'rain': no kind of fault; there are crash, "),
        (("chaos", FIG4.with_name("none.yaml")), "none.yaml"),
        (("chaos", "--replay", FIG4), "natjam-fig4.yaml: not JSON"),
    ],
)
def test_bad_input_is_refused(arguments: tuple[str | Path, ...], said: str) -> None:
    result = run_natjam(*arguments, status=2)
    assert said in result.output

"""Mechanisms image and adaptive in virtual time: dumps wait for the device of their node, and lose nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from emulator.core.messages import Outcome
from emulator.errors import ConfigError
from emulator.experiment.load import load_experiment
from emulator.policies.mechanism import Adaptive, adaptive
from emulator.records.journal import Record
from emulator.records.replay import replay
from emulator.resolved import make_machine, resolve
from emulator.sim.cluster import SimulatedCluster
from emulator.sim.disks import VirtualDisks
from emulator.sim.session import simulate, simulated_history
from emulator.vocabulary import REDUCE, MeasuredCosts, Mechanism, Saved
from tests.histories import fold
from tests.views import cluster, task_view

EXPERIMENT = """\
name: images
engine: sim
overheads: yarn-3
protocol: {kill_timeout_s: 600}
cluster: {nodes: 2, containers_per_node: 3}
storage: {tier: TIER}
scheduler:
  allocation: {name: two-queue, queues: {production: {capacity: 0.5}, research: {capacity: 0.5}}}
  mechanism: MECHANISM
workload:
  jobs:
    - {name: research, queue: research, maps: 1, map_s: 1, reduces: 5, reduce_s: [60]}
    - {name: production, queue: production, submit_s: 40, maps: 1, map_s: 1, reduces: 2, reduce_s: [20]}
"""


def simulated(tmp_path: Path, mechanism: str, tier: str) -> tuple[float, list[str]]:
    """When the last job had ended, emulated seconds, and what had become of the containers."""
    path = tmp_path / "images.yaml"
    path.write_text(EXPERIMENT.replace("TIER", tier).replace("MECHANISM", mechanism))
    experiment = load_experiment(path)
    outcomes: list[str] = []

    def look(records: Sequence[Record]) -> None:
        outcomes.extend(type(record.message).__name__ for record in records)

    done = simulate(resolve(experiment), look)
    for machine in done.machines.values():
        machine.validate_state()
    return done.kernel.now_ns / 1e9, outcomes


def test_a_slower_device_holds_everybody_up_longer(tmp_path: Path) -> None:
    times = {tier: simulated(tmp_path, "image", tier) for tier in ("hdd", "ssd", "nvm")}
    assert all("Checkpointed" in outcomes and "Killed" not in outcomes for _, outcomes in times.values())
    assert times["nvm"][0] < times["ssd"][0] < times["hdd"][0]


def test_adaptive_kills_where_an_image_costs_more_than_is_lost(tmp_path: Path) -> None:
    slow, slow_outcomes = simulated(tmp_path, "adaptive", "hdd")
    fast, fast_outcomes = simulated(tmp_path, "adaptive", "nvm")
    assert "Checkpointed" not in slow_outcomes
    assert "Checkpointed" in fast_outcomes
    assert slow <= simulated(tmp_path, "image", "hdd")[0]
    assert fast <= simulated(tmp_path, "kill", "nvm")[0]


def test_a_restore_that_is_preempted_is_broken_off_and_no_image_is_written(tmp_path: Path) -> None:
    path = tmp_path / "images.yaml"
    again = "    - {name: again, queue: production, submit_s: 85, maps: 1, map_s: 1, reduces: 4, reduce_s: [20]}\n"
    path.write_text(EXPERIMENT.replace("TIER", "hdd").replace("MECHANISM", "image") + again)
    attempts = simulated_history(resolve(load_experiment(path))).attempts
    broken_off = [row for row in attempts if row.resumed_from and row.outcome is Outcome.KILLED]
    assert broken_off
    assert all(row.lost_ns == 0 < row.overhead_ns for row in broken_off)
    saved = [row for row in attempts if row.outcome is Outcome.CHECKPOINTED]
    assert saved
    assert all(row.useful_ns > 0 for row in saved)


class Damaged(VirtualDisks):
    """Nothing that is saved can be read."""

    def sound(self, saved: Saved | None) -> tuple[Saved | None, tuple[str, ...]]:
        if saved is not None:
            self.damage_checkpoint(saved.past_containers[-1])
        return super().sound(saved)


@pytest.mark.parametrize("mechanism", ["image", "checkpoint"])
def test_work_whose_saved_state_is_not_found_is_lost(tmp_path: Path, mechanism: str) -> None:
    path = tmp_path / "images.yaml"
    path.write_text(EXPERIMENT.replace("TIER", "nvm").replace("MECHANISM", mechanism))
    resolved = resolve(load_experiment(path))
    journal: list[Record] = []

    def make(*given: Any, **named: Any) -> SimulatedCluster:
        cluster = SimulatedCluster(*given, **named)
        cluster.processes.disks = Damaged()
        return cluster

    simulate(resolved, journal.extend, make_cluster=make)
    jobs = {job.name: job for job in resolved.jobs}
    assert replay(journal, lambda address: make_machine(address, resolved.settings, jobs)) is None
    history = fold(journal, resolved.jobs)
    saved = [row for row in history.attempts if row.outcome is Outcome.CHECKPOINTED]
    assert saved
    assert all(row.useful_ns == 0 < row.lost_ns == row.active_ns for row in saved)
    again = [row for row in history.attempts if row.attempt.endswith(".1") and row.kind == REDUCE]
    assert again
    assert all(row.keys_start == 0 and row.resumed_from is None for row in again)
    assert sum(job.lost_work_ns for job in history.jobs) == sum(row.lost_ns for row in saved)


@pytest.mark.parametrize(
    ("mechanism", "tier", "complaint"),
    [("image", "null", "need a storage device"), ("image", "hddd", "did you mean 'hdd'"), ("adaptive", "null", "need")],
)
def test_images_without_a_device_are_refused(tmp_path: Path, mechanism: str, tier: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        simulated(tmp_path, mechanism, tier)


@pytest.mark.parametrize(("engine", "dumper"), [("fluid", "criu"), ("live", "crui")])
def test_images_that_cannot_be_made_are_refused(tmp_path: Path, engine: str, dumper: str) -> None:
    path = tmp_path / "images.yaml"
    text = EXPERIMENT.replace("TIER", "ssd").replace("MECHANISM", f"{{name: image, dumper: {dumper}}}")
    path.write_text(text.replace("engine: sim", f"engine: {engine}"))
    with pytest.raises(ConfigError, match="fluid engine makes no images" if engine == "fluid" else "dumper"):
        load_experiment(path)


AGAIN = """\
name: again
engine: sim
overheads: yarn-3
heartbeat_s: 0.1
protocol: {kill_timeout_s: 600}
cluster: {nodes: 1, containers_per_node: 1, container_memory_gb: 1, application_masters: outside}
storage: {tier: {write_mb_s: 107.3741824, read_mb_s: 1073.741824}, incremental: INCREMENTAL}
scheduler:
  allocation: {name: two-queue, queues: {production: {capacity: 0.5}, research: {capacity: 0.5}}}
  mechanism: image
workload:
  jobs:
    - {name: research, queue: research, reduces: 1, reduce_s: 60, dirty_fraction: 0.1}
    - {name: first, queue: production, submit_s: 20, reduces: 1, reduce_s: 5}
    - {name: second, queue: production, submit_s: 60, reduces: 1, reduce_s: 5}
"""


@pytest.mark.parametrize(("incremental", "second_s"), [("true", 1.0), ("false", 10.0)])
def test_the_second_image_holds_what_has_changed(tmp_path: Path, incremental: str, second_s: float) -> None:
    path = tmp_path / "again.yaml"
    path.write_text(AGAIN.replace("INCREMENTAL", incremental))
    experiment = load_experiment(path)
    history = simulated_history(resolve(experiment))
    assert [image.written_bytes / 2**30 for image in history.images] == pytest.approx([1.0, second_s / 10])
    dumps_s = [row.overhead_ns / 1e9 for row in history.attempts if row.kind == REDUCE and row.overhead_ns]
    assert dumps_s == pytest.approx([10.0, 1.0 + second_s, 1.0], abs=0.01)  # the restores take a second each


def test_an_image_holds_the_memory_that_is_used_by_then(tmp_path: Path) -> None:
    path = tmp_path / "grows.yaml"
    path.write_text(AGAIN.replace("INCREMENTAL", "false").replace("0.1}", "0.1, memory_at_start: 0.25}"))
    history = simulated_history(resolve(load_experiment(path)))
    worked_s = [row.useful_ns / 1e9 for row in history.attempts if row.outcome is Outcome.CHECKPOINTED]
    done = [worked_s[0] / 60, sum(worked_s) / 60]
    assert 0 < done[0] < done[1] < 1
    written = [image.written_bytes / 2**30 for image in history.images]
    assert written == pytest.approx([0.25 + 0.75 * share for share in done], abs=1e-5)


def test_adaptive_weighs_what_it_may_choose_from() -> None:
    everything = Adaptive(among=tuple(Mechanism))
    view = cluster(now_ns=1000, costs=MeasuredCosts(suspend_ns=30, resume_ns=40))
    assert adaptive(view, task_view(0, 20), options=everything).mechanism is Mechanism.WAIT
    assert adaptive(view, task_view(0, 500, started_ns=990), options=everything).mechanism is Mechanism.KILL
    assert adaptive(view, task_view(0, 500), options=everything).mechanism is Mechanism.SUSPEND
    refused = structs.replace(task_view(0, 500), refusals=1)  # its node has no room for another stopped process
    assert adaptive(view, refused, options=everything).mechanism is Mechanism.CHECKPOINT
    decision = adaptive(view, task_view(0, 500), options=Adaptive())
    assert (decision.mechanism, decision.numbers) == (Mechanism.KILL, (("kill_ns", 1000),))


def test_what_a_node_has_no_room_to_stop_is_saved_in_another_way_at_once(tmp_path: Path) -> None:
    path, completions_s = tmp_path / "no-room.yaml", list[float]()
    for mechanism in ("checkpoint", "{name: adaptive, among: [suspend, checkpoint]}"):
        text = EXPERIMENT.replace("TIER", "hdd").replace("MECHANISM", mechanism)
        path.write_text(text.replace("per_node: 3", "per_node: 3, max_suspended_per_node: 0"))
        experiment = load_experiment(path)
        history = simulated_history(resolve(experiment))
        production = next(job for job in history.jobs if job.name == "production")
        assert production.completion_ns is not None
        completions_s.append(production.completion_ns / 1e9)
    without, after_refusal = completions_s
    assert without < after_refusal < without + 3, "two more heartbeats, not the time that others are spared for"

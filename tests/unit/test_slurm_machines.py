"""Slurm's rules through the whole machines: as they are played in virtual time, and what only the machines can do."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from analysis.papers.slurm_runs import recorded_runs, simulated
from emulator.errors import ConfigError
from emulator.experiment.load import load_experiment
from emulator.files.yaml_values import dump_yaml
from emulator.policies.slurm.model import SECOND_NS, Cluster, Mode, Partition, Settings
from emulator.policies.slurm.player import Player
from tests.peers.slurm import WITHIN_NS, differences, in_machines, played, run_in_machines
from tests.unit.test_slurm import NODES, cluster, job
from workloads.slurm.saved import Slurm, write_saved

NOTHING_COSTS: dict[str, Any] = {"overheads": "none"}
RUNS = [run for run in recorded_runs() if run["seed"] == 1]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run["config"])
def test_recorded_runs_go_through_the_machines_as_they_are_played(run: dict[str, Any], tmp_path: Path) -> None:
    assert [*differences(run_in_machines(run, tmp_path), played(simulated(run)), WITHIN_NS)] == []


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("seed", range(3))
def test_drawn_jobs_do_too(mode: Mode, seed: int, tmp_path: Path) -> None:
    random = Random(f"slurm-machines-{seed}")
    of = cluster(mode, gang=mode is Mode.SUSPEND, time_slice_ns=5 * SECOND_NS)
    jobs = [
        job(
            f"{random.choice(('low', 'low', 'high'))}{number}",
            random.choice((1, 1, 2, 4)),
            random.choice((1, 2, 4, 8)),
            random.randrange(1000, 60_000) / 1000,
            random.randrange(120_000) / 1000,
            limit_ns=random.choice((30, 90)) * SECOND_NS,
        )
        for number in range(40)
    ]
    ours = in_machines(of, jobs, tmp_path, **NOTHING_COSTS)
    assert [*differences(ours, played(Player(of, jobs).play()))] == []


@pytest.mark.parametrize(("mechanism", "redone_s"), [("kill", 20.0), ("checkpoint", 0.0)])
def test_work_can_be_saved_in_place_of_a_requeue(mechanism: str, redone_s: float, tmp_path: Path) -> None:
    jobs = [job("low", 4, 8, 60), job("high", 4, 8, 5, 20)]
    stays = in_machines(cluster(), jobs, tmp_path, scheduler={"mechanism": mechanism}, **NOTHING_COSTS)
    first, second = stays["low"]
    assert first == (0, 20 * SECOND_NS)
    assert second == (26 * SECOND_NS, round((26 + 40 + redone_s) * SECOND_NS))
    assert stays["high"] == [(20 * SECOND_NS, 25 * SECOND_NS)]


def test_a_job_whose_node_is_lost_is_requeued(tmp_path: Path) -> None:
    faults = [{"kind": "node", "node": "n1", "at_s": 20.0, "recover_s": 1000.0}]
    stays = in_machines(cluster(), [job("low", 2, 8, 60)], tmp_path, faults=faults, **NOTHING_COSTS)
    first, second = stays["low"]
    assert first[0] == 0
    assert second[0] >= 20 * SECOND_NS
    assert second[1] - second[0] == 60 * SECOND_NS


def test_what_the_site_decides_cannot_be_given(tmp_path: Path) -> None:
    def refusal(of: Cluster, **keys: Any) -> str:
        write_saved(tmp_path / "site.yaml", Slurm(of, (job("low", 4, 8),)), ())
        (tmp_path / "mine.yaml").write_text(dump_yaml({"name": "mine", "site": "site.yaml", **keys}))
        with pytest.raises(ConfigError) as caught:
            load_experiment(tmp_path / "mine.yaml")
        return str(caught.value)

    assert "one of kill, checkpoint, image" in refusal(cluster(), scheduler={"mechanism": "suspend"})
    assert "decides it" in refusal(cluster(), scheduler={"task_eviction": "srt"})
    low, high = Partition("low", tuple(NODES), 1, Mode.SUSPEND), Partition("high", tuple(NODES), 10, Mode.CANCEL)
    assert "both SUSPEND and CANCEL" in refusal(Cluster(NODES, (low, high), Settings(preempts=True)))

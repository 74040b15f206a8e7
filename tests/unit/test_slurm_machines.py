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
from emulator.policies.news import (
    ContainerEnded,
    ContainerStarted,
    Give,
    GroupNews,
    JobSubmitted,
    JobWaits,
    News,
    NodeGone,
    NodeUp,
    Said,
    TakeBack,
)
from emulator.policies.slurm.allocation import SlurmRules, SlurmScheduler
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
@pytest.mark.parametrize("seed", range(2))
def test_drawn_jobs_do_too(mode: Mode, seed: int, tmp_path: Path) -> None:
    random = Random(f"slurm-machines-{seed}")
    of = cluster(mode, gang=mode is Mode.SUSPEND, time_slice_ns=5 * SECOND_NS)
    jobs = [
        job(
            f"{random.choice(('low', 'low', 'high'))}{number}",
            random.choice((1, 1, 2, 4)),
            random.choice((1, 2, 4, 8)),
            random.randrange(1000, 60_000) / 1000,
            random.randrange(75_000) / 1000,
            limit_ns=random.choice((30, 90)) * SECOND_NS,
        )
        for number in range(25)
    ]
    ours = in_machines(of, jobs, tmp_path, **NOTHING_COSTS)
    assert [*differences(ours, played(Player(of, jobs).play()))] == []


def test_work_can_be_saved_in_place_of_a_requeue(tmp_path: Path) -> None:
    jobs = [job("low", 4, 8, 60), job("high", 4, 8, 5, 20.5)]
    stays = in_machines(cluster(), jobs, tmp_path, scheduler={"mechanism": "checkpoint"}, **NOTHING_COSTS)
    first, second = stays["low"]
    saved_ns = first[1]  # at the end of the key that it was at
    assert 21 * SECOND_NS <= saved_ns <= 22 * SECOND_NS
    assert stays["high"] == [(saved_ns, saved_ns + 5 * SECOND_NS)]
    assert second == (27 * SECOND_NS, 27 * SECOND_NS + 60 * SECOND_NS - saved_ns)


def test_a_job_whose_node_is_lost_is_requeued() -> None:
    scheduler = SlurmScheduler(SlurmRules(cluster(), (job("low", 2, 8, 60),)))

    def answer(now_s: int, *news: News) -> list[Said]:
        heard = scheduler.hear(news, now_s * SECOND_NS)
        decides = heard.again_ns == now_s * SECOND_NS
        return [*heard.decisions, *(scheduler.decide(now_s * SECOND_NS).decisions if decides else ())]

    def waits(new: int, at_once: int) -> JobWaits:
        return JobWaits("low", 0, {"task": new} if new else {}, (), (), at_once)

    submitted = JobSubmitted("low", "low", 0, (GroupNews("task", 2, True, {"cpu": 8000}),), None, 0)
    first = answer(0, *(NodeUp(node, "", 8) for node in NODES), submitted, waits(2, 2))
    assert first == [Give("low", "n0", "task"), Give("low", "n1", "task")]
    started = [ContainerStarted(f"c{number}", "low", "task", f"n{number}", None) for number in range(2)]
    assert answer(1, *started, waits(0, 0)) == []
    assert answer(2, ContainerEnded("c1", "low", "n1"), NodeGone("n1"), waits(1, 0)) == [TakeBack("c0")]
    assert answer(3, ContainerEnded("c0", "low", "n0"), waits(2, 2)) == []
    assert answer(8) == [Give("low", "n2", "task"), Give("low", "n3", "task")]  # after cred_expire


def test_what_the_site_decides_cannot_be_given(tmp_path: Path) -> None:
    def refusal(of: Cluster, **keys: Any) -> str:
        write_saved(tmp_path / "site.yaml", Slurm(of, (job("low", 4, 8),)), ())
        (tmp_path / "mine.yaml").write_text(dump_yaml({"name": "mine", "site": "site.yaml", **keys}))
        with pytest.raises(ConfigError) as caught:
            load_experiment(tmp_path / "mine.yaml")
        return str(caught.value)

    assert "one of kill, checkpoint, image" in refusal(cluster(), scheduler={"mechanism": "suspend"})
    assert "decides it" in refusal(cluster(), scheduler={"task_eviction": "srt"})
    spared = {"allocation": {"queues": {"low": {"minimum_runtime_s": 60}}}}
    assert "spares nobody because of it" in refusal(cluster(), scheduler=spared)
    low, high = Partition("low", tuple(NODES), 1, Mode.SUSPEND), Partition("high", tuple(NODES), 10, Mode.CANCEL)
    assert "both SUSPEND and CANCEL" in refusal(Cluster(NODES, (low, high), Settings(preempts=True)))

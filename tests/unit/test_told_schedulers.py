"""What kube-scheduler's, Kueue's and Slurm's rules make of jobs that they do not know, and of news that cross."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from emulator.errors import ConfigError, NatjamError
from emulator.experiment.load import load_experiment
from emulator.files.yaml_values import dump_yaml
from emulator.policies.kubernetes.model import Arrival, Node, Pod
from emulator.policies.kubernetes.scheduler import KubeRules, KubeScheduler
from emulator.policies.schedulers.protocol import (
    Begin,
    ContainerEnded,
    ContainerStarted,
    ContainerStopped,
    Event,
    Give,
    GroupFacts,
    JobEnded,
    JobSubmitted,
    JobWaits,
    NodeUp,
    Reclaim,
    SchedulerDecision,
)
from emulator.policies.slurm.model import Cluster, Job, Partition, Settings
from emulator.policies.slurm.scheduler import SlurmRules, SlurmScheduler
from emulator.resolved import resolve
from emulator.sim.session import simulated_history

Ours = KubeScheduler | SlurmScheduler
S = 10**9
KUBE = {
    "name": "kube-scheduler",
    "nodes": [{"name": "a", "allocatable": {"cpu": 2000}}],
    "pods": [{"pod": {"name": "x"}, "submit_ns": 0}],
}
KUEUE = {
    "name": "kueue",
    "cluster": {"queues": [{"name": "q"}]},
    "workloads": [{"workload": {"name": "x", "queue": "q", "podsets": [{"name": "p", "count": 1, "requests": {}}]}}],
}
SLURM = {
    "name": "slurm",
    "cluster": {"nodes": {"a": 2}, "partitions": [{"name": "q", "nodes": ["a"]}]},
    "jobs": [{"name": "x", "partition": "q", "nodes": 1, "cpus": 1, "length_ns": S}],
}


def write_by_hand(folder: Path, allocation: dict[str, Any], job: dict[str, Any], count: int) -> None:
    """An experiment with a job of so many tasks."""
    tasks = {"name": "pod", "count": count, "length_s": 3, "resources": {"cpu": 1, "memory_gb": 1}}
    experiment = {
        "name": "by-hand",
        "engine": "sim",
        "overheads": "none",
        "cluster": {
            "node_groups": [{"name": "a", "count": 1, "resources": {"cpu": 2, "memory_gb": 8}}],
            "application_masters": "outside",
        },
        "scheduler": {"mechanism": "kill", "allocation": {**allocation, "queues": {"q": {"capacity": 0}}}},
        "workload": {"jobs": [{**job, "queue": "q", "groups": [tasks]}]},
    }
    (folder / "by-hand.yaml").write_text(dump_yaml(experiment))


@pytest.mark.parametrize(
    ("allocation", "name", "count", "problem"),
    [
        (KUBE, "y", 1, "job y is none of scheduler.allocation.pods; give it"),
        (KUBE, "x", 2, "job x has 2 tasks, and a pod is one"),
        (KUEUE, "y", 1, "job y is none of scheduler.allocation.workloads; give it"),
        (KUEUE, "x", 2, "job x has groups of 2 tasks, and its workload in scheduler.allocation.workloads podsets of 1"),
        (SLURM, "y", 1, "job y is none of scheduler.allocation.jobs; give it"),
        (SLURM, "x", 2, "job x must have one group of 1 tasks, one for each node"),
    ],
)
def test_jobs_that_the_rules_do_not_know_are_refused_in_words(
    allocation: dict[str, Any], name: str, count: int, problem: str, tmp_path: Path
) -> None:
    write_by_hand(tmp_path, allocation, {"name": name}, count)
    with pytest.raises(NatjamError, match=problem):
        simulated_history(resolve(load_experiment(tmp_path / "by-hand.yaml")))


def test_a_minimum_runtime_of_a_job_that_the_rules_would_not_heed_is_refused(tmp_path: Path) -> None:
    write_by_hand(tmp_path, KUBE, {"name": "x", "minimum_runtime_s": 5}, 1)
    with pytest.raises(ConfigError, match=r"workload\.jobs\.0\.minimum_runtime_s: kube-scheduler spares nobody"):
        load_experiment(tmp_path / "by-hand.yaml")


def answered(scheduler: Ours, now_s: int, *events: Event) -> list[SchedulerDecision]:
    """What it answers, and decides if it wants to at once."""
    notified = scheduler.notify(events, now_s * S)
    decides = notified.valid_until_ns is not None and notified.valid_until_ns <= now_s * S
    return [*notified.decisions, *(scheduler.decide(now_s * S).decisions if decides else ())]


def comes(job: str) -> tuple[Event, Event]:
    """A job of one task, which waits for its container."""
    submitted = JobSubmitted(job, "q", 0, (GroupFacts("task", 1, True, {"cpu": 1000}),), None, 0)
    return submitted, JobWaits(job, 0, {"task": 1}, (), (), 0)


def kube(*pods: Arrival, mechanism: str = "kill") -> KubeScheduler:
    scheduler = KubeScheduler(KubeRules((Node("a", {"cpu": 1000, "memory": 1}),), pods))
    answered(scheduler, 0, Begin(1, 1, (), suspended_hold=("memory_gb",), mechanism=mechanism), NodeUp("a", "", 1))
    return scheduler


def kube_job(name: str, submit_s: int = 0, priority: int = 0) -> Arrival:
    return Arrival(Pod(name, priority, requests={"cpu": 1000}), submit_s * S, 60 * S)


def slurm(*names: str) -> SlurmScheduler:
    partition, settings = Partition("q", ("a",)), Settings(batch_sched_delay_ns=0, sched_min_interval_ns=0)
    jobs = tuple(Job(name, "q", 1, 1, 60 * S) for name in names)
    scheduler = SlurmScheduler(SlurmRules(Cluster({"a": 1}, (partition,), settings), jobs))
    answered(scheduler, 0, NodeUp("a", "", 1))
    return scheduler


@pytest.mark.parametrize("made", [lambda: kube(kube_job("x"), kube_job("y")), lambda: slurm("x", "y")])
def test_a_job_that_ends_before_its_container_is_told_gives_it_back(
    made: Callable[[], Ours],
) -> None:
    scheduler = made()
    assert [each.job for each in answered(scheduler, 0, *comes("x")) if isinstance(each, Give)] == ["x"]
    assert answered(scheduler, 1, JobEnded("x"), ContainerStarted("c1", "x", "task", "a", None), *comes("y")) == []
    given = [*answered(scheduler, 2, ContainerEnded("c1", "x", "a")), *answered(scheduler, 3)]
    assert [each.job for each in given if isinstance(each, Give)] == ["y"]


@pytest.mark.parametrize("apart_s", [0, 1])
def test_a_pod_whose_job_ends_while_its_process_is_stopped_gives_its_room_back(apart_s: int) -> None:
    scheduler = kube(kube_job("low"), kube_job("high", 5, 9), mechanism="suspend")
    answered(scheduler, 0, *comes("low"))
    assert answered(scheduler, 1, ContainerStarted("c1", "low", "task", "a", None)) == []
    (taken,) = answered(scheduler, 5, *comes("high"))
    assert isinstance(taken, Reclaim)
    ended, stopped = JobEnded("low"), ContainerStopped("c1", "low", "a", {"memory_gb": 1})
    if apart_s:
        scheduler.notify((stopped,), 6 * S)
        given = answered(scheduler, 6, ended)
    else:
        given = answered(scheduler, 6, ended, stopped)
    assert [each.job for each in given if isinstance(each, Give)] == ["high"]

"""What kube-scheduler's, Kueue's and Slurm's rules make of jobs that they do not know, and of news that cross."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from emulator.errors import ConfigError, NatjamError
from emulator.experiment.load import load_experiment
from emulator.experiment.model import dump_experiment
from emulator.files.yaml_values import dump_yaml
from emulator.policies.kubernetes.scheduler import KubeRules, KubeScheduler
from emulator.policies.schedulers.protocol import (
    ContainerEnded,
    ContainerStarted,
    ContainerStopped,
    Event,
    GrantContainer,
    GroupFacts,
    JobEnded,
    JobRequests,
    JobSubmitted,
    NodeAdded,
    ReclaimContainer,
    SchedulerDecision,
    SchedulerStarted,
)
from emulator.policies.slurm.scheduler import SlurmRules, SlurmScheduler
from emulator.resolved import resolve
from emulator.sim.session import simulated_history
from emulator.sites.kubernetes import Node, PodDetails
from emulator.sites.kueue import PodTemplate, WorkloadDetails
from emulator.sites.slurm import Cluster, Partition, Settings, SlurmDetails
from emulator.sites.slurm import Node as SlurmNode
from emulator.vocabulary import Details

Ours = KubeScheduler | SlurmScheduler
S = 10**9
NODE = NodeAdded("a", "", 1, {"cpu": 1000, "memory_gb": 1})
KUBE: dict[str, Any] = {"name": "kube-scheduler", "nodes": [{"name": "a", "allocatable": {"cpu": 2000}}]}
KUEUE: dict[str, Any] = {"name": "kueue", "cluster": {"queues": [{"name": "q"}]}}
SLURM: dict[str, Any] = {
    "name": "slurm",
    "cluster": {"nodes": {"a": {"cpus": 2}}, "partitions": [{"name": "q", "nodes": ["a"]}]},
}
ELSEWHERE = {**SLURM, "cluster": {"nodes": {"a": {"cpus": 2}}, "partitions": [{"name": "r", "nodes": ["a"]}]}}
LISTED: dict[str, dict[str, Any]] = {
    "kubernetes": {**KUBE, "pods": [{"pod": {"name": "x", "priority": 7, "labels": {"a": "b"}}, "submit_ns": 0}]},
    "kueue": {
        **KUEUE,
        "workloads": [
            {
                "workload": {
                    "name": "x",
                    "queue": "q",
                    "podsets": [{"name": "p", "count": 1, "requests": {"cpu": 500}}],
                    "priority": 7,
                    "created_ns": 9,
                },
            }
        ],
    },
    "slurm": {
        **SLURM,
        "jobs": [{"name": "x", "partition": "q", "nodes": 1, "cpus": 1, "length_ns": S, "limit_ns": S, "priority": 7}],
    },
}
"""Rules with a list of all jobs, as runs once wrote them."""


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
    ("allocation", "details", "count", "problem"),
    [
        (KUBE, None, 1, "job x has no details of a pod; give it them in workload.jobs"),
        (KUBE, {"kind": "slurm"}, 1, "job x has no details of a pod"),
        (KUBE, {"kind": "kubernetes"}, 2, "job x has 2 tasks, and a pod is one"),
        (KUEUE, None, 1, "job x has no details of a workload"),
        ({**KUEUE, "cluster": {"queues": [{"name": "r"}]}}, {"kind": "kueue"}, 1, "Kueue has no ClusterQueue 'q'"),
        (SLURM, None, 1, "job x has no details of a Slurm job"),
        (ELSEWHERE, {"kind": "slurm"}, 1, "job x: Slurm has no partition, or QOS, 'q'"),
    ],
)
def test_jobs_that_a_scheduler_cannot_take_are_refused_in_words(
    allocation: dict[str, Any], details: dict[str, Any] | None, count: int, problem: str, tmp_path: Path
) -> None:
    write_by_hand(tmp_path, allocation, {"name": "x", "details": details}, count)
    with pytest.raises(NatjamError, match=problem):
        simulated_history(resolve(load_experiment(tmp_path / "by-hand.yaml")))


@pytest.mark.parametrize(
    ("system", "details"),
    [
        ("kubernetes", PodDetails(labels={"a": "b"}, endless=True)),
        ("kueue", WorkloadDetails((PodTemplate("p", {"cpu": 500}),), 9, endless=True)),
        ("slurm", SlurmDetails(limit_ns=S)),
    ],
)
def test_an_experiment_whose_rules_list_the_jobs_is_read_as_one_with_details(
    system: str, details: Details, tmp_path: Path
) -> None:
    write_by_hand(tmp_path, LISTED[system], {"name": "x"}, 1)
    experiment = load_experiment(tmp_path / "by-hand.yaml")
    (job,) = resolve(experiment).jobs
    assert (job.facts.priority, job.facts.details) == (7, details)
    (tmp_path / "again.yaml").write_text(dump_experiment(experiment))
    assert dump_experiment(load_experiment(tmp_path / "again.yaml")) == dump_experiment(experiment)
    write_by_hand(tmp_path, {**LISTED[system], next(reversed(LISTED[system])): [{"x": 1}]}, {"name": "x"}, 1)
    with pytest.raises(ConfigError, match=r"by-hand\.yaml:\d+: scheduler\.allocation\.(pods|workloads|jobs): Object"):
        load_experiment(tmp_path / "by-hand.yaml")


@pytest.mark.parametrize(
    "details", [{"kind": "mesos"}, {"kind": "slurm", "qo": "x"}, {"kind": "kueue", "podsets": 3}, 7]
)
def test_details_that_are_not_of_their_kind_are_refused(details: object, tmp_path: Path) -> None:
    write_by_hand(tmp_path, SLURM, {"name": "x", "details": details}, 1)
    with pytest.raises(ConfigError, match=r"by-hand\.yaml:\d+: workload\.jobs\.0\.details"):
        load_experiment(tmp_path / "by-hand.yaml")


def test_a_minimum_runtime_of_a_job_that_the_rules_would_not_heed_is_refused(tmp_path: Path) -> None:
    write_by_hand(tmp_path, KUBE, {"name": "x", "details": {"kind": "kubernetes"}, "minimum_runtime_s": 5}, 1)
    with pytest.raises(ConfigError, match=r"workload\.jobs\.0\.minimum_runtime_s: kube-scheduler spares nobody"):
        load_experiment(tmp_path / "by-hand.yaml")


def answered(scheduler: Ours, now_s: int, *events: Event) -> list[SchedulerDecision]:
    """What it answers, and decides if it wants to at once."""
    notified = scheduler.notify(events, now_s * S)
    decides = notified.valid_until_ns is not None and notified.valid_until_ns <= now_s * S
    return [*notified.decisions, *(scheduler.decide(now_s * S).decisions if decides else ())]


def comes(job: str, details: Details, priority: int = 0) -> tuple[Event, Event]:
    """A job of one task, which waits for its container."""
    groups = (GroupFacts("task", 1, True, {"cpu": 1000}),)
    submitted = JobSubmitted(job, "q", priority, groups, None, 0, details=details)
    return submitted, JobRequests(job, 0, {"task": 1}, (), (), 0)


POD = PodDetails(requests={"cpu": 1000})


def kube(mechanism: str = "kill") -> Ours:
    scheduler = KubeScheduler(KubeRules((Node("a", {"cpu": 1000, "memory": 1}),)))
    answered(
        scheduler,
        0,
        SchedulerStarted(1, 1, (), suspended_hold=("memory_gb",), mechanism=mechanism),
        NODE,
    )
    return scheduler


def slurm() -> Ours:
    partition, settings = Partition("q", ("a",)), Settings(batch_sched_delay_ns=0, sched_min_interval_ns=0)
    scheduler = SlurmScheduler(SlurmRules(Cluster({"a": SlurmNode(1)}, (partition,), settings)))
    answered(scheduler, 0, NODE)
    return scheduler


@pytest.mark.parametrize(("made", "details"), [(kube, POD), (slurm, SlurmDetails())])
def test_a_job_that_ends_before_its_container_is_told_gives_it_back(made: Callable[[], Ours], details: Details) -> None:
    scheduler = made()
    assert [each.job for each in answered(scheduler, 0, *comes("x", details)) if isinstance(each, GrantContainer)] == [
        "x"
    ]
    ended, started = JobEnded("x"), ContainerStarted("c1", "x", "task", "a", None)
    assert answered(scheduler, 1, ended, started, *comes("y", details)) == []
    given = [*answered(scheduler, 2, ContainerEnded("c1", "x", "a")), *answered(scheduler, 3)]
    assert [each.job for each in given if isinstance(each, GrantContainer)] == ["y"]


@pytest.mark.parametrize("apart_s", [0, 1])
def test_a_pod_whose_job_ends_while_its_process_is_stopped_gives_its_room_back(apart_s: int) -> None:
    scheduler = kube("suspend")
    answered(scheduler, 0, *comes("low", POD))
    assert answered(scheduler, 1, ContainerStarted("c1", "low", "task", "a", None)) == []
    (taken,) = answered(scheduler, 5, *comes("high", POD, 9))
    assert isinstance(taken, ReclaimContainer)
    ended, stopped = JobEnded("low"), ContainerStopped("c1", "low", "a", {"memory_gb": 1})
    if apart_s:
        scheduler.notify((stopped,), 6 * S)
        given = answered(scheduler, 6, ended)
    else:
        given = answered(scheduler, 6, ended, stopped)
    assert [each.job for each in given if isinstance(each, GrantContainer)] == ["high"]

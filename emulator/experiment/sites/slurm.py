"""A Slurm site as an experiment: its nodes, each job with one task on each of the nodes it asks for, Slurm's rules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from emulator.errors import ConfigError
from emulator.experiment.sites.site import Site, job, tasks
from emulator.files.yaml_positions import Document
from emulator.policies.slurm.scheduler import resources_of, resources_of_node, startable
from emulator.sites.slurm import CPU, Cluster, Job, Mode, Slurm
from workloads.saved import taken_over


def slurm_site(document: Document) -> Site:
    """The site of a file that ``natjam import slurm`` wrote.  Raises ConfigError."""
    slurm = taken_over(document, Slurm)
    cluster = slurm.cluster
    jobs = [*filter(startable(cluster), slurm.jobs)]
    if not jobs:
        raise ConfigError(
            f"{document.path}: slurm.jobs: no job fits on the nodes of its partition; import jobs with --sacct"
        )
    mechanisms, modes = _mechanisms(cluster), {each.name: each.mode for each in cluster.qos} if cluster.by_qos else {}
    names = sorted({name for node in cluster.nodes.values() for name in resources_of(node)})
    kept = tuple(name for name in names if name != CPU)
    return Site(
        tuple(
            {"name": name, "count": 1, "resources": resources_of_node(cluster, node)}
            for name, node in cluster.nodes.items()
        ),
        tuple(_job(each, modes.get(each.qos), names) for each in jobs),
        {"name": "slurm", "queues": _queues(cluster), "cluster": cluster},
        usual={
            "overheads": "slurm-22",
            "scheduler": {"mechanism": mechanisms[0], "allocation": {"controller_started_s": 0.0}},
        },
        cluster={"suspended_hold": kept} if kept else {},
        mechanisms=mechanisms,
    )


def _mechanisms(cluster: Cluster) -> tuple[str, ...]:
    """What may happen to victims, but for those that are suspended beside others: first what the partitions say, then
    what may take its place."""
    terms = (cluster.qos if cluster.by_qos else cluster.partitions) if cluster.settings.preempts else ()
    modes = {each.mode for each in terms} - {Mode.OFF}
    return ("suspend",) if modes == {Mode.SUSPEND} else ("kill", "checkpoint", "image")


def _queues(cluster: Cluster) -> dict[str, Any]:
    """The partitions, those of the highest tier first."""
    ordered = sorted(cluster.partitions, key=lambda each: -each.tier)
    modes = {
        each.name: Mode.SUSPEND if cluster.takes_turns(each) else None if cluster.by_qos else each.mode
        for each in ordered
    }
    return {name: {"capacity": 0.0, **_own_mechanism(mode)} for name, mode in modes.items()}


def _own_mechanism(mode: Mode | None) -> dict[str, str]:
    return {"mechanism": "suspend"} if mode is Mode.SUSPEND else {}


def _job(of: Job, mode: Mode | None, names: Iterable[str]) -> dict[str, Any]:
    takes = dict.fromkeys(names, 0.0) | resources_of(of)  # else a task that names no memory asks for the usual one
    groups = (tasks("task", of.nodes, of.length_ns, takes),)
    return job(of, of.partition, of.submit_ns, of.details, groups, gang=of.nodes > 1, **_own_mechanism(mode))

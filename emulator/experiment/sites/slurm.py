"""A Slurm site as an experiment: its nodes, each job with one task on each of the nodes it asks for, Slurm's rules."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from emulator.errors import ConfigError
from emulator.experiment.sites.site import LONGEST_S, Site, short
from emulator.files.yaml_positions import Document
from emulator.policies.slurm.scheduler import CPU
from emulator.sites.slurm import SECOND_NS, Cluster, Job, Mode, Slurm
from workloads.saved import taken_over


def slurm_site(document: Document) -> Site:
    """The site of a file that ``natjam import slurm`` wrote.  Raises ConfigError."""
    slurm = taken_over(document, Slurm)
    cluster = _named(slurm.cluster)
    jobs = tuple(
        replace(job, name=short(job.name), partition=short(job.partition))
        for job in slurm.jobs
        if slurm.cluster.can_hold(job.partition, job.nodes, job.cpus)
    )
    if not jobs:
        raise ConfigError(
            f"{document.path}: slurm.jobs: no job fits on the nodes of its partition; import jobs with --sacct"
        )
    mechanisms, modes = _mechanisms(cluster), {each.name: each.mode for each in cluster.qos}
    return Site(
        tuple({"name": name, "count": 1, "resources": {CPU: float(cpus)}} for name, cpus in cluster.nodes.items()),
        tuple(_job(job, modes.get(job.qos)) for job in jobs),
        {"name": "slurm", "queues": _queues(cluster), "cluster": cluster},
        words={"controller_started_s": 0.0},
        usual={"overheads": "slurm-22", "scheduler": {"mechanism": mechanisms[0]}},
        mechanisms=mechanisms,
    )


def _named(cluster: Cluster) -> Cluster:
    """With names as an experiment has them."""
    partitions = (
        replace(each, name=short(each.name), nodes=tuple(map(short, each.nodes))) for each in cluster.partitions
    )
    return replace(
        cluster,
        nodes={short(name): cpus for name, cpus in cluster.nodes.items()},
        partitions=tuple(partitions),
    )


def _mechanisms(cluster: Cluster) -> tuple[str, ...]:
    """What may happen to victims, but for those that are suspended beside others: first what the partitions say, then
    what may take its place."""
    terms = (cluster.qos or cluster.partitions) if cluster.settings.preempts else ()
    modes = {each.mode for each in terms} - {Mode.OFF}
    return ("suspend",) if modes == {Mode.SUSPEND} else ("kill", "checkpoint", "image")


def _queues(cluster: Cluster) -> dict[str, Any]:
    """The partitions, those of the highest tier first."""
    ordered = sorted(cluster.partitions, key=lambda each: -each.tier)
    return {each.name: {"capacity": 0.0, **_own_mechanism(None if cluster.qos else each.mode)} for each in ordered}


def _own_mechanism(mode: Mode | None) -> dict[str, str]:
    return {"mechanism": "suspend"} if mode is Mode.SUSPEND else {}


def _job(job: Job, mode: Mode | None) -> dict[str, Any]:
    task = {
        "name": "task",
        "count": job.nodes,
        "length_s": min(job.length_ns / SECOND_NS, LONGEST_S),
        "resources": {CPU: float(job.cpus)},
    }
    return {
        "name": job.name,
        "queue": job.partition,
        "submit_s": job.submit_ns / SECOND_NS,
        "priority": job.priority,
        "details": job.details,
        "groups": (task,),
        **_own_mechanism(mode),
        **({"gang": True} if job.nodes > 1 else {}),
    }

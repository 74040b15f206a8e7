"""Checks of the cluster that need several of its keys, or the allocation and the jobs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from emulator.errors import ConfigError
from emulator.experiment.availability import read_steps
from emulator.experiment.checks.scheduler import FLUID, giving_shares
from emulator.experiment.model import Cluster, Scheduler, Workload, located_jobs
from emulator.experiment.requests import check_sizes
from emulator.files.problems import Problem, suggestion
from emulator.files.yaml_values import Location
from emulator.policies.policy import PacedAllocation, ShareAllocation
from emulator.vocabulary import counted


def cluster_checks(
    cluster: Cluster, scheduler: Scheduler | None, workload: Workload | None, engine: str
) -> list[Iterator[Problem]]:
    """Problems of the cluster, check by check; None is a part that was not valid by itself."""
    found = [_memory(cluster), _racks(cluster), _named_nodes(cluster), _availability(cluster, scheduler, engine)]
    return [*found, _slots(cluster, scheduler, workload), check_sizes(cluster, scheduler, workload, engine)]


def _memory(cluster: Cluster) -> Iterator[Problem]:
    needed = cluster.containers_per_node * cluster.container_memory_gb
    if cluster.node_groups is None and needed > cluster.memory_gb:
        yield (
            ("cluster", "memory_gb"),
            f"{counted(cluster.containers_per_node, 'container')} of {cluster.container_memory_gb:g} GB"
            f" {'needs' if cluster.containers_per_node == 1 else 'need'} {needed:g}"
            f" and a node has {cluster.memory_gb:g}; raise memory_gb or lower containers_per_node",
        )


def _racks(cluster: Cluster) -> Iterator[Problem]:
    if cluster.racks > 1 and cluster.slots is not None:
        yield ("cluster", "racks"), "racks and slots cannot be combined; set racks to 1 or slots to null"


def _availability(cluster: Cluster, scheduler: Scheduler | None, engine: str) -> Iterator[Problem]:
    availability, where = cluster.availability, ("cluster", "availability")
    if availability is None:
        return
    if engine != FLUID and cluster.slots is not None:
        yield where, "is of containers for anything; remove cluster.slots, or set it to null"
    known = None if scheduler is None else scheduler.allocation.known
    if scheduler is not None and isinstance(known, PacedAllocation) and scheduler.choice("mechanism").name != "wait":
        message = f"{known.name} takes nothing back for a transactional workload; set mechanism to wait"
        yield ("scheduler", "mechanism"), message
    kind = "steps" if availability.steps is not None else "spline"
    for index, (_, count) in enumerate(availability.steps or availability.spline or ()):
        if count > cluster.containers:
            yield (
                (*where, kind, index),
                f"{count} is more than the {counted(cluster.containers, 'container')} of the cluster; lower it",
            )
    for path, location in ((availability.file, "file"), (availability.forecast.file, "forecast")):
        try:
            if path is not None:
                read_steps(Path(path), cluster.containers, availability.period_s)
        except ConfigError as error:
            yield (*where, location), error.message


def _named_nodes(cluster: Cluster) -> Iterator[Problem]:
    known = dict.fromkeys(cluster.node_names)
    for key, named in (("slow_nodes", cluster.slow_nodes), ("small_nodes", cluster.small_nodes)):
        for name in named:
            if name not in known:
                last = f"node-1 to node-{cluster.nodes}" if cluster.nodes > 1 else "node-1"
                yield ("cluster", key, name), f"there is no node '{name}'{suggestion(name, known)} (nodes: {last})"
            elif key == "small_nodes" and not cluster.containers_of(name):
                yield ("cluster", key, name), f"leaves no container on {name}; raise it"


def _slots(cluster: Cluster, scheduler: Scheduler | None, workload: Workload | None) -> Iterator[Problem]:
    slots = cluster.slots
    if slots is None:
        return
    where: Location = ("cluster", "slots")
    if slots.map + slots.reduce != cluster.containers_per_node:
        yield (
            ("cluster", "containers_per_node"),
            f"{cluster.containers_per_node} is not the sum of slots, {slots.map} and {slots.reduce}; remove it",
        )
    if cluster.application_masters != "outside":
        yield (
            ("cluster", "application_masters"),
            "with slots for maps and reduces there is none for an ApplicationMaster; set it to outside",
        )
    for of_job, job in located_jobs(workload):
        for kind, count in (("map", slots.map), ("reduce", slots.reduce)):
            if getattr(job, f"{kind}s") and not count:
                yield (*of_job, f"{kind}s"), f"there are no slots for {kind}s (cluster.slots.{kind})"
        if job.groups is not None and not slots.reduce:
            yield (*of_job, "groups"), "there are no slots for its tasks (cluster.slots.reduce)"
    allocation = None if scheduler is None else scheduler.allocation.known
    if scheduler is None or allocation is None:
        return
    if not isinstance(allocation, ShareAllocation):
        message = f"{allocation.name} does not distinguish maps from reduces; set it to null, or choose"
        yield where, f"{message} {giving_shares()}"
    elif scheduler.victims != "reduces" and scheduler.choice("mechanism").name != "wait":
        yield ("scheduler", "victims"), "with cluster.slots only reduces can be preempted; remove it"

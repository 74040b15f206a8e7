"""The composition root: from an experiment to the machines of a run, the same for every engine."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from emulator.core.application_master.application_master import ApplicationMaster
from emulator.core.client import Client
from emulator.core.job import JobSpec
from emulator.core.machine import PeriodicMachine
from emulator.core.mechanisms import held_when_stopped
from emulator.core.messages import CLIENT, RESOURCE_MANAGER
from emulator.core.node_manager.node_manager import NodeManager
from emulator.core.resource_manager.resource_manager import ResourceManager
from emulator.core.settings import (
    MEMORY,
    VICTIMS,
    AvailabilitySettings,
    News,
    NodeSettings,
    ProtocolSettings,
    QueueSettings,
    SchedulerSettings,
    Settings,
    SpareAfter,
    SpeculationSettings,
)
from emulator.costs.overheads import load_overheads
from emulator.costs.tiers import load_tier
from emulator.experiment.availability import capacity_of, forecast_of
from emulator.experiment.expand import own_mechanisms
from emulator.experiment.model import Cluster, Experiment, Speculation
from emulator.experiment.policies import find_policy
from emulator.experiment.triggers import make_triggers, marks_of
from emulator.files.times import seconds_to_ns
from emulator.policies import axes as policies
from emulator.policies.policy import Axis, PolicyT
from emulator.policies.resources import WHOLE_PPM, vector_of
from emulator.vocabulary import Mechanism, Tier

GIB_BYTES = 1 << 30


def make_settings(experiment: Experiment, seed: int) -> Settings:
    """The settings that all machines of one run share; ``seed`` is the seed of this repeat.

    Raises:
        ConfigError: a policy or an overhead profile cannot be loaded.
    """
    overheads = load_overheads(experiment.overheads, Path.cwd())
    scheduler = _scheduler(experiment)
    return Settings(
        seed=seed,
        protocol=_protocol(experiment),
        overheads=overheads,
        scheduler=scheduler,
        nodes=nodes_of(experiment.cluster, scheduler.mechanism.among),
        tier=_storage_tier(experiment),
        availability=_availability(experiment.cluster, seed),
        marks=marks_of(experiment),
        master_request=experiment.cluster.request(experiment.cluster.master_resources),
    )


def _storage_tier(experiment: Experiment) -> Tier | None:
    """The storage device of each node; None: the run makes no process images.  Raises ConfigError."""
    if experiment.storage.tier is None:
        return None
    tier = load_tier(experiment.storage.tier)
    network_bytes_s = tier.network_bytes_s or int(experiment.cluster.network_mbit_s * 125_000)
    return replace(tier, network_bytes_s=network_bytes_s, incremental=experiment.storage.incremental)


def _availability(cluster: Cluster, seed: int) -> AvailabilitySettings | None:
    """What a transactional workload leaves; None: everything, always.  Raises ConfigError."""
    availability = cluster.availability
    if availability is None:
        return None
    return AvailabilitySettings(
        capacity_of(availability, cluster.containers),
        forecast_of(availability, cluster.containers, seed),
        seconds_to_ns(availability.grace_s),
    )


def make_machine(address: str, settings: Settings, jobs: Mapping[str, JobSpec]) -> PeriodicMachine:
    """A new machine for ``address``; ``jobs`` by name."""
    if address == RESOURCE_MANAGER:
        return ResourceManager(settings)
    if address == CLIENT:
        return Client(tuple(jobs.values()))
    role, _, name = address.partition(":")
    if role == "am":
        return ApplicationMaster(jobs[name], settings)
    return NodeManager(settings.nodes_by_name[name], settings)


def nodes_of(cluster: Cluster, among: Collection[Mechanism] = ()) -> tuple[NodeSettings, ...]:
    """The workers of a cluster, in its order.

    ``among``: what may happen to a victim there.  Where it is not known, a stopped process holds what an order to
    suspend leaves it.
    """
    names = cluster.node_names
    holds = held_when_stopped(among) if cluster.suspended_hold is None else cluster.suspended_hold
    stopped_hold = tuple(name in holds for name in cluster.resource_names)
    return tuple(
        NodeSettings(
            name=name,
            rack=f"rack-{index * cluster.racks // len(names) + 1}",
            containers=cluster.containers_of(name),
            container_memory_bytes=int(cluster.container_memory_gb * GIB_BYTES),
            memory_bytes=int(_memory_gb(cluster, name) * GIB_BYTES),
            swap_bytes=int(cluster.swap_gb * GIB_BYTES),
            max_suspended=cluster.max_suspended_per_node,
            slowness_ppm=round(cluster.slow_nodes.get(name, 1) * 1_000_000),
            slots=cluster.slots_of(name),
            masters_outside=cluster.application_masters == "outside",
            stopped_hold=stopped_hold,
            **_sized(cluster, name),
        )
        for index, name in enumerate(names)
    )


def _sized(cluster: Cluster, node: str) -> dict[str, Any]:
    """Settings of a node whose containers have the sizes that their tasks ask for."""
    group = cluster.group_of(node)
    if group is None:
        return {}
    resources = vector_of(group.resources, cluster.resource_names)
    return {
        "resources": resources,
        "resource_names": cluster.resource_names,
        "labels": tuple(sorted(group.labels.items())),
    }


def _memory_gb(cluster: Cluster, node: str) -> float:
    group = cluster.group_of(node)
    return cluster.memory_gb if group is None else group.resources.get(MEMORY, cluster.memory_gb)


def _protocol(experiment: Experiment) -> ProtocolSettings:
    protocol = experiment.protocol
    return ProtocolSettings(
        heartbeat_ns=experiment.heartbeat_ns,
        preemptor_period_ns=experiment.preemptor_period_ns,
        estimate_period_ns=experiment.estimate_period_ns,
        task_heartbeat_ns=experiment.task_heartbeat_ns,
        kill_timeout_ns=seconds_to_ns(protocol.kill_timeout_s),
        expired_ns=seconds_to_ns(protocol.expired_s),
        slow_start_ppm=int(Decimal(str(protocol.slow_start)) * 1_000_000),
        task_attempts_max=protocol.task_attempts_max,
        am_attempts=protocol.am_attempts,
        node_blacklist_failures=protocol.node_blacklist_failures,
        node_expiry_ns=seconds_to_ns(protocol.node_expiry_s),
        speculation=_speculation(protocol.speculation),
        news=News(protocol.news),
    )


def _speculation(speculation: Speculation | None) -> SpeculationSettings | None:
    if speculation is None:
        return None
    return SpeculationSettings(
        margin_ppm=round(speculation.margin * 1_000_000),
        after_ns=seconds_to_ns(speculation.after_s),
        at_most_ppm=round(speculation.at_most * 1_000_000),
    )


def _scheduler(experiment: Experiment) -> SchedulerSettings:
    def chosen(axis: Axis[PolicyT]) -> PolicyT:
        return find_policy(axis, experiment.scheduler.choice(axis.name), Path.cwd())

    allocation, job_eviction = chosen(policies.ALLOCATION), chosen(policies.JOB_EVICTION)
    is_dictated = experiment.scheduler.choice("job_selection").name == policies.AUTO
    mechanism, spare = chosen(policies.MECHANISM), experiment.scheduler.spare_after
    return SchedulerSettings(
        allocation=allocation,
        job_selection=policies.selection_for(job_eviction, allocation)
        if is_dictated
        else chosen(policies.JOB_SELECTION),
        job_eviction=job_eviction,
        task_eviction=chosen(policies.TASK_EVICTION),
        mechanism=replace(mechanism, among=mechanism.among.union(own_mechanisms(experiment))),
        placement=chosen(policies.PLACEMENT),
        resume_order=chosen(policies.RESUME_ORDER),
        fit=chosen(policies.FIT),
        queues=_queues(experiment),
        victims=VICTIMS[experiment.scheduler.victims],
        epoch_ns=seconds_to_ns(experiment.scheduler.epoch_s),
        triggers=make_triggers(experiment.scheduler),
        spare_after=None if spare is None else SpareAfter(spare.suspensions, seconds_to_ns(spare.within_s)),
    )


def _queues(experiment: Experiment) -> tuple[QueueSettings, ...]:
    """The queues in the order of the file, the most urgent first.  Shares are rounded down to whole containers; where
    these have several sizes, queues are counted in millionths of the cluster."""
    total = experiment.cluster.containers if experiment.cluster.node_groups is None else WHOLE_PPM
    return tuple(
        QueueSettings(name, rank, int(Decimal(str(queue.capacity)) * total), int(Decimal(str(queue.maximum)) * total))
        for rank, (name, queue) in enumerate(experiment.scheduler.allocation.queues.items())
    )

"""One run of an experiment, resolved: its jobs, and the settings that all machines of the run share.

This is the last step from the file to a run: everything after it works on a ``Resolved``.  What engines and tables need
of the file as it stands, such as where the output goes, they read from its ``experiment``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from emulator.core.application_master.application_master import ApplicationMaster
from emulator.core.application_master.task import task_named
from emulator.core.client import Client
from emulator.core.job import JobSpec
from emulator.core.machine import StateMachine
from emulator.core.messages import CLIENT, RESOURCE_MANAGER, TaskOrder
from emulator.core.node_manager.node_manager import NodeManager
from emulator.core.resource_manager.resource_manager import ResourceManager
from emulator.core.settings import (
    MEMORY,
    VICTIMS,
    AvailabilitySettings,
    NodeSettings,
    ProtocolSettings,
    QueueSettings,
    SchedulerSettings,
    Settings,
    SpareAfter,
    SpeculationSettings,
    Trigger,
    UpdateMode,
)
from emulator.costs.overheads import load_overheads, load_tier
from emulator.experiment.availability import capacity_of, forecast_of
from emulator.experiment.expand import BYTES_PER_GB, expand
from emulator.experiment.model import Cluster, Experiment, Scheduler
from emulator.experiment.policies import find_policy
from emulator.files.times import in_machine_units, seconds_to_ns
from emulator.policies import axes as policies
from emulator.policies.mechanism import held_when_stopped
from emulator.policies.policy import Axis, Policy, PolicyT
from emulator.policies.resources import WHOLE_PPM, vector_of
from emulator.vocabulary import Frozen, Mechanism, Order, Tier


class Resolved(Frozen):
    """One run: of the experiment's repeats, the one with this seed."""

    experiment: Experiment
    """The experiment as ``experiment.yaml`` of the run says it, with the seed of this repeat."""
    jobs: tuple[JobSpec, ...]
    settings: Settings
    """What all machines share: policies, nodes, storage tier, and what a transactional workload leaves."""
    containers: int
    """Number of containers of all nodes together."""
    network_bytes_s: float
    """Speed at which one reduce fetches map outputs from other nodes."""
    task_timeout_ns: int
    """How long a task, or a whole run, may give no sign of life."""
    counted_s: tuple[float, float] | None
    """The part of the time whose jobs count for deadlines; None: all."""

    @property
    def jobs_by_name(self) -> dict[str, JobSpec]:
        """The jobs, by name."""
        return {job.name: job for job in self.jobs}

    @property
    def own_evictions(self) -> dict[str, Policy[Any]]:
        """The evictions that are the user's own, by their names in the file."""
        scheduler = self.settings.scheduler
        both = ((policies.JOB_EVICTION, scheduler.job_eviction), (policies.TASK_EVICTION, scheduler.task_eviction))
        return {policy.name: policy for axis, policy in both if policy.name not in axis.by_name}

    @property
    def detects_endless_preemption(self) -> bool:
        """Whether the allocation itself ends a run in which evictions go round in a circle."""
        return self.settings.scheduler.allocation.ends_circles


def resolve(experiment: Experiment, jobs: tuple[JobSpec, ...] | None = None) -> Resolved:
    """The run of ``experiment`` with its own seed; ``jobs``, if they are known, are not made again.

    Raises:
        ConfigError: a policy, an overhead profile, a tier, an availability or the workload cannot be loaded.
    """
    cluster, poisson = experiment.cluster, experiment.workload.poisson
    overheads, scheduler = load_overheads(experiment.overheads, Path.cwd()), _scheduler(experiment)
    settings = Settings(
        seed=experiment.seed,
        protocol=_protocol(experiment),
        overheads=overheads,
        scheduler=scheduler,
        nodes=nodes_of(cluster, scheduler.mechanism.among),
        tier=_storage_tier(experiment),
        availability=_availability(cluster, experiment.seed),
        marks=_marks(experiment),
        master_request=cluster.request(cluster.master_resources),
    )
    return Resolved(
        experiment=experiment,
        jobs=expand(experiment, experiment.seed) if jobs is None else jobs,
        settings=settings,
        containers=cluster.containers,
        network_bytes_s=cluster.network_mbit_s * 125_000,
        task_timeout_ns=seconds_to_ns(experiment.protocol.task_timeout_s),
        counted_s=None if poisson is None else poisson.counted_s,
    )


_PERIODS = ("preemptor_period_s", "estimate_period_s", "task_heartbeat_s")


def _protocol(experiment: Experiment) -> ProtocolSettings:
    protocol = experiment.protocol
    usual = {name: experiment.heartbeat_s for name in _PERIODS if getattr(protocol, name) is None}
    speculation = protocol.speculation
    return in_machine_units(
        ProtocolSettings,
        protocol.model_copy(update=usual),
        heartbeat_ns=seconds_to_ns(experiment.heartbeat_s),
        speculation=None if speculation is None else in_machine_units(SpeculationSettings, speculation),
        news=UpdateMode(protocol.news),
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
        mechanism=replace(mechanism, among=mechanism.among.union(_own_mechanisms(experiment))),
        placement=chosen(policies.PLACEMENT),
        resume_order=chosen(policies.RESUME_ORDER),
        fit=chosen(policies.FIT),
        queues=_queues(experiment),
        victims=VICTIMS[experiment.scheduler.victims],
        epoch_ns=seconds_to_ns(experiment.scheduler.epoch_s),
        triggers=_triggers(experiment.scheduler),
        spare_after=None if spare is None else in_machine_units(SpareAfter, spare),
    )


def _own_mechanisms(experiment: Experiment) -> set[Mechanism]:
    """What may happen to tasks of queues and jobs that name a mechanism of their own."""
    terms = (*experiment.scheduler.allocation.queues.values(), *(experiment.workload.jobs or ()))
    return {Mechanism(each.mechanism) for each in terms if each.mechanism is not None}


def _triggers(scheduler: Scheduler) -> tuple[Trigger, ...]:
    """The triggers in the form that the state machines use."""
    named = ((entry, *task_named(entry.task)) for entry in scheduler.triggers)
    return tuple(
        Trigger(entry.when.job, entry.when.progress_ppm, job, TaskOrder(task, Order(entry.do)))
        for entry, job, task in named
    )


def _marks(experiment: Experiment) -> dict[str, tuple[int, ...]]:
    """The progress of each job that triggers and other jobs wait for, in millionths of its work, ascending."""
    waited_for = [trigger.when for trigger in experiment.scheduler.triggers]
    waited_for += [job.submit_when for job in experiment.workload.jobs or () if job.submit_when is not None]
    marks: dict[str, set[int]] = {}
    for when in waited_for:
        marks.setdefault(when.job, set()).add(when.progress_ppm)
    return {job: tuple(sorted(of_job)) for job, of_job in marks.items()}


def _queues(experiment: Experiment) -> tuple[QueueSettings, ...]:
    """The queues in the order of the file, the most urgent first.  Shares are rounded down to whole containers; where
    these have several sizes, queues are counted in millionths of the cluster."""
    total = experiment.cluster.containers if experiment.cluster.node_groups is None else WHOLE_PPM
    return tuple(
        QueueSettings(name, rank, int(Decimal(str(queue.capacity)) * total), int(Decimal(str(queue.maximum)) * total))
        for rank, (name, queue) in enumerate(experiment.scheduler.allocation.queues.items())
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
            container_memory_bytes=int(cluster.container_memory_gb * BYTES_PER_GB),
            memory_bytes=int(_memory_gb(cluster, name) * BYTES_PER_GB),
            swap_bytes=int(cluster.swap_gb * BYTES_PER_GB),
            max_suspended=cluster.max_suspended_per_node,
            slowness_ppm=round(cluster.slow_nodes.get(name, 1) * 1_000_000),
            slots=cluster.slots_of(name),
            unmanaged_masters=cluster.application_masters == "outside",
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
    return {
        "resources": vector_of(group.resources, cluster.resource_names),
        "resource_names": cluster.resource_names,
        "labels": tuple(sorted(group.labels.items())),
    }


def _memory_gb(cluster: Cluster, node: str) -> float:
    group = cluster.group_of(node)
    return cluster.memory_gb if group is None else group.resources.get(MEMORY, cluster.memory_gb)


def make_machine(address: str, settings: Settings, jobs: Mapping[str, JobSpec]) -> StateMachine:
    """A new machine for ``address``; ``jobs`` by name."""
    if address == RESOURCE_MANAGER:
        return ResourceManager(settings)
    if address == CLIENT:
        return Client(tuple(jobs.values()))
    role, _, name = address.partition(":")
    if role == "am":
        return ApplicationMaster(jobs[name], settings)
    return NodeManager(settings.nodes_by_name[name], settings)

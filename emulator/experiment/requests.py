"""What the tasks of a job ask for, and whether it fits; checks of ``cluster.node_groups``."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from emulator.errors import ConfigError
from emulator.experiment.groups import BYTES_PER_GB
from emulator.experiment.model import CPU, MEMORY, Cluster, NodeGroup, Scheduler, Workload, filled_in, located_jobs
from emulator.files.problems import Problem, suggestion
from emulator.files.yaml_values import Location
from emulator.policies.allocation_forms import AllocationPolicy, PacedAllocation, SchedulerAllocation, ShareAllocation
from emulator.policies.resources import (
    PARTS,
    WHOLE_PPM,
    dominant_ppm,
    fits,
    lacking,
    minus,
    most,
    times,
    total,
    vector_of,
    written,
)
from emulator.vocabulary import Resources, TaskGroup, Work
from workloads.errors import TraceError
from workloads.paper_jobs import google_day_jobs
from workloads.schema import GoogleDayEntry, GroupEntry, JobEntry

if TYPE_CHECKING:
    from emulator.core.job import JobSpec
    from workloads.record import WorkloadJob, WorkloadTask

_OF_ONE_SIZE = {
    "slots": "counts containers of one size",
    "availability": "counts containers of one size",
    "small_nodes": "is a share of containers of one size; give the node a group of its own",
}
"""Keys that cannot be combined with ``node_groups``."""

_GANGS = "with node_groups gangs are started by two-queue and the other allocations of queues; name one, or remove it"
_MASTERS = (
    "with node_groups ApplicationMasters could block the nodes of gangs; set cluster.application_masters: outside"
)


class _Asked(NamedTuple):
    """What the tasks of one group of a job ask for, as the file has it."""

    at: Location
    """Where the file says it, below the job."""
    resources: dict[str, float]
    used_gb: float | None
    """The most memory that one of them uses; None: unknown."""


def _asked(job: JobEntry, group: GroupEntry | None) -> _Asked:
    at: Location = ()
    resources, used_gb = job.resources, job.memory_gb if job.tasks is None else job.tasks.memory_gb
    if group is not None and group.resources is not None:
        at, resources = ("groups", (job.groups or ()).index(group)), group.resources
    if group is not None and group.memory_gb is not None:
        used_gb = group.memory_gb
    return _Asked(at, resources or {}, max(used_gb) if isinstance(used_gb, tuple) else used_gb)


def _request(job: JobEntry, asked: _Asked, cluster: Cluster) -> Resources:
    return cluster.request(asked.resources, asked.used_gb if job.memory_mb is None else job.memory_mb / 1024)


def with_requests(groups: tuple[TaskGroup, ...], job: JobEntry, cluster: Cluster) -> tuple[TaskGroup, ...]:
    """The groups of ``job`` with what their tasks ask for: nothing to say where containers have one size."""
    if cluster.node_groups is None:
        return groups
    entries = {entry.name: entry for entry in job.groups or ()}
    requests = (_request(job, _asked(job, entries.get(group.name)), cluster) for group in groups)
    return tuple(replace(group, request=request) for group, request in zip(groups, requests, strict=True))


def by_request(job: WorkloadJob) -> WorkloadJob:
    """The job of a trace with tasks that ask for the same next to one another."""
    asked = dict.fromkeys(_recorded(job, task) for task in job.tasks or ())
    places = {each: place for place, each in enumerate(asked)}
    if len(places) < 2:
        return job
    in_order = sorted(job.tasks or (), key=lambda task: places[_recorded(job, task)])
    return dataclasses.replace(job, tasks=tuple(in_order))


def asking_as_recorded(
    job: WorkloadJob, groups: Sequence[TaskGroup], cluster: Cluster, path: Path
) -> tuple[TaskGroup, ...]:
    """The groups of a job of a trace with what their tasks ask for: as many as its tasks ask for different things; maps
    are one, and ask for the most.  Raises TraceError: no node has as much."""
    asking: list[TaskGroup] = []
    recorded = dict.fromkeys(_recorded(job, task) for task in job.tasks or ())
    requests = {each: _request_of(job, *each, cluster, path) for each in recorded}
    for group in groups:
        kind = "map" if group.work is Work.SHUFFLE else "reduce"
        asked = [requests[_recorded(job, task)] for task in job.tasks or () if task.kind == kind]
        if group.work is Work.SHUFFLE:
            asked = [most(asked)] * group.count
        for number, (request, same) in enumerate(groupby(asked), start=1):
            name = group.name if number == 1 else f"{group.name}-{number}"
            asking.append(replace(group, name=name, count=len(list(same)), request=request))
    return tuple(asking)


def _recorded(job: WorkloadJob, task: WorkloadTask) -> tuple[int | None, int | None]:
    """Processors, in thousandths, and bytes of memory that the trace records for a task; None: nothing."""
    cpu = job.cpu_thousandths if task.cpu_thousandths is None else task.cpu_thousandths
    return cpu, job.memory_bytes if task.memory_bytes is None else task.memory_bytes


def _request_of(job: WorkloadJob, cpu: int | None, memory_bytes: int | None, cluster: Cluster, path: Path) -> Resources:
    """What a task asks for of which this is recorded: what is not is as for a job that does not say it.

    Raises TraceError: no node has as much.
    """
    recorded = {"cpu": cpu, "gpu": job.gpu_thousandths or None}
    resources = {name: amount / PARTS for name, amount in recorded.items() if amount is not None}
    memory_gb = None if memory_bytes is None else -(-memory_bytes * PARTS // BYTES_PER_GB) / PARTS
    request = cluster.request(resources, memory_gb)
    if "gpu" in resources and "gpu" not in cluster.resource_names:
        asked = f"job {job.job}: a task asks for {written(request, cluster.resource_names)}"
        raise TraceError(path, None, None, f"{asked} and {resources['gpu']:g} gpu, and no node has any; add gpu to one")
    why = _fits_none(job.job, request, cluster)
    if why is not None:
        raise TraceError(path, None, None, why)
    return request if any(request) else tuple([int(name == CPU) for name in cluster.resource_names])


def google_day(entry: GoogleDayEntry, cluster: Cluster, memory_bytes: int, seed: int) -> tuple[JobSpec, ...]:
    """The jobs of a day like one of Google's cluster.  Raises ConfigError: a task of one fits no empty node."""
    if cluster.node_groups is None:
        return google_day_jobs(entry, memory_bytes, seed)
    jobs = google_day_jobs(entry, memory_bytes, seed, cluster.request)
    for job in jobs:
        why = _fits_none(job.name, job.facts.groups[0].request, cluster)
        if why is not None:
            raise ConfigError(f"workload.google_day: {why}")
    return jobs


def _fits_none(job: str, request: Resources, cluster: Cluster) -> str | None:
    """Why a task of this job can never start; None: an empty node is large enough."""
    if any(
        fits(request, vector) for vector in dict.fromkeys(_vector(each, cluster) for each in cluster.node_groups or ())
    ):
        return None
    asked = written(request, cluster.resource_names)
    return f"job {job}: a task asks for {asked}, and fits no empty node; add larger nodes to cluster.node_groups"


def check_sizes(
    cluster: Cluster, scheduler: Scheduler | None, workload: Workload | None, engine: str
) -> Iterator[Problem]:
    """Problems of a cluster with ``node_groups``, or of keys that need them."""
    if cluster.node_groups is None:
        yield from _without_groups(cluster, workload)
        return
    yield from _groups(cluster, cluster.node_groups)
    for key, why in _OF_ONE_SIZE.items():
        if getattr(cluster, key):
            yield ("cluster", key), f"{why}; it cannot be used with node_groups, so remove it"
    if engine == "fluid":
        yield ("cluster", "node_groups"), "the fluid engine has no nodes; set engine to live or sim"
    if scheduler is not None:
        yield from _scheduler(scheduler)
        yield from _queues(scheduler, cluster, cluster.node_groups)
    why_no_gangs = _no_gangs(cluster, scheduler)
    if why_no_gangs and workload is not None and workload.trace is not None and workload.trace.gangs:
        yield ("workload", "trace", "gangs"), why_no_gangs
    for where, job in located_jobs(workload):
        if why_no_gangs and job.gang_minimum is not None:
            yield (*where, "gang"), why_no_gangs
        yield from _job(job, where, cluster, cluster.node_groups)


def _no_gangs(cluster: Cluster, scheduler: Scheduler | None) -> str | None:
    """Why gangs cannot be started in nodes of several sizes; None: they can."""
    known = None if scheduler is None else scheduler.allocation.known
    if isinstance(known, SchedulerAllocation):
        return None
    if not isinstance(known, PacedAllocation) and type(known) is not AllocationPolicy:
        return _GANGS
    return None if cluster.application_masters == "outside" else _MASTERS


def _without_groups(cluster: Cluster, workload: Workload | None) -> Iterator[Problem]:
    for key in ("suspended_hold", "master_resources"):
        if getattr(cluster, key) is not None:
            yield ("cluster", key), "needs node_groups: without, all containers have one size; remove it"
    for where, job in located_jobs(workload):
        if job.resources is not None or any(group.resources is not None for group in job.groups or ()):
            message = "all containers of this cluster have one size; remove it, or give the cluster node_groups"
            yield (*where, "resources"), message


def _groups(cluster: Cluster, groups: tuple[NodeGroup, ...]) -> Iterator[Problem]:
    named: dict[Any, Any] = {"node_groups": [group.model_dump() for group in groups]}
    named["container_memory_gb"] = cluster.container_memory_gb
    for key, value in filled_in(named).items():
        if key not in named and getattr(cluster, key) != value:
            yield ("cluster", key), f"node_groups say {value:g}, not {getattr(cluster, key):g}; remove it"
    for index, group in enumerate(groups):
        where: Location = ("cluster", "node_groups", index, "resources")
        if not group.resources.get(CPU) and not group.resources.get(MEMORY):
            yield where, f"a node needs {CPU} or {MEMORY}, of which every container takes some; add one"
    nodes = Counter(cluster.node_names)
    for index, group in enumerate(groups):
        if group.name is not None and nodes[group.name] > 1:
            yield ("cluster", "node_groups", index, "name"), f"'{group.name}' is the name of another node; change one"
    names = cluster.resource_names
    for index, name in enumerate(cluster.suspended_hold or ()):
        if name not in names:
            yield ("cluster", "suspended_hold", index), _unknown(name, names)
    of_master: Location = ("cluster", "master_resources")
    yield from _fitting(cluster.master_resources or {}, of_master, cluster, groups, "an ApplicationMaster")


def _queues(scheduler: Scheduler, cluster: Cluster, groups: tuple[NodeGroup, ...]) -> Iterator[Problem]:
    if cluster.application_masters != "in-containers":
        return
    master = cluster.request(cluster.master_resources)
    whole = total((times(group.count, _vector(group, cluster)) for group in groups), cluster.resource_names)
    share = dominant_ppm(master, whole) / WHOLE_PPM
    for name, queue in scheduler.allocation.queues.items():
        if 0 < queue.maximum <= share:
            at = ("scheduler", "allocation", "queues", name, "maximum")
            yield at, f"an ApplicationMaster takes {share:g} of the cluster, so no task ever runs; raise it"


def _unknown(name: str, names: tuple[str, ...]) -> str:
    return f"no node has '{name}'{suggestion(name, names)} (resources: {', '.join(names)})"


def _scheduler(scheduler: Scheduler) -> Iterator[Problem]:
    known = scheduler.allocation.known
    where: Location = ("scheduler", "allocation")
    if isinstance(known, ShareAllocation):
        yield where, f"{known.name} counts containers of one size; name an allocation of queues, or remove node_groups"
    elif not isinstance(known, SchedulerAllocation):
        yield from _taking_back(scheduler, known)


def _taking_back(scheduler: Scheduler, allocation: AllocationPolicy | None) -> Iterator[Problem]:
    mechanism = scheduler.choice("mechanism").name
    if mechanism == "wait":
        return
    if not isinstance(allocation, PacedAllocation) and type(allocation) is not AllocationPolicy:
        message = f"with node_groups {scheduler.allocation.name} takes nothing back; set it to wait, or name two-queue"
        yield ("scheduler", "mechanism"), message
    elif "wait" in scheduler.choice("mechanism").options.get("among", ()):
        message = "with node_groups the room that victims leave is reserved: they cannot be waited for; remove wait"
        yield ("scheduler", "mechanism", "among"), message


def _job(job: JobEntry, where: Location, cluster: Cluster, groups: tuple[NodeGroup, ...]) -> Iterator[Problem]:
    if job.resources is not None and job.memory_mb is not None and MEMORY in job.resources:
        yield (*where, "memory_mb"), f"resources.{MEMORY} says the same; remove one of them"
    for group in job.groups or (None,):
        asked = _asked(job, group)
        at = (*where, *asked.at, "resources")
        request = _request(job, asked, cluster)
        if not any(request):
            yield at, "a task that asks for nothing can be started any number of times; give it something"
        yield from _fitting(asked.resources, at, cluster, groups, "a task", request)
        asked_gb = asked.resources.get(MEMORY)
        if asked_gb is not None and (asked.used_gb or 0) > asked_gb:
            yield (*at, MEMORY), f"a task that uses {asked.used_gb:g} GB asks for {asked_gb:g}; raise it"
        yield from _beside_master(request, at, cluster, groups)


def _beside_master(
    request: Resources, at: Location, cluster: Cluster, groups: tuple[NodeGroup, ...]
) -> Iterator[Problem]:
    """An ApplicationMaster on the only node that is large enough must leave room there."""
    fitting = [group for group in groups if fits(request, _vector(group, cluster))]
    if cluster.application_masters != "in-containers" or len(fitting) != 1 or fitting[0].count > 1:
        return
    room = minus(_vector(fitting[0], cluster), cluster.request(cluster.master_resources))
    if not fits(request, room):
        short = written(lacking(request, room), cluster.resource_names)
        message = (
            f"one node is large enough, and an ApplicationMaster there leaves {short} too little; lower it, add a node,"
            " or set cluster.application_masters to outside"
        )
        yield at, message


def _vector(group: NodeGroup, cluster: Cluster) -> Resources:
    return vector_of(group.resources, cluster.resource_names)


def _fitting(
    named: dict[str, float],
    where: Location,
    cluster: Cluster,
    groups: tuple[NodeGroup, ...],
    what: str,
    request: Resources | None = None,
) -> Iterator[Problem]:
    """Problems of one request: a resource that no node has, or more than any empty node has."""
    names = cluster.resource_names
    unknown = [name for name in named if name not in names]
    for name in unknown:
        yield (*where, name), _unknown(name, names)
    request = cluster.request(named) if request is None else request
    short = [lacking(request, _vector(group, cluster)) for group in groups]
    if not unknown and all(map(any, short)):
        nearest = min(range(len(groups)), key=lambda index: (sum(map(bool, short[index])), sum(short[index])))
        yield (
            where,
            f"{what} that asks for {written(request, names)} fits no empty node: the nearest, of node_groups.{nearest},"
            f" lacks {written(short[nearest], names)}; lower it, or add larger nodes",
        )

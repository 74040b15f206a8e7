"""Checks of the cluster that need several of its keys, or the allocation and the jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from emulator.errors import ConfigError
from emulator.experiment.availability import read_steps
from emulator.experiment.checks.scheduler import FLUID, YARN, giving_shares
from emulator.experiment.expand import asked_of, request_of, vector_of_group
from emulator.experiment.model import CPU, MEMORY, Cluster, NodeGroup, Scheduler, Workload, filled_in, located_jobs
from emulator.files.problems import Problem, suggestion
from emulator.files.yaml_values import Location
from emulator.policies.policy import AllocationPolicy, SchedulerAllocation, ShareAllocation
from emulator.policies.resources import WHOLE_PPM, dominant_ppm, fits, lacking, minus, times, total, written
from emulator.vocabulary import Resources, counted
from workloads.schema import JobEntry

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


def cluster_checks(
    cluster: Cluster, scheduler: Scheduler | None, workload: Workload | None, engine: str
) -> list[Iterator[Problem]]:
    """Problems of the cluster, check by check; None is a part that was not valid by itself."""
    found = [_memory(cluster), _racks(cluster), _named_nodes(cluster), _availability(cluster, scheduler, engine)]
    found += [_gangs_one_by_one(scheduler, workload), _slots(cluster, scheduler, workload)]
    return [*found, _sizes(cluster, scheduler, workload, engine)]


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
    if (
        scheduler is not None
        and known is not None
        and known.name == YARN
        and scheduler.choice("mechanism").name != "wait"
    ):
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


def _gangs_one_by_one(scheduler: Scheduler | None, workload: Workload | None) -> Iterator[Problem]:
    """Gangs under a scheduler that starts containers one by one."""
    known = None if scheduler is None else scheduler.allocation.known
    if not isinstance(known, SchedulerAllocation) or known.starts_gangs:
        return
    message = f"{known.name} starts containers one by one, and knows no gangs; remove it, or name another allocation"
    if workload is not None and workload.trace is not None and workload.trace.gangs:
        yield ("workload", "trace", "gangs"), message
    for where, job in located_jobs(workload):
        if job.gang_minimum is not None:
            yield (*where, "gang"), message


# ---- nodes with resources, and containers of the sizes that tasks ask for ----


def _sizes(cluster: Cluster, scheduler: Scheduler | None, workload: Workload | None, engine: str) -> Iterator[Problem]:
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
        yield from _allocation(scheduler)
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
    if type(known) is not AllocationPolicy:
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
        if job.master_resources is not None:
            yield (*where, "master_resources"), "needs cluster.node_groups: all containers have one size; remove it"


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
    if cluster.application_masters == "in-containers" or cluster.master_resources is not None:
        of_master: Location = ("cluster", "master_resources")
        yield from _fitting(cluster.master_resources or {}, of_master, cluster, "an ApplicationMaster")


def _queues(scheduler: Scheduler, cluster: Cluster, groups: tuple[NodeGroup, ...]) -> Iterator[Problem]:
    if cluster.application_masters != "in-containers":
        return
    master = cluster.request(cluster.master_resources)
    whole = total((times(group.count, vector_of_group(group, cluster)) for group in groups), cluster.resource_names)
    share = dominant_ppm(master, whole) / WHOLE_PPM
    for name, queue in scheduler.allocation.queues.items():
        if 0 < queue.maximum <= share:
            at = ("scheduler", "allocation", "queues", name, "maximum")
            yield at, f"an ApplicationMaster takes {share:g} of the cluster, so no task ever runs; raise it"


def _unknown(name: str, names: tuple[str, ...]) -> str:
    return f"no node has '{name}'{suggestion(name, names)} (resources: {', '.join(names)})"


def _allocation(scheduler: Scheduler) -> Iterator[Problem]:
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
    if type(allocation) is not AllocationPolicy:
        message = f"with node_groups {scheduler.allocation.name} takes nothing back; set it to wait, or name two-queue"
        yield ("scheduler", "mechanism"), message
    elif "wait" in scheduler.choice("mechanism").options.get("among", ()):
        message = "with node_groups the room that victims leave is reserved: they cannot be waited for; remove wait"
        yield ("scheduler", "mechanism", "among"), message


def _job(job: JobEntry, where: Location, cluster: Cluster, groups: tuple[NodeGroup, ...]) -> Iterator[Problem]:
    if job.resources is not None and job.memory_mb is not None and MEMORY in job.resources:
        yield (*where, "memory_mb"), f"resources.{MEMORY} says the same; remove one of them"
    if job.master_resources is not None:
        yield from _fitting(job.master_resources, (*where, "master_resources"), cluster, "an ApplicationMaster")
    for group in job.groups or (None,):
        asked = asked_of(job, group)
        at = (*where, *asked.at, "resources")
        request = request_of(job, asked, cluster)
        if not any(request):
            yield at, "a task that asks for nothing can be started any number of times; give it something"
        yield from _fitting(asked.resources, at, cluster, "a task", request)
        asked_gb = asked.resources.get(MEMORY)
        if asked_gb is not None and (asked.used_gb or 0) > asked_gb:
            yield (*at, MEMORY), f"a task that uses {asked.used_gb:g} GB asks for {asked_gb:g}; raise it"
        yield from _beside_master(job, request, at, cluster, groups)


def _beside_master(
    job: JobEntry, request: Resources, at: Location, cluster: Cluster, groups: tuple[NodeGroup, ...]
) -> Iterator[Problem]:
    """An ApplicationMaster on the only node that is large enough must leave room there."""
    if cluster.application_masters != "in-containers":
        return
    fitting = [(size, n) for size, numbers in cluster.groups_by_size.items() if fits(request, size) for n in numbers]
    if len(fitting) != 1 or groups[fitting[0][1]].count > 1:
        return
    room = minus(fitting[0][0], cluster.request(job.master_resources or cluster.master_resources))
    if not fits(request, room):
        short = written(lacking(request, room), cluster.resource_names)
        message = (
            f"one node is large enough, and an ApplicationMaster there leaves {short} too little; lower it, add a node,"
            " or set cluster.application_masters to outside"
        )
        yield at, message


def _fitting(
    named: dict[str, float],
    where: Location,
    cluster: Cluster,
    what: str,
    request: Resources | None = None,
) -> Iterator[Problem]:
    """Problems of one request: a resource that no node has, or more than any empty node has."""
    names = cluster.resource_names
    unknown = [name for name in named if name not in names]
    for name in unknown:
        yield (*where, name), _unknown(name, names)
    request = cluster.request(named) if request is None else request
    short = {size: lacking(request, size) for size in cluster.groups_by_size}
    if not unknown and all(map(any, short.values())):
        nearest = min(short, key=lambda size: (sum(map(bool, short[size])), sum(short[size])))
        number = cluster.groups_by_size[nearest][0]
        yield (
            where,
            f"{what} that asks for {written(request, names)} fits no empty node: the nearest, of node_groups.{number},"
            f" lacks {written(short[nearest], names)}; lower it, or add larger nodes",
        )

"""Checks of gangs: an allocation that can place one, and room for it in the cluster and in its queue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from emulator.core.job import JobSpec
from emulator.errors import ConfigError
from emulator.experiment.groups import groups_of
from emulator.experiment.model import Cluster, NodeGroup, Scheduler, Workload, located_jobs
from emulator.experiment.requests import with_requests
from emulator.files.problems import Problem
from emulator.files.yaml_values import Location
from emulator.policies.policy import ShareAllocation
from emulator.policies.resources import count_fitting, have_room, least, most, vector_of
from workloads.schema import JobEntry

_MOST_TRIED = 1_000_000
"""Tasks times nodes: larger gangs are not placed for trial."""


def gang_problems(
    cluster: Cluster | None, scheduler: Scheduler | None, workload: Workload, engine: str
) -> Iterator[Problem]:
    """Problems with the gangs of the workload; None is a part that was not valid by itself."""
    gangs = [((*where, "gang"), job) for where, job in located_jobs(workload) if job.gang_minimum]
    of_trace = workload.trace is not None and workload.trace.gangs
    or_none = ", or set gangs: false" if of_trace else ""
    for where in [where for where, _ in gangs] or [("workload", "trace", "gangs")] * of_trace:
        known = None if scheduler is None else scheduler.allocation.known
        if engine == "fluid":
            yield where, f"the fluid engine has no tasks that could start together; choose engine: sim or live{or_none}"
        elif isinstance(known, ShareAllocation):
            given = f"{known.name} gives shares container by container"
            yield where, f"{given}, which no gang can use; choose two-queue{or_none}"
    for where, job in gangs:
        if cluster is None or scheduler is None or job.queue not in scheduler.allocation.queues:
            continue
        if cluster.node_groups is not None:
            yield from _sized(where, job, cluster, cluster.node_groups)
            continue
        needed, maximum = job.gang_minimum or 0, scheduler.allocation.queues[job.queue].maximum
        in_queue = int(maximum * cluster.containers + 1e-9)
        own_master = int(cluster.application_masters == "in-containers")
        if needed + own_master > in_queue:
            of_what = f"queue '{job.queue}' may hold {in_queue}" if maximum < 1 else f"the cluster has {in_queue}"
            beside = " beside its ApplicationMaster's" if own_master else ""
            message = f"{needed} tasks need as many containers at once{beside}, and {of_what}; lower the minimum"
            yield where, f"{message}, or raise containers_per_node"


def _sized(where: Location, job: JobEntry, cluster: Cluster, nodes: tuple[NodeGroup, ...]) -> Iterator[Problem]:
    groups = with_requests(groups_of(job), job, cluster)
    needed, is_whole = job.gang_minimum or 0, job.gang_minimum == job.tasks_total and len(groups) > 1
    # Any so many of its tasks may be left, of a part of them the largest.
    size_of = least if is_whole else most
    request = size_of(group.request for group in groups)
    sizes = [(group.count, vector_of(group.resources, cluster.resource_names)) for group in nodes]
    fitting = sum(count * count_fitting(request, size) for count, size in sizes)
    if needed > fitting:
        what = "tasks" if len(groups) == 1 else "tasks of the smallest size" if is_whole else "of the largest tasks"
        yield (
            where,
            f"{needed} {what} need room at once, and at most {fitting} fit on all nodes; lower the minimum",
        )
    elif is_whole and needed * cluster.nodes <= _MOST_TRIED:
        requests = [group.request for group in groups for _ in range(group.count)]
        if not have_room(requests, [size for count, size in sizes for _ in range(count)]):
            yield where, f"{needed} tasks of these sizes find no room at once on empty nodes; make some smaller"


def check_trace_gangs(jobs: Iterable[JobSpec], containers: int, masters_outside: bool) -> None:
    """Raise ConfigError if the cluster can never hold a gang of a trace."""
    most = containers - (not masters_outside)
    too_large = [job for job in jobs if (job.facts.gang or 0) > most]
    if too_large:
        first = too_large[0]
        raise ConfigError(
            f"workload.trace.gangs: {len(too_large)} jobs need more containers at once than the {most} that the cluster"
            f" has for tasks, as job {first.name} {first.facts.gang}; make the cluster larger, or set gangs: false"
        )

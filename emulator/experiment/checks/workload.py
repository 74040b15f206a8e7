"""Checks of the workload that need several jobs, the queues or the cluster."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote

from emulator.core.application_master.task import task_named
from emulator.experiment.expand import groups_of, vector_of_group, with_requests
from emulator.experiment.model import Cluster, NodeGroup, Queue, Scheduler, Workload, located_jobs
from emulator.files.problems import Problem, suggestion
from emulator.files.strict import LONGEST_FILE_NAME
from emulator.files.yaml_values import Location
from emulator.policies.policy import ShareAllocation
from emulator.policies.resources import count_fitting, have_capacity, least, most
from emulator.vocabulary import JobFacts
from workloads.schema import GOOGLE_BANDS, MAX_KEYS, GroupEntry, JobEntry, longest_s

TWO_QUEUES = {"production", "research"}


def workload_checks(
    workload: Workload, scheduler: Scheduler | None, cluster: Cluster | None, engine: str
) -> list[Iterator[Problem]]:
    """Problems of the workload, check by check; None is a part that was not valid by itself."""
    return [
        _kinds(workload, scheduler, cluster),
        _progress(scheduler, workload, engine),
        _gangs(cluster, scheduler, workload, engine),
    ]


def _kinds(workload: Workload, scheduler: Scheduler | None, cluster: Cluster | None) -> Iterator[Problem]:
    kinds = ("jobs", "trace", "bimodal", "poisson", "google_day")
    given = [name for name in kinds if getattr(workload, name) is not None]
    if len(given) != 1:
        yield ("workload",), f"give exactly one of {', '.join(kinds)}; {' and '.join(given) or 'none'} given"
    queues = scheduler.allocation.queues if scheduler is not None else None
    yield from _trace(workload, queues)
    yield from _only(workload, queues)
    for kind, drawn in (("bimodal", workload.bimodal), ("poisson", workload.poisson)):
        if drawn is not None and queues is not None and drawn.queue not in queues:
            yield ("workload", kind, "queue"), f"there is no queue '{drawn.queue}'{suggestion(drawn.queue, queues)}"
    for band in GOOGLE_BANDS:
        if workload.google_day is not None and queues is not None and band not in queues:
            yield ("workload", "google_day"), f"needs queues {', '.join(GOOGLE_BANDS)}; there is no queue '{band}'"
    yield from _jobs(workload, queues, cluster)


def _jobs(workload: Workload, queues: Mapping[str, Queue] | None, cluster: Cluster | None) -> Iterator[Problem]:
    names: dict[str, int] = {}
    for index, (where, job) in enumerate(located_jobs(workload)):
        if job.name in names:
            yield (*where, "name"), f"jobs.{names[job.name]} has the same name, '{job.name}'; change one"
        names.setdefault(job.name, index)
        if job.name.startswith((".", "_")):
            yield (*where, "name"), f"'{job.name}': the name of a job must not start with '.' or '_'"
        if len(quote(job.name, safe="")) > LONGEST_FILE_NAME:
            yield (*where, "name"), "is too long for a file name; shorten it"
        yield from _queue_of(job, where, queues, cluster)
        container_gb = None  # each container has the size that its task asks for
        if cluster is not None and cluster.node_groups is None:
            container_gb = cluster.container_memory_gb
            yield from _memory_of(job, where, container_gb)
        yield from _groups(where, job, container_gb)


def _queue_of(
    job: JobEntry, where: Location, queues: Mapping[str, Queue] | None, cluster: Cluster | None
) -> Iterator[Problem]:
    if queues is not None and job.queue not in queues:
        near = suggestion(job.queue, queues)
        yield (*where, "queue"), f"there is no queue '{job.queue}'{near} (queues: {', '.join(queues)})"
    elif queues is not None and cluster is not None:
        containers = queues[job.queue].maximum * cluster.containers
        if cluster.application_masters == "in-containers" and 0 < math.ceil(containers) < 2:
            yield (
                (*where, "queue"),
                f"queue '{job.queue}' may hold at most {containers:g} containers: the master takes one"
                " and no task ever runs; raise the queue's maximum or the cluster's containers",
            )


def _memory_of(job: JobEntry, where: Location, container_gb: float) -> Iterator[Problem]:
    too_small = f"not fit a container of {container_gb:g} GB; raise container_memory_gb"
    if (job.memory_mb or 0) > container_gb * 1024:
        yield (*where, "memory_mb"), f"{job.memory_mb} MB do {too_small}"
    held_gb = max(job.memory_gb) if isinstance(job.memory_gb, tuple) else job.memory_gb or 0
    if held_gb > container_gb:
        yield (*where, "memory_gb"), f"a task that holds {held_gb:g} GB does {too_small}"


def _trace(workload: Workload, queues: Iterable[str] | None) -> Iterator[Problem]:
    trace = workload.trace
    if trace is None or queues is None:
        return
    for key, of_queues in (("task_memory", trace.task_memory), ("weights", trace.weights)):
        for name in of_queues:
            if name not in queues:
                yield ("workload", "trace", key, name), f"there is no queue '{name}'{suggestion(name, queues)}"
    splits = trace.production_fraction is not None or trace.production_priority is not None
    if splits and not set(queues) >= TWO_QUEUES:
        yield (
            ("workload", "trace"),
            "production_fraction and production_priority send jobs to the queues production and research; add both, or"
            " remove them",
        )


def _only(workload: Workload, queues: Iterable[str] | None) -> Iterator[Problem]:
    only, jobs = workload.only, {job.name: job.queue for job in workload.jobs or ()}
    if only is None:
        return
    where: Location = ("workload", "only")
    unknown = False
    for kind, chosen, known in (("queue", only.queues, queues), ("job", only.jobs, jobs or None)):
        for index, name in enumerate(chosen or ()):
            if known is not None and name not in known:
                unknown = True
                yield (*where, f"{kind}s", index), f"there is no {kind} '{name}'{suggestion(name, known)}"
    if jobs and not unknown and not any(only.holds(name, queue) for name, queue in jobs.items()):
        yield where, "leaves no job to run; name others, or remove it"


# ---- groups of tasks ----


def _groups(where: Location, job: JobEntry, container_memory_gb: float | None) -> Iterator[Problem]:
    """What is wrong with the groups of a job; ``where`` the job is in its file."""
    by_name: dict[str, GroupEntry] = {}
    for index, group in enumerate(job.groups or ()):
        here: Location = (*where, "groups", index)
        if group.name in by_name:
            yield (*here, "name"), f"'{group.name}' is the name of an earlier group; change one"
        by_name.setdefault(group.name, group)
        if longest_s(group.length_s) > MAX_KEYS * job.key_s:
            yield (*here, "length_s"), f"a task would walk over {MAX_KEYS} keys; raise key_s"
        held_gb = max(group.memory_gb) if isinstance(group.memory_gb, tuple) else group.memory_gb or 0
        if container_memory_gb is not None and held_gb > container_memory_gb:
            yield (
                (*here, "memory_gb"),
                f"a task that holds {held_gb:g} GB does not fit a container of {container_memory_gb:g} GB;"
                " raise container_memory_gb",
            )
    waits_for = {name: group.starts_after.group for name, group in by_name.items() if group.starts_after is not None}
    for index, group in enumerate(job.groups or ()):
        place: Location = (*where, "groups", index, "starts_after", "group")
        if group.starts_after is None:
            continue
        if group.starts_after.group not in by_name:
            near = suggestion(group.starts_after.group, by_name)
            yield place, f"'{job.name}' has no group '{group.starts_after.group}'{near}"
        elif _waits_for_itself(group.name, waits_for):
            yield place, f"'{group.name}' waits for itself; remove one starts_after"


def _waits_for_itself(name: str, waits_for: Mapping[str, str]) -> bool:
    """Whether ``name`` is among those that it waits for, or waits for a circle of others; ``waits_for``: by name, the
    one that each waits for, if any."""
    seen = {name}
    next_name = waits_for.get(name)
    while next_name is not None and next_name not in seen:
        seen.add(next_name)
        next_name = waits_for.get(next_name)
    return next_name is not None


# ---- triggers, and jobs that are submitted at some progress of others ----


def _progress(scheduler: Scheduler | None, workload: Workload, engine: str) -> Iterator[Problem]:
    """Triggers and submissions that wait for something that does not exist, or for each other."""
    jobs = {job.name: job for job in workload.jobs or ()}
    waits_for = {name: job.submit_when.job for name, job in jobs.items() if job.submit_when is not None}
    for of_job, job in located_jobs(workload):
        where: Location = (*of_job, "submit_when")
        if job.submit_when is None:
            continue
        if job.submit_s:
            yield where, f"submit_s {job.submit_s:g} also sets the time; remove one of the two"
        if engine == "fluid":
            yield where, "the fluid engine cannot wait for a job's progress; give submit_s"
        if job.submit_when.job not in jobs:
            yield (*where, "job"), _no_job(job.submit_when.job, jobs)
        elif _waits_for_itself(job.name, waits_for):
            yield (*where, "job"), f"'{job.name}' waits for itself, through other jobs; give one of them submit_s"
    for index, trigger in enumerate(scheduler.triggers if scheduler is not None else ()):
        where = ("scheduler", "triggers", index)
        if engine == "fluid":
            yield where, "the fluid engine has no tasks; remove it"
        if trigger.when.job not in jobs:
            yield (*where, "when", "job"), _no_job(trigger.when.job, jobs)
        yield from _task_problems((*where, "task"), trigger.task, jobs)


def _task_problems(where: Location, name: str, jobs: dict[str, JobEntry]) -> Iterator[Problem]:
    try:
        job, task = task_named(name)
    except ValueError as error:
        yield where, str(error)
        return
    if job not in jobs:
        yield where, _no_job(job, jobs)
        return
    facts = JobFacts(job, "", groups_of(jobs[job]))
    problem = facts.lacks(task.group, task.number)
    if problem is not None:
        yield where, problem


def _no_job(name: str, jobs: dict[str, JobEntry]) -> str:
    return f"there is no job '{name}'{suggestion(name, jobs)}"


# ---- gangs: an allocation that can place one, and room for it in the cluster and in its queue ----

_MAX_TRIED = 1_000_000
"""Tasks times nodes: larger gangs are not placed for trial."""


def _gangs(cluster: Cluster | None, scheduler: Scheduler | None, workload: Workload, engine: str) -> Iterator[Problem]:
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
            yield from _gang_of_sizes(where, job, cluster, cluster.node_groups)
            continue
        needed, maximum = job.gang_minimum or 0, scheduler.allocation.queues[job.queue].maximum
        in_queue = int(maximum * cluster.containers + 1e-9)
        own_master = int(cluster.application_masters == "in-containers")
        if needed + own_master > in_queue:
            of_what = f"queue '{job.queue}' may hold {in_queue}" if maximum < 1 else f"the cluster has {in_queue}"
            beside = " beside its ApplicationMaster's" if own_master else ""
            message = f"{needed} tasks need as many containers at once{beside}, and {of_what}; lower the minimum"
            yield where, f"{message}, or raise containers_per_node"


def _gang_of_sizes(where: Location, job: JobEntry, cluster: Cluster, nodes: tuple[NodeGroup, ...]) -> Iterator[Problem]:
    groups = with_requests(groups_of(job), job, cluster)
    needed, is_whole = job.gang_minimum or 0, job.gang_minimum == job.tasks_total and len(groups) > 1
    # Any so many of its tasks may be left, of a part of them the largest.
    size_of = least if is_whole else most
    request = size_of(group.request for group in groups)
    sizes = cluster.groups_by_size
    fitting = sum(
        count_fitting(request, size) * sum(nodes[number].count for number in numbers) for size, numbers in sizes.items()
    )
    if needed > fitting:
        what = "tasks" if len(groups) == 1 else "tasks of the smallest size" if is_whole else "of the largest tasks"
        yield (
            where,
            f"{needed} {what} need room at once, and at most {fitting} fit on all nodes; lower the minimum",
        )
    elif is_whole and needed * cluster.nodes <= _MAX_TRIED:
        requests = [group.request for group in groups for _ in range(group.count)]
        if not have_capacity(requests, [vector_of_group(each, cluster) for each in nodes for _ in range(each.count)]):
            yield where, f"{needed} tasks of these sizes find no room at once on empty nodes; make some smaller"

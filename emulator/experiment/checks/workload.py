"""Checks of the workload that need several jobs, the queues or the cluster."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote

from emulator.experiment.groups import group_problems
from emulator.experiment.model import Cluster, Queue, Scheduler, Workload, located_jobs
from emulator.files.problems import Problem, suggestion
from emulator.files.strict import LONGEST_FILE_NAME
from emulator.files.yaml_values import Location
from workloads.schema import GOOGLE_BANDS, JobEntry

TWO_QUEUES = {"production", "research"}


def workload_problems(workload: Workload, scheduler: Scheduler | None, cluster: Cluster | None) -> Iterator[Problem]:
    """Problems of the workload; None is a part that was not valid by itself."""
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
        yield from group_problems(where, job, container_gb)


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

"""Makes the frozen jobs that every engine runs from the workload part of an experiment."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from emulator.core.job import JobSpec, ProgramSpec
from emulator.core.settings import MEMORY, memory_bytes_of
from emulator.costs.overheads import load_overheads
from emulator.errors import ConfigError
from emulator.experiment.availability import capacity_of
from emulator.experiment.model import CPU, Cluster, Experiment, NodeGroup, Queue
from emulator.files.times import seconds_to_ns
from emulator.files.yaml_values import Location
from emulator.policies.resources import PARTS, fits, most, vector_of, written
from emulator.sites.yarn import YarnDetails
from emulator.vocabulary import TASKS, JobFacts, Mechanism, Resources, StartsAfter, TaskGroup, Work, map_reduce
from workloads.draws import P95_STANDARD_DEVIATIONS, key_count, lengths_ns, lognormal
from workloads.errors import Problems, TraceError
from workloads.paper_jobs import bimodal_jobs, google_day_jobs, poisson_jobs
from workloads.schema import MAX_KEYS, GoogleDayEntry, GroupEntry, JobEntry, Programs, TraceEntry

if TYPE_CHECKING:
    from workloads.adapt import Adapted
    from workloads.record import Trace, WorkloadJob, WorkloadTask

BYTES_PER_GB = 2**30
BYTES_PER_MEMORY_MB = 2**20
BYTES_PER_SHUFFLE_MB = 10**6


def expand(experiment: Experiment, seed: int) -> tuple[JobSpec, ...]:
    """The jobs that an experiment runs, in the order of its file or trace, with every task length drawn.

    ``seed`` is the seed of the repeat; only for the first repeat it is ``experiment.seed``.  A draw is keyed by seed
    and job name.  So adding or removing a job, or running only a part of the workload, does not change other jobs.

    Raises:
        TraceError: the trace cannot be used.
        ConfigError: ``workload.only`` names a job that is not in the trace, or leaves no job.
    """
    jobs, only = _with_usual_requests(_all_jobs(experiment, seed), experiment.cluster), experiment.workload.only
    queues = experiment.scheduler.allocation.queues
    own = {entry.name: entry for entry in experiment.workload.jobs or ()}
    jobs = tuple(_with_terms(job, queues.get(job.queue), own.get(job.name)) for job in jobs)
    if experiment.workload.lengths_known:
        jobs = tuple(map(_with_known_lengths, jobs))
    if only is None:
        return jobs
    unknown = [name for name in only.jobs or () if all(job.name != name for job in jobs)]
    if unknown:
        raise ConfigError(f"workload.only.jobs: the trace has no job '{unknown[0]}'")
    chosen = tuple(job for job in jobs if only.holds(job.name, job.queue))
    if not chosen:
        raise ConfigError("workload.only: leaves no job to run; name others, or remove it")
    return chosen


def _all_jobs(experiment: Experiment, seed: int) -> tuple[JobSpec, ...]:
    entry, memory_bytes = experiment.workload.trace, int(experiment.cluster.container_memory_gb * BYTES_PER_GB)
    if experiment.workload.bimodal is not None:
        containers = experiment.cluster.containers
        return bimodal_jobs(experiment.workload.bimodal, containers, memory_bytes, seed)
    if experiment.workload.poisson is not None:
        cluster = experiment.cluster
        capacity = capacity_of(cluster.availability, cluster.containers)
        return poisson_jobs(experiment.workload.poisson, capacity, cluster.containers, memory_bytes, seed)
    if experiment.workload.google_day is not None:
        return _google_day(experiment.workload.google_day, experiment.cluster, memory_bytes, seed)
    if entry is None:
        return tuple(_job(entry, experiment.cluster, memory_bytes, seed) for entry in experiment.workload.jobs or ())
    adapted = adapt_trace(experiment, entry, seed)
    starts_measured = adapted.header.starts_measured
    has_sizes = experiment.cluster.node_groups is not None
    recorded = [_by_request(job) for job in adapted.jobs] if has_sizes else adapted.jobs
    jobs = tuple(_spec(job, entry, memory_bytes, starts_measured, seed) for job in recorded)
    if has_sizes:
        pairs = zip(jobs, recorded, strict=True)
        jobs = tuple(_asking_as_recorded(spec, job, experiment.cluster, entry) for spec, job in pairs)
    if experiment.scheduler.allocation.name == "yarn-capacity":
        jobs = tuple(_of_user(spec, job.user) for spec, job in zip(jobs, recorded, strict=True))
    _check_gangs(jobs, experiment.cluster)
    return jobs


def _check_gangs(jobs: Iterable[JobSpec], cluster: Cluster) -> None:
    """Raise ConfigError if the cluster can never hold a gang of a trace."""
    for_tasks = cluster.containers - (cluster.application_masters == "in-containers")
    too_large = [job for job in jobs if (job.facts.gang or 0) > for_tasks]
    if too_large:
        first = too_large[0]
        raise ConfigError(
            f"workload.trace.gangs: {len(too_large)} jobs need more containers at once than the {for_tasks} that the"
            f" cluster has for tasks, as job {first.name} {first.facts.gang}; make the cluster larger, or set gangs:"
            " false"
        )


def _of_user(spec: JobSpec, user: str | None) -> JobSpec:
    return replace(spec, facts=replace(spec.facts, details=YarnDetails(user))) if user else spec


def _with_usual_requests(jobs: tuple[JobSpec, ...], cluster: Cluster) -> tuple[JobSpec, ...]:
    """In a cluster of several sizes, a job that was not written out asks for containers of the usual one."""
    usual = cluster.request(None)
    return tuple(map(partial(_asking_for, usual), jobs)) if usual else jobs


def _asking_as_recorded(spec: JobSpec, job: WorkloadJob, cluster: Cluster, entry: TraceEntry) -> JobSpec:
    """In a cluster of several sizes, a job of a trace asks for what it asked for there."""
    groups = _groups_as_recorded(job, spec.facts.groups, cluster, Path(entry.path))
    of_tasks = max((task.memory_bytes or 0 for task in job.tasks or ()), default=0)
    memory_bytes = max(of_tasks, job.memory_bytes or 0) or spec.facts.memory_bytes
    master = _recorded_master(job, cluster, Path(entry.path))
    return replace(spec, facts=replace(spec.facts, groups=groups, memory_bytes=memory_bytes, master_request=master))


def _asking_for(request: Resources, job: JobSpec) -> JobSpec:
    groups = tuple(group if group.request else replace(group, request=request) for group in job.facts.groups)
    return replace(job, facts=replace(job.facts, groups=groups))


def _with_known_lengths(job: JobSpec) -> JobSpec:
    groups = tuple(
        replace(group, mean_ns=sum(job.length_ns(group, task) for task in range(group.count)) // group.count)
        for group in job.facts.groups
    )
    return replace(job, facts=replace(job.facts, groups=groups))


def adapt_trace(experiment: Experiment, entry: TraceEntry, seed: int) -> Adapted:
    """The trace of an experiment, fitted to its cluster.  Raises TraceError, ConfigError."""
    from workloads.adapt import Target, adapt  # here, because jobs written out do not need these imports
    from workloads.importers import open_entry

    cluster = experiment.cluster
    target = Target(
        nodes=cluster.nodes,
        containers=cluster.containers,
        queues=tuple(experiment.scheduler.allocation.queues),
        schedule_ns=load_overheads(experiment.overheads, Path.cwd()).schedule_ns,
    )

    def opened() -> Trace:
        problems = Problems(entry.lenient, switch="workload.trace.lenient: true")
        return open_entry(entry, problems)

    return adapt(opened, entry, target, seed)


def _spec(
    job: WorkloadJob, entry: TraceEntry, container_memory_bytes: int, starts_measured: bool, seed: int
) -> JobSpec:
    """The job of a trace.  A recorded memory is at most that of a container.

    Measured times are not modelled again: a recorded length includes the time to fetch and to write and, if it begins
    with the container, the start of the process.
    """
    measured = any(task.source == "measured" for task in job.tasks or ())
    moves_bytes = entry.data_scale is not None or not measured
    reduce_ns, key_s = job.lengths_ns("reduce"), entry.rates.key_s
    if max(reduce_ns, default=0) > MAX_KEYS * key_s * 1e9:
        longest_s = max(reduce_ns) / 1e9
        reason = f"job {job.job}: a reduce of {longest_s:g} s would walk over {MAX_KEYS} keys; raise rates.key_s"
        raise TraceError(Path(entry.path), None, None, reason)
    map_ns = job.lengths_ns("map")
    facts = JobFacts(
        name=job.job,
        queue=job.queue or "",
        groups=map_reduce(len(map_ns), len(reduce_ns)),
        deadline_ns=job.deadline_ns,
        priority=job.priority or 0,
        weight_ppm=round(entry.weights.get(job.queue or "", 1.0) * 1_000_000),
        memory_bytes=min(job.memory_bytes or container_memory_bytes, container_memory_bytes),
        task_memory_bytes=_drawn_memory(job, entry, max(len(map_ns), len(reduce_ns)), container_memory_bytes, seed),
        gang=len(map_ns) + len(reduce_ns) if entry.gangs and len(map_ns) + len(reduce_ns) > 1 else None,
    )
    return JobSpec(
        facts,
        submit_ns=job.submit_ns,
        map_ns=map_ns,
        reduce_ns=reduce_ns,
        reduce_keys=tuple(key_count(length, key_s) for length in reduce_ns),
        shuffle_bytes=job.shuffle_bytes if moves_bytes else None,
        output_bytes=job.output_bytes if moves_bytes else None,
        starts_measured=starts_measured and measured,
    )


def _drawn_memory(
    job: WorkloadJob, entry: TraceEntry, tasks: int, container_memory_bytes: int, seed: int
) -> tuple[int, ...]:
    drawn = entry.task_memory.get(job.queue or "")
    if drawn is None:
        return ()
    rng = Random(f"{seed}:{job.job}:task-memory")
    sigma = math.log(drawn.p95_gb / drawn.median_gb) / P95_STANDARD_DEVIATIONS
    sizes_gb = (lognormal(rng, drawn.median_gb, sigma) for _ in range(tasks))
    return tuple(min(container_memory_bytes, int(size_gb * BYTES_PER_GB)) for size_gb in sizes_gb)


def _requested_bytes(groups: tuple[TaskGroup, ...], cluster: Cluster) -> int | None:
    """The most memory that one of the tasks asks for; None: none, or containers have one size."""
    if MEMORY not in cluster.resource_names:
        return None
    index = cluster.resource_names.index(MEMORY)
    return max(memory_bytes_of(group.request[index]) for group in groups) or None


def _job(entry: JobEntry, cluster: Cluster, container_memory_bytes: int, seed: int) -> JobSpec:
    own_memory_bytes = None if entry.memory_mb is None else entry.memory_mb * BYTES_PER_MEMORY_MB
    programs = entry.tasks
    memory_gb = entry.memory_gb if programs is None else programs.memory_gb
    reduce_ns = _walking_ns(entry, seed)
    groups = with_requests(groups_of(entry), entry, cluster)
    facts = JobFacts(
        name=entry.name,
        queue=entry.queue,
        groups=groups,
        deadline_ns=_deadline_ns(entry),
        priority=entry.priority,
        memory_bytes=_requested_bytes(groups, cluster) or own_memory_bytes or container_memory_bytes,
        task_memory_bytes=task_memory_bytes(memory_gb),
        dirty_ppm=round(entry.dirty_fraction * 1_000_000),
        memory_at_start_ppm=round(entry.memory_at_start * 1_000_000),
        weight_ppm=round(entry.weight * 1_000_000),
        sla=tuple((seconds_to_ns(step.deadline_s), round(step.cost * 1_000_000)) for step in entry.sla),
        min_containers=entry.min_containers,
        max_containers=entry.max_containers,
        gang=entry.gang_minimum,
        details=entry.details,
        master_request=() if entry.master_resources is None else cluster.request(entry.master_resources),
    )
    return JobSpec(
        facts,
        submit_ns=seconds_to_ns(entry.submit_s),
        map_ns=lengths_ns(entry.map_s, entry.maps, f"{seed}:{entry.name}:map-lengths"),
        reduce_ns=reduce_ns,
        reduce_keys=tuple(1 if programs else key_count(length, entry.key_s) for length in reduce_ns),
        program=_program(programs),
        shuffle_bytes=None if entry.shuffle_mb is None else int(entry.shuffle_mb * BYTES_PER_SHUFFLE_MB),
        submit_when=None if entry.submit_when is None else (entry.submit_when.job, entry.submit_when.progress_ppm),
    )


def _program(programs: Programs | None) -> ProgramSpec | None:
    if programs is None:
        return None
    files = tuple(sorted(programs.sha256.items()))
    return ProgramSpec(programs.command, files, programs.directory, tuple(programs.environment.items()), programs.input)


def _walking_ns(entry: JobEntry, seed: int) -> tuple[int, ...]:
    """Lengths of the tasks that walk keys, one group after the other."""
    if entry.groups is not None:
        drawn = (lengths_ns(g.length_s, g.count, f"{seed}:{entry.name}:{g.name}-lengths") for g in entry.groups)
        return tuple(chain.from_iterable(drawn))
    lengths, count = entry.reduce_s, entry.reduces
    if entry.tasks is not None:
        lengths, count = entry.tasks.length_s, entry.tasks.count
    return lengths_ns(lengths, count, f"{seed}:{entry.name}:reduce-lengths")


def _deadline_ns(entry: JobEntry) -> int | None:
    if entry.deadline_after_s is not None:
        return seconds_to_ns(entry.submit_s) + seconds_to_ns(entry.deadline_after_s)
    return None if entry.deadline_s is None else seconds_to_ns(entry.deadline_s)


_TERMS = ("grace_s", "minimum_runtime_s", "checkpoint_period_s", "mechanism")


def _with_terms(job: JobSpec, queue: Queue | None, entry: JobEntry | None) -> JobSpec:
    """The job on the terms of its ``entry``, or else of its ``queue``; None: there is none."""
    facts: dict[str, Any] = {}
    for terms in (queue, entry):
        for name in _TERMS if terms is not None else ():
            value = getattr(terms, name)
            if value is not None:
                is_time = name.endswith("_s")
                facts[f"{name[:-2]}_ns" if is_time else name] = seconds_to_ns(value) if is_time else Mechanism(value)
    return replace(job, facts=replace(job.facts, **facts)) if facts else job


# ---- groups of tasks, and what each of their tasks asks for ----


def groups_of(entry: JobEntry) -> tuple[TaskGroup, ...]:
    """The job's maps and reduces, its programs, or the groups that its entry names."""
    if entry.groups is not None:
        return tuple(map(_group, entry.groups))
    if entry.tasks is not None:
        return (TaskGroup(TASKS, entry.tasks.count),)
    return map_reduce(entry.maps, entry.reduces)


def _group(entry: GroupEntry) -> TaskGroup:
    after = entry.starts_after
    return TaskGroup(
        name=entry.name,
        count=entry.count,
        may_be_victim=entry.may_be_victim,
        starts_after=None if after is None else StartsAfter(after.group, round(after.share * 1_000_000)),
        task_memory_bytes=task_memory_bytes(entry.memory_gb),
    )


def task_memory_bytes(memory_gb: float | tuple[float, ...] | None) -> tuple[int, ...]:
    """The memory of tasks as files have it, in bytes."""
    if memory_gb is None:
        return ()
    sizes_gb = memory_gb if isinstance(memory_gb, tuple) else (memory_gb,)
    return tuple(int(size_gb * BYTES_PER_GB) for size_gb in sizes_gb)


class Asked(NamedTuple):
    """What the tasks of one group of a job ask for, as the file has it."""

    at: Location
    """The place in the file that says it, below the job."""
    resources: dict[str, float]
    used_gb: float | None
    """The most memory that one of them uses; None: unknown."""


def asked_of(job: JobEntry, group: GroupEntry | None) -> Asked:
    """What the tasks of one group ask for; None: the maps and reduces, or the programs, of a job without groups."""
    at: Location = ()
    resources, used_gb = job.resources, job.memory_gb if job.tasks is None else job.tasks.memory_gb
    if group is not None and group.resources is not None:
        at, resources = ("groups", (job.groups or ()).index(group)), group.resources
    if group is not None and group.memory_gb is not None:
        used_gb = group.memory_gb
    return Asked(at, resources or {}, max(used_gb) if isinstance(used_gb, tuple) else used_gb)


def request_of(job: JobEntry, asked: Asked, cluster: Cluster) -> Resources:
    """What a task asks for as a vector, with the usual amounts of what it does not say."""
    return cluster.request(asked.resources, asked.used_gb if job.memory_mb is None else job.memory_mb / 1024)


def with_requests(groups: tuple[TaskGroup, ...], job: JobEntry, cluster: Cluster) -> tuple[TaskGroup, ...]:
    """The groups of ``job`` with what their tasks ask for: nothing to say where containers have one size."""
    if cluster.node_groups is None:
        return groups
    entries = {entry.name: entry for entry in job.groups or ()}
    requests = (request_of(job, asked_of(job, entries.get(group.name)), cluster) for group in groups)
    return tuple(replace(group, request=request) for group, request in zip(groups, requests, strict=True))


def vector_of_group(group: NodeGroup, cluster: Cluster) -> Resources:
    """What a node of the group has."""
    return vector_of(group.resources, cluster.resource_names)


def _by_request(job: WorkloadJob) -> WorkloadJob:
    """The job of a trace with tasks that ask for the same next to one another."""
    asked = dict.fromkeys(_recorded(job, task) for task in job.tasks or ())
    places = {each: place for place, each in enumerate(asked)}
    if len(places) < 2:
        return job
    in_order = sorted(job.tasks or (), key=lambda task: places[_recorded(job, task)])
    return dataclasses.replace(job, tasks=tuple(in_order))


def _groups_as_recorded(
    job: WorkloadJob, groups: Sequence[TaskGroup], cluster: Cluster, path: Path
) -> tuple[TaskGroup, ...]:
    """The groups of a job of a trace with what their tasks ask for: as many as its tasks ask for different things; maps
    are one, and ask for the most.  Raises TraceError: no node has as much."""
    asking: list[TaskGroup] = []
    recorded = dict.fromkeys(_recorded(job, task) for task in job.tasks or ())
    requests = {each: _recorded_request(job, *each, cluster, path) for each in recorded}
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


def _recorded_request(
    job: WorkloadJob, cpu: int | None, memory_bytes: int | None, cluster: Cluster, path: Path
) -> Resources:
    """What a task asks for of which this is recorded: what is not is as for a job that does not say it.

    Raises TraceError: no node has as much.
    """
    recorded = {"cpu": cpu, "gpu": job.gpu_thousandths or None}
    resources = {name: amount / PARTS for name, amount in recorded.items() if amount is not None}
    request = cluster.request(resources, None if memory_bytes is None else _whole_parts_gb(memory_bytes))
    if "gpu" in resources and "gpu" not in cluster.resource_names:
        asked = f"job {job.job}: a task asks for {written(request, cluster.resource_names)}"
        raise TraceError(path, None, None, f"{asked} and {resources['gpu']:g} gpu, and no node has any; add gpu to one")
    why = _fits_none(job.job, request, cluster)
    if why is not None:
        raise TraceError(path, None, None, why)
    return request if any(request) else tuple([int(name == CPU) for name in cluster.resource_names])


def _recorded_master(job: WorkloadJob, cluster: Cluster, path: Path) -> Resources:
    """What the ApplicationMaster of a job of a trace asks for; empty: nothing is recorded, so as the cluster says.

    Raises TraceError: no node has as much.
    """
    resources = dict(cluster.master_resources or {})
    if job.master_memory_bytes is None and job.master_cpu_thousandths is None:
        return ()
    if job.master_memory_bytes is not None:
        resources[MEMORY] = _whole_parts_gb(job.master_memory_bytes)
    if job.master_cpu_thousandths is not None:
        resources[CPU] = job.master_cpu_thousandths / PARTS
    request = cluster.request(resources)
    why = _fits_none(job.job, request, cluster, "its ApplicationMaster")
    if why is not None:
        raise TraceError(path, None, None, why)
    return request


def _whole_parts_gb(memory_bytes: int) -> float:
    """Memory in GiB, rounded up to three decimals."""
    return -(-memory_bytes * PARTS // BYTES_PER_GB) / PARTS


def _google_day(entry: GoogleDayEntry, cluster: Cluster, memory_bytes: int, seed: int) -> tuple[JobSpec, ...]:
    """The jobs of a day like one of Google's cluster.  Raises ConfigError: a task of one fits no empty node."""
    if cluster.node_groups is None:
        return google_day_jobs(entry, memory_bytes, seed)
    jobs = google_day_jobs(entry, memory_bytes, seed, cluster.request)
    for job in jobs:
        why = _fits_none(job.name, job.facts.groups[0].request, cluster)
        if why is not None:
            raise ConfigError(f"workload.google_day: {why}")
    return jobs


def _fits_none(job: str, request: Resources, cluster: Cluster, what: str = "a task") -> str | None:
    """Why a task of this job, or ``what`` else of it, can never start; None: an empty node is large enough."""
    if any(fits(request, has) for has in {vector_of_group(each, cluster) for each in cluster.node_groups or ()}):
        return None
    asked = written(request, cluster.resource_names)
    return f"job {job}: {what} asks for {asked}, and fits no empty node; add larger nodes to cluster.node_groups"

"""From the workload part of an experiment to the frozen jobs that every engine runs."""

from __future__ import annotations

from pathlib import Path

from emulator.config import Experiment, seconds_to_ns
from emulator.core.job import JobSpec
from emulator.errors import ConfigError
from workloads.lengths import key_count, lengths_ns
from workloads.schema import JobEntry
from workloads.swim import import_swim

BYTES_PER_GB = 2**30
BYTES_PER_MEMORY_MB = 2**20
BYTES_PER_SHUFFLE_MB = 10**6


def expand(experiment: Experiment, seed: int) -> tuple[JobSpec, ...]:
    """The jobs that an experiment runs, in the order of its file or trace, with every task length drawn.

    ``seed`` is the seed of the repeat, which ``experiment.seed`` is only for the first.  A draw is keyed by
    seed and job name: adding or removing a job, or running a part of the workload only, moves no other's.

    Raises:
        TraceError: the trace cannot be used.
        ConfigError: ``workload.only`` names a job that the trace does not have, or leaves none.
    """
    jobs, only = _all_jobs(experiment, seed), experiment.workload.only
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
    cluster, trace = experiment.cluster, experiment.workload.trace
    memory_bytes = int(cluster.container_memory_gb * BYTES_PER_GB)
    if trace is None:
        return tuple(_job(entry, memory_bytes, seed) for entry in experiment.workload.jobs or ())
    containers = cluster.nodes * cluster.containers_per_node
    return tuple(
        import_swim(
            Path(trace.path),
            trace,
            nodes=cluster.nodes,
            containers=containers,
            memory_bytes=memory_bytes,
            seed=seed,
        )
    )


def _job(entry: JobEntry, container_memory_bytes: int, seed: int) -> JobSpec:
    own_memory_bytes = None if entry.memory_mb is None else entry.memory_mb * BYTES_PER_MEMORY_MB
    reduce_ns = lengths_ns(entry.reduce_s, entry.reduces, f"{seed}:{entry.name}:reduce-lengths")
    return JobSpec(
        name=entry.name,
        queue=entry.queue,
        submit_ns=seconds_to_ns(entry.submit_s),
        map_ns=lengths_ns(entry.map_s, entry.maps, f"{seed}:{entry.name}:map-lengths"),
        reduce_ns=reduce_ns,
        reduce_keys=tuple(key_count(length, entry.key_s) for length in reduce_ns),
        memory_bytes=own_memory_bytes or container_memory_bytes,
        deadline_ns=None if entry.deadline_s is None else seconds_to_ns(entry.deadline_s),
        priority=entry.priority,
        shuffle_bytes=None if entry.shuffle_mb is None else int(entry.shuffle_mb * BYTES_PER_SHUFFLE_MB),
    )

"""What a play meant for the jobs of each partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from emulator.policies.slurm.player import Stay
from emulator.sites.slurm import Cluster, Job
from emulator.vocabulary import HOUR_NS, SECOND_NS, Frozen, mean_s


class JobsOutcome(Frozen):
    """Of all jobs of one partition, or of several.  None: no job started, or ended."""

    name: str
    jobs: int
    ended: int
    """Jobs that ran to their end."""
    wait_s: float | None
    """Mean, until the first start."""
    longest_wait_s: float | None
    completion_s: float | None
    """Mean from submission to the end, of those that ran to their end."""
    preempted: int
    """How often jobs were ended or stopped for others."""
    lost_node_h: float
    """Node-hours of work that was ended, and is done again or never."""


class JobOutcome(Frozen):
    """What became of one job.  None: it did not start, or run to its end."""

    wait_ns: int | None
    """Until its first start."""
    completion_ns: int | None
    """From its submission to its end."""
    preempted: int
    """How often it was ended or stopped for others."""
    lost_ns: int
    """Work that was ended, times its nodes; where saving has a cost, with what its nodes were held for that."""


def outcomes(cluster: Cluster, jobs: Iterable[Job], stays: Mapping[str, Sequence[Stay]]) -> Iterator[JobsOutcome]:
    """Of each partition that has jobs, in the order of the configuration."""
    by_partition: dict[str, list[JobOutcome]] = {}
    for job in jobs:
        by_partition.setdefault(job.partition, []).append(job_outcome(job, stays[job.name]))
    for partition in cluster.partitions:
        if found := by_partition.get(partition.name):
            yield together(partition.name, found)


def job_outcome(job: Job, stays: Sequence[Stay]) -> JobOutcome:
    """What became of a job in a play, by its stays on nodes."""
    is_done = bool(stays) and stays[-1].is_done
    return JobOutcome(
        stays[0].start_ns - job.submit_ns if stays else None,
        (stays[-1].end_ns or 0) - job.submit_ns if is_done else None,
        sum(len(stay.stopped) + stay.was_ended for stay in stays),
        sum(stay.lost_ns * len(stay.nodes) for stay in stays),
    )


def together(name: str, jobs: Sequence[JobOutcome]) -> JobsOutcome:
    """Of these jobs, under a name."""
    waits = [job.wait_ns for job in jobs if job.wait_ns is not None]
    completions = [job.completion_ns for job in jobs if job.completion_ns is not None]
    return JobsOutcome(
        name,
        len(jobs),
        len(completions),
        mean_s(waits),
        max(waits) / SECOND_NS if waits else None,
        mean_s(completions),
        sum(job.preempted for job in jobs),
        sum(job.lost_ns for job in jobs) / HOUR_NS,
    )

"""What a play meant for the jobs of each partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from emulator.policies.slurm.model import SECOND_NS, Cluster, Job
from emulator.policies.slurm.player import Stay
from emulator.vocabulary import HOUR_NS, Frozen


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


def outcomes(cluster: Cluster, jobs: Iterable[Job], stays: Mapping[str, Sequence[Stay]]) -> Iterator[JobsOutcome]:
    """Of each partition that has jobs, in the order of the configuration."""
    by_partition: dict[str, list[Job]] = {}
    for job in jobs:
        by_partition.setdefault(job.partition, []).append(job)
    for partition in cluster.partitions:
        if found := by_partition.get(partition.name):
            yield outcome_of(partition.name, found, stays)


def outcome_of(name: str, jobs: Sequence[Job], stays: Mapping[str, Sequence[Stay]]) -> JobsOutcome:
    """Of these jobs together, under a name."""
    waits, completions, preempted, lost_ns = list[int](), list[int](), 0, 0
    for job in jobs:
        mine = stays[job.name]
        if mine:
            waits.append(mine[0].start_ns - job.submit_ns)
        for stay in mine:
            lost_ns += stay.lost_ns * len(stay.nodes)
            preempted += len(stay.stopped) + stay.was_ended
            if stay.is_done:
                completions.append((stay.end_ns or 0) - job.submit_ns)
    return JobsOutcome(
        name,
        len(jobs),
        len(completions),
        mean_s(waits),
        max(waits) / SECOND_NS if waits else None,
        mean_s(completions),
        preempted,
        lost_ns / HOUR_NS,
    )


def mean_s(times_ns: Sequence[int]) -> float | None:
    """In seconds; None: there are none."""
    return sum(times_ns) / len(times_ns) / SECOND_NS if times_ns else None

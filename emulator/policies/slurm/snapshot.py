"""What is running and what waits, as the schedulers see it; they change it as they decide."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from emulator.policies.slurm.model import Cluster, Job, Mode, Partition

FOREVER_NS = 1 << 62


@dataclass(eq=False, slots=True)
class Waiting:
    """A job that is pending."""

    job: Job
    partition: Partition
    number: int
    """Its JobId: the order of submission."""
    eligible_ns: int = 0
    """A requeued job may not start before."""

    @property
    def key(self) -> tuple[int, int, int]:
        """The order in which jobs are looked at."""
        return -self.partition.tier, -self.job.priority, self.number

    @property
    def limit_ns(self) -> int:
        """Its time limit."""
        limits = (self.job.limit_ns, self.partition.limit_ns, FOREVER_NS)
        return next(limit for limit in limits if limit is not None)


@dataclass(eq=False, slots=True)
class Running:
    """A job on its nodes."""

    waiting: Waiting
    nodes: tuple[str, ...]
    start_ns: int
    end_ns: int
    """When its time limit, or its grace, is over."""
    preempted: bool = False
    """Whether it has been told to go, and is in its grace."""

    @property
    def tier(self) -> int:
        """That of its partition."""
        return self.waiting.partition.tier

    @property
    def cpus(self) -> int:
        """On each of its nodes."""
        return self.waiting.job.cpus


class Snapshot:
    """Free CPUs, running and waiting jobs."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.partitions = {each.name: each for each in cluster.partitions}
        self.order = {name: place for place, name in enumerate(cluster.nodes)}
        self.free = dict(cluster.nodes)
        """CPUs of each node that no job has, stopped ones included."""
        self.running: dict[str, Running] = {}
        """By job, in the order of their starts."""
        self.waiting: dict[str, Waiting] = {}

    def start(self, running: Running) -> None:
        """A waiting job is on its nodes from now on."""
        del self.waiting[running.waiting.job.name]
        self.running[running.waiting.job.name] = running
        for node in running.nodes:
            self.free[node] -= running.cpus

    def end(self, running: Running) -> None:
        """It is gone from its nodes."""
        del self.running[running.waiting.job.name]
        for node in running.nodes:
            self.free[node] += running.cpus

    def pending(self, now_ns: int) -> list[Waiting]:
        """Those that may start, in the order in which they are looked at."""
        return sorted((each for each in self.waiting.values() if each.eligible_ns <= now_ns), key=lambda each: each.key)

    def free_without(self, gone: Iterable[Running]) -> dict[str, int]:
        """Free CPUs of each node when ``gone`` will have left."""
        free = dict(self.free)
        for running in gone:
            for node in running.nodes:
                free[node] += running.cpus
        return free

    def free_of(self, tier: int) -> dict[str, int]:
        """Free CPUs of each node for a job that is put over those of lower tiers (``PreemptMode=SUSPEND,GANG``)."""
        return self.free_without(
            each for each in self.running.values() if each.tier < tier and each.waiting.partition.mode is Mode.SUSPEND
        )

    def leaving(self) -> Iterator[Running]:
        """Those in their grace."""
        return (each for each in self.running.values() if each.preempted)

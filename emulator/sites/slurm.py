"""A site with Slurm: nodes, partitions, the settings of ``slurm.conf``, and rigid jobs.

Times are nanoseconds.  Names and defaults are those of Slurm 22.05's documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from emulator.sites import refuse_twice
from emulator.sites.basis import Basis
from emulator.vocabulary import MINUTE_NS, SECOND_NS, Details, Frozen

DAY_NS = 24 * 60 * MINUTE_NS
FOREVER_NS = 1 << 62
"""In place of no limit."""
_Some = Annotated[int, Meta(gt=0)]


class Mode(StrEnum):
    """``PreemptMode``: what happens to a job that is preempted."""

    OFF = "OFF"
    CANCEL = "CANCEL"
    REQUEUE = "REQUEUE"
    SUSPEND = "SUSPEND"


class Partition(Frozen):
    """A partition: a queue with nodes of its own, which may be those of others too."""

    name: str
    nodes: tuple[str, ...]
    tier: int = 1
    """``PriorityTier``: jobs of a higher tier are looked at first, and may preempt those of a lower one."""
    mode: Mode = Mode.OFF
    grace_ns: int = 0
    """``GraceTime``: from the decision until a victim is ended."""
    limit_ns: int | None = None
    """``DefaultTime``, of jobs that name no time limit; else ``MaxTime``.  None: unlimited."""


class Qos(Frozen):
    """A Quality of Service: which others its jobs may preempt, and what happens to them when they are preempted."""

    name: str
    preempts: tuple[str, ...] = ()
    """``Preempt``"""
    mode: Mode = Mode.OFF
    grace_ns: int = 0
    exempt_ns: int = 0
    priority: int = 0
    """Jobs of a lower one are victims first; under ``orders_by_qos`` those of a higher one are looked at first, within
    their tier."""


class Settings(Frozen):
    """What ``slurm.conf`` says about scheduling."""

    preempts: bool = False
    """Whether PreemptType is ``preempt/partition_prio`` or ``preempt/qos``."""
    gang: bool = False
    """Whether PreemptMode has ``GANG``."""
    exempt_ns: int = 0
    """``PreemptExemptTime``: how long a job runs before it can be a victim."""
    time_slice_ns: _Some = 30 * SECOND_NS
    """``SchedulerTimeSlice``: how long a job runs before another of its tier has its turn."""
    cred_expire_ns: int = 120 * SECOND_NS
    """``AuthInfo=cred_expire``: how long a requeued job waits at least."""
    sched_interval_ns: _Some = MINUTE_NS
    """How often the main scheduler runs when nothing has happened."""
    sched_min_interval_ns: int = 2000
    batch_sched_delay_ns: int = 3 * SECOND_NS
    """How long batch jobs may wait for a run of the main scheduler."""
    default_queue_depth: int = 100
    """How many jobs the main scheduler looks at, but every ``sched_interval``, when it looks at all."""
    backfills: bool = True
    """Whether SchedulerType is ``sched/backfill``."""
    bf_interval_ns: _Some = 30 * SECOND_NS
    bf_window_ns: int = DAY_NS
    """How far ahead backfill plans."""
    bf_resolution_ns: int = MINUTE_NS
    """Planned ends are rounded up to this."""
    bf_max_job_test: int = 500
    orders_by_qos: bool = False
    """Whether ``PriorityWeightQOS`` is above 0, under priority/multifactor: the priority of a QOS orders its jobs."""
    youngest_first: bool = False
    """``preempt_youngest_first``: the last to start is the first to go."""
    strict_order: bool = False
    """``preempt_strict_order``: victims are not reordered to make them fewer."""
    reorder_count: int = 1
    """``preempt_reorder_count``: how many other orders of the victims are tried."""


class Cluster(Frozen):
    """Nodes with their CPUs, partitions, and settings."""

    nodes: Mapping[str, int]
    partitions: tuple[Partition, ...]
    settings: Settings = Settings()
    qos: tuple[Qos, ...] = ()
    """If there are any, they say who may preempt whom, and how (``preempt/qos``); else the partitions do."""
    resources: Mapping[str, Mapping[str, int]] = {}
    """What jobs consume on a node beside CPUs, by its name in TRES: ``mem`` in MiB, ``gres/gpu``, ``gres/gpu:a100``."""

    def partition(self, name: str) -> Partition:
        """The partition called ``name``.  Raises KeyError."""
        return {each.name: each for each in self.partitions}[name]

    def can_hold(self, partition: str, nodes: int, cpus: int, resources: Mapping[str, int] | None = None) -> bool:
        """Whether a job of this size fits on the empty nodes of its partition; Slurm refuses others.

        Raises:
            KeyError: there is no such partition.
        """

        def fits(node: str) -> bool:
            has = self.resources.get(node, {})
            return self.nodes[node] >= cpus and all(has.get(name, 0) >= n for name, n in (resources or {}).items())

        return sum(map(fits, self.partition(partition).nodes)) >= nodes


class SlurmDetails(Details, Frozen, tag_field="kind", tag="slurm"):
    """What a job is to Slurm, beside its partition, which is its queue, and its tasks, of which each node has one."""

    limit_ns: int | None = None
    """Its time limit; None: the partition's."""
    qos: str = ""
    eligible_ns: int = 0
    """It may not start before."""


class Job(Frozen):
    """A rigid job: it runs on so many nodes at once, with so many CPUs of each, or not at all."""

    name: str
    partition: str
    nodes: _Some
    cpus: _Some
    """On each node."""
    length_ns: _Some
    """How long it works, without the time in which it is stopped."""
    submit_ns: Annotated[int, Meta(ge=0)] = 0
    limit_ns: int | None = None
    """Its time limit; null: the partition's."""
    priority: int = 0
    """Within its tier, higher first; then in the order of submission."""
    qos: str = ""
    resources: Mapping[str, int] = {}
    """What it asks for on each node beside CPUs, as ``Cluster.resources``; of these names only."""
    eligible_ns: int = 0
    """It may not start before (sacct's ``Eligible``: a dependency, ``--begin``, a hold)."""

    @property
    def details(self) -> SlurmDetails:
        """What it is to Slurm, beside what it is to all."""
        return SlurmDetails(self.limit_ns, self.qos, self.eligible_ns)


TURNS = "jobs of one partition take turns when a QOS suspends another, which is not modelled: they wait"


def turn_takers(cluster: Cluster, jobs: Iterable[Job]) -> list[Job]:
    """The jobs whose QOS suspends that of other jobs of their partition: Slurm gives both turns (slurm.conf(5),
    PreemptMode)."""
    jobs = [*jobs]
    suspended = {each.name for each in cluster.qos if each.mode is Mode.SUSPEND}
    victims = {each.name: suspended.intersection(each.preempts) for each in cluster.qos}
    there = {(job.partition, job.qos) for job in jobs}
    return [job for job in jobs if any((job.partition, qos) in there for qos in victims.get(job.qos, ()))]


class Slurm(Frozen):
    """What natjam knows of a site.  Times count from the first submission.

    Raises ValueError if two jobs have one name, or a node, a partition or a QOS is unknown.
    """

    cluster: Cluster
    jobs: tuple[Job, ...] = ()
    basis: Basis = Basis()

    def __post_init__(self) -> None:
        partitions = {each.name for each in self.cluster.partitions}
        qos = {each.name for each in self.cluster.qos} or {""}
        for partition in self.cluster.partitions:
            if unknown := [node for node in partition.nodes if node not in self.cluster.nodes]:
                raise ValueError(f"cluster.partitions: {partition.name}: there is no node '{unknown[0]}'")
        refuse_twice("jobs", (job.name for job in self.jobs))
        for job in self.jobs:
            if job.partition not in partitions:
                raise ValueError(f"jobs: {job.name}: there is no partition '{job.partition}'")
            if job.qos not in qos:
                raise ValueError(f"jobs: {job.name}: there is no QOS '{job.qos}'")

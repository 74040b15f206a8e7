"""A site with Slurm: nodes, partitions, QOS and associations, the settings of ``slurm.conf``, and rigid jobs.

Times are nanoseconds, memory is in Slurm's megabytes.  Names and defaults are those of Slurm 22.05's documents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from functools import cache
from operator import le
from typing import Annotated

from msgspec import Meta, field

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


Amounts = tuple[int, ...]
"""So much of each of a cluster's resources, in their order (``Cluster.resources``)."""
CPU, MEMORY, NODE = "cpu", "mem", "node"
"""Names of TRES, beside those of GRES such as ``gpu`` and ``gpu:a100``."""
WHOLE = "whole"
"""A resource that stands for whole nodes: a node has ``ALL_OF_IT``, a job takes one, and all if it shares no node."""
ALL_OF_IT = 1 << 20


class Node(Frozen):
    """What a node has for jobs."""

    cpus: int = 1
    memory_mb: int = 0
    """``RealMemory`` without ``MemSpecLimit``; 0 where jobs consume no memory."""
    gres: Mapping[str, int] = field(default_factory=dict)
    """By name, and by name and type: ``{gpu: 4, gpu:a100: 4}``."""
    features: tuple[str, ...] = ()
    weight: Annotated[int, Meta(ge=0)] = 1
    """``Weight``: nodes with the lowest go first."""
    sharing: _Some = 1
    """How many jobs may have each CPU at once (``OverSubscribe=FORCE:n``).  Under ``GANG`` they take turns."""


class Limits(Frozen):
    """Limits of a QOS, a partition's QOS or an association; what is not there is not limited.

    TRES are ``cpu``, ``mem`` (megabytes), ``node``, and GRES by name.
    """

    group_tres: Mapping[str, int] = field(default_factory=dict)
    """``GrpTRES``: of all its jobs together."""
    group_jobs: int | None = None
    """``GrpJobs``"""
    user_tres: Mapping[str, int] = field(default_factory=dict)
    """``MaxTRESPerUser``"""
    user_jobs: int | None = None
    """``MaxJobsPerUser``; of an association ``MaxJobs``."""
    account_tres: Mapping[str, int] = field(default_factory=dict)
    """``MaxTRESPerAccount``"""
    account_jobs: int | None = None
    """``MaxJobsPerAccount``"""
    job_tres: Mapping[str, int] = field(default_factory=dict)
    """``MaxTRES``: of each job."""
    wall_ns: int | None = None
    """``MaxWall``: the longest time limit of a job."""
    group_run_minutes: Mapping[str, int] = field(default_factory=dict)
    """``GrpTRESRunMins``: TRES times the minutes that are left of the time limits of its running jobs."""


NO_LIMITS = Limits()


class Association(Frozen):
    """An account, or a user in an account, as ``sacctmgr show assoc`` has them."""

    account: str
    user: str = ""
    """Blank: the account itself."""
    parent: str = ""
    """The account that an account is in; blank: none."""
    shares: int | None = 1
    """``Share``; None: ``parent``, it shares what its account has."""
    limits: Limits = NO_LIMITS
    priority: int = 0
    """It orders the queue by ``PriorityWeightAssoc``."""


class Weights(Frozen):
    """What the parts of a job's priority weigh (``priority/multifactor``), each ``PriorityWeight...``."""

    age: int = 0
    assoc: int = 0
    fair_share: int = 0
    job_size: int = 0
    partition: int = 0
    qos: int = 0
    tres: Mapping[str, float] = field(default_factory=dict)
    max_age_ns: int = 7 * DAY_NS
    """``PriorityMaxAge``: the age beyond which it counts no more."""
    calc_period_ns: _Some = 5 * MINUTE_NS
    """``PriorityCalcPeriod``"""
    half_life_ns: int = 7 * DAY_NS
    """``PriorityDecayHalfLife``; 0: usage does not decay."""
    favors_small: bool = False
    """``PriorityFavorSmall``"""
    flags: tuple[str, ...] = ()
    """``PriorityFlags``, in lower case."""
    dampening: _Some = 1
    """``FairShareDampeningFactor``"""


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
    max_ns: int | None = None
    """``MaxTime``; None: unlimited."""
    max_nodes: int | None = None
    """``MaxNodes`` of a job; None: unlimited."""
    job_factor: int = 1
    """``PriorityJobFactor``"""
    qos: str = ""
    """``QOS``: whose limits hold for its jobs, before those of their own QOS."""
    billing: Mapping[str, float] = field(default_factory=dict)
    """``TRESBillingWeights``: what usage counts, by TRES; ``mem`` for each megabyte.  Empty: CPUs."""


class Qos(Frozen):
    """A Quality of Service: which others its jobs may preempt, and what happens to them when they are preempted."""

    name: str
    preempts: tuple[str, ...] = ()
    """``Preempt``"""
    mode: Mode = Mode.OFF
    grace_ns: int = 0
    exempt_ns: int = 0
    priority: int = 0
    """It orders the queue by ``PriorityWeightQOS``."""
    limits: Limits = NO_LIMITS
    usage_factor: float = 1.0
    """``UsageFactor``: how much the usage of its jobs counts for fair share."""


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
    bf_window_linear_ns: int = 0
    """By how much longer each span of running jobs is that a plan takes away at once; 0: each is twice as long."""
    bf_resolution_ns: int = MINUTE_NS
    """Planned ends are rounded up to this."""
    bf_max_job_test: int = 500
    qos_preempt: bool = True
    """Whether QOS, if there are any, say who may preempt whom (``preempt/qos``), or partitions."""
    weights: Weights | None = None
    """Of ``priority/multifactor``; None: jobs are taken in the order of submission (``priority/basic``)."""
    enforces_limits: bool = False
    """Whether limits of associations and QOS hold (``AccountingStorageEnforce=limits`` or ``safe``)."""
    keeps_order_under_limits: bool = False
    """``assoc_limit_stop``: a job that waits for a limit blocks those behind it in its partition."""
    youngest_first: bool = False
    """``preempt_youngest_first``: the last to start is the first to go."""
    strict_order: bool = False
    """``preempt_strict_order``: victims are not reordered to make them fewer."""
    reorder_count: int = 1
    """``preempt_reorder_count``: how many other orders of the victims are tried."""


class Cluster(Frozen):
    """Nodes, partitions, QOS, associations and settings."""

    nodes: Mapping[str, Node]
    partitions: tuple[Partition, ...]
    settings: Settings = Settings()
    qos: tuple[Qos, ...] = ()
    """Under ``qos_preempt`` they say who may preempt whom, and how; else the partitions do."""
    associations: tuple[Association, ...] = ()

    @property
    def by_qos(self) -> bool:
        """Whether QOS say who may preempt whom."""
        return bool(self.qos) and self.settings.qos_preempt

    @property
    def resources(self) -> tuple[str, ...]:
        """The names of what jobs consume: CPUs, whole nodes, memory, GRES.

        A job that is stopped keeps what it has of them, but for CPUs and whole nodes.
        """
        gres = sorted({name for node in self.nodes.values() for name in node.gres})
        memory = (MEMORY,) if any(node.memory_mb for node in self.nodes.values()) else ()
        return CPU, WHOLE, *memory, *gres

    @property
    def sharing(self) -> Mapping[str, int]:
        """How many jobs may have each CPU of a node at once, by node.  One where jobs would take turns (``GANG``) that
        can also be ended for others, which is not modelled."""
        found, ends = {name: node.sharing for name, node in self.nodes.items()}, (Mode.REQUEUE, Mode.CANCEL)
        if self.settings.gang and self.settings.preempts:
            ends_all = self.by_qos and any(each.mode in ends for each in self.qos)
            for each in self.partitions:
                above = {node for other in self.partitions if other.tier > each.tier for node in other.nodes}
                if ends_all or (not self.by_qos and each.mode in ends and not above.isdisjoint(each.nodes)):
                    found |= dict.fromkeys(each.nodes, 1)
        return found

    def takes_turns(self, partition: Partition) -> bool:
        """Whether the jobs of a partition share CPUs in turns (``GANG``)."""
        sharing = self.sharing
        return self.settings.gang and any(sharing[node] > 1 for node in partition.nodes)

    def partition(self, name: str) -> Partition:
        """The partition called ``name``.  Raises KeyError."""
        return {each.name: each for each in self.partitions}[name]

    def fitting(self) -> Callable[[Job], bool]:
        """Whether a job fits on the empty nodes of its partition; Slurm refuses others.

        What is returned raises KeyError: there is no such partition.
        """
        names, partitions = self.resources, {each.name: each for each in self.partitions}
        amounts = {name: amounts_of_node(names, node) for name, node in self.nodes.items()}

        @cache
        def number(partition: str, needs: Amounts, features: str) -> int:
            nodes = (name for name in partitions[partition].nodes if fits(amounts[name], needs))
            return sum(has_features(self.nodes[name], features) for name in nodes)

        return lambda job: number(job.partition, amounts_of_job(names, job), job.features) >= job.nodes


def amounts_of_node(resources: Iterable[str], node: Node, sharing: int = 1) -> Amounts:
    """What a node has of each resource, if so many jobs may have each CPU at once."""
    has = {CPU: node.cpus * sharing, WHOLE: ALL_OF_IT * sharing, MEMORY: node.memory_mb, **node.gres}
    return tuple(has.get(name, 0) for name in resources)


def amounts_of_job(resources: Iterable[str], job: Job) -> Amounts:
    """What a job takes of each resource, of each of its nodes."""
    takes = {CPU: job.cpus, WHOLE: ALL_OF_IT if job.exclusive else 1, MEMORY: job.memory_mb, **job.gres}
    return tuple(takes.get(name, 0) for name in resources)


def fits(free: Amounts, needs: Amounts) -> bool:
    """Whether there is so much of each resource."""
    return all(map(le, needs, free))


def has_features(node: Node, wanted: str) -> bool:
    """Whether a node has the features that a job asks for (``--constraint``).

    ``&`` and ``|`` join names, from left to right, as ``sbatch``'s page has it; brackets around names group them, and
    square brackets, which ask that all nodes of the job have the same one, are read as round ones.
    """
    return not wanted or _any_of(wanted.replace(" ", "").translate(_BRACKETS), node.features)


_BRACKETS = str.maketrans("[],", "()&")


def _any_of(text: str, features: tuple[str, ...]) -> bool:
    found, joined, depth, begin = False, "|", 0, 0
    for place, sign in enumerate(text + "|"):
        depth += (sign == "(") - (sign == ")")
        if depth or sign not in "&|":
            continue
        part = text[begin:place]
        has = _any_of(part[1:-1], features) if part.startswith("(") else part.partition("*")[0] in features
        found = found or has if joined == "|" else found and has
        joined, begin = sign, place + 1
    return found


class SlurmDetails(Details, Frozen, tag_field="kind", tag="slurm"):
    """What a job is to Slurm, beside its partition, which is its queue, and its tasks, of which each node has one."""

    limit_ns: int | None = None
    """Its time limit; None: the partition's."""
    qos: str = ""
    features: str = ""
    """``--constraint``"""
    exclusive: bool = False
    """Whether it shares no node."""
    eligible_ns: int = 0
    """When it can start at the earliest: dependencies, ``--begin`` and holds."""
    user: str = ""
    account: str = ""
    nice: int = 0
    array: str = ""
    """The array job that it is a task of; blank: none."""
    array_limit: int = 0
    """How many tasks of the array may run at once (``%n``); 0: all."""


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
    """Within its tier, higher first; then in the order of submission.  0: none is given, and ``priority/multifactor``
    calculates it."""
    qos: str = ""
    memory_mb: int = 0
    """On each node."""
    gres: Mapping[str, int] = field(default_factory=dict)
    """On each node, by name, and by name and type."""
    features: str = ""
    """This and what follows: see ``SlurmDetails``."""
    exclusive: bool = False
    eligible_ns: int = 0
    user: str = ""
    account: str = ""
    nice: int = 0
    array: str = ""
    array_limit: int = 0

    @property
    def tres(self) -> Counter[str]:
        """What it takes of all of its nodes together."""
        one = {CPU: self.cpus, MEMORY: self.memory_mb, NODE: 1, **self.gres}
        return Counter({name: amount * self.nodes for name, amount in one.items()})

    @property
    def since_ns(self) -> int:
        """When it could start at the earliest; its wait counts from then."""
        return max(self.submit_ns, self.eligible_ns)

    @property
    def details(self) -> SlurmDetails:
        """What it is to Slurm, beside what it is to all."""
        return SlurmDetails(*(getattr(self, name) for name in SlurmDetails.__struct_fields__))


ENDED_IN_TURNS = "jobs that take turns, and can be ended for others, are not modelled: here they have CPUs of their own"
TURNS = "jobs of one partition take turns when a QOS suspends another, which is not modelled: they wait"


def turn_takers(cluster: Cluster, jobs: Iterable[Job]) -> list[Job]:
    """The jobs whose QOS suspends that of other jobs of their partition: Slurm gives both turns (slurm.conf(5),
    PreemptMode)."""
    jobs = [*jobs]
    qos = cluster.qos if cluster.by_qos else ()
    suspended = {each.name for each in qos if each.mode is Mode.SUSPEND}
    victims = {each.name: suspended.intersection(each.preempts) for each in qos}
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
        qos = {each.name for each in self.cluster.qos} if self.cluster.by_qos else None
        for partition in self.cluster.partitions:
            if unknown := [node for node in partition.nodes if node not in self.cluster.nodes]:
                raise ValueError(f"cluster.partitions: {partition.name}: there is no node '{unknown[0]}'")
        refuse_twice("jobs", (job.name for job in self.jobs))
        for job in self.jobs:
            if job.partition not in partitions:
                raise ValueError(f"jobs: {job.name}: there is no partition '{job.partition}'")
            if qos is not None and job.qos not in qos:
                raise ValueError(f"jobs: {job.name}: there is no QOS '{job.qos}'")

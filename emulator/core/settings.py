"""The settings that machines are built with; ``emulator.resolved`` makes them from an experiment file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from emulator.core.messages import TaskOrder
from emulator.policies.capacity import Capacity
from emulator.policies.fit import OFFERED
from emulator.policies.mechanism import TRAITS
from emulator.policies.policy import (
    AllocationPolicy,
    FitPolicy,
    JobEviction,
    JobSelection,
    MechanismPolicy,
    PlacementPolicy,
    Policy,
    Reads,
    ResumeOrder,
    TaskEviction,
)
from emulator.policies.resources import PARTS, minus
from emulator.vocabulary import Resources, TaskGroup, Tier, Work

MEMORY = "memory_gb"
"""The resource whose amounts are also bytes."""


def memory_bytes_of(amount: int) -> int:
    """Bytes of an amount of ``MEMORY``."""
    return (amount << 30) // PARTS


_ONE_CONTAINER: dict[Work, Resources] = dict.fromkeys(Work, (PARTS,))
_ONE_SLOT: dict[Work, Resources] = {Work.SHUFFLE: (PARTS, 0), Work.KEYS: (0, PARTS), Work.MASTER: (PARTS, PARTS)}
"""What a container needs of a node with slots for maps and for reduces; an ApplicationMaster is outside of both."""


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """One worker.  All containers of a cluster have the same size, ``container_memory_bytes``; or each has the size
    that its task asks for, and nodes have ``resources``."""

    name: str
    rack: str
    containers: int
    """How many containers the node has; with ``resources``, how many of the usual size fit on it."""
    container_memory_bytes: int
    memory_bytes: int
    swap_bytes: int
    max_suspended: int
    slowness_ppm: int = 1_000_000
    """Duration of work on this node, in millionths of its normal duration; only drivers know it."""
    slots: tuple[int, int] | None = None
    """Numbers of containers for maps only and for all other tasks only; None: any container suits any task."""
    unmanaged_masters: bool = False
    """Whether an ApplicationMaster takes no container, as in Hadoop 1."""
    resources: Resources = ()
    """What containers can have of it together; empty: so many of one size."""
    resource_names: tuple[str, ...] = ()
    """The names of its resources, in the order of all vectors."""
    stopped_hold: tuple[bool, ...] = ()
    """For each resource, whether a stopped process goes on holding it."""
    labels: tuple[tuple[str, str], ...] = ()
    """Pairs (name, value) by which the file distinguishes nodes."""
    has: Resources = field(init=False, repr=False, compare=False)
    """What containers can have of it together, in thousandths: its resources; where all containers have one size, so
    many containers, or slots for maps and slots for other tasks."""
    has_names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """The names of what it has."""

    def __post_init__(self) -> None:
        has, names = self.resources, self.resource_names
        if not has:
            names = ("container",) if self.slots is None else ("map slot", "reduce slot")
            has = tuple([count * PARTS for count in self.slots or (self.containers,)])
        object.__setattr__(self, "has", has)
        object.__setattr__(self, "has_names", names)

    def needs(self, work: Work, request: Resources) -> Resources:
        """What a container for such a task needs of what the node has: what it requests, if containers have several
        sizes."""
        return request or (_ONE_CONTAINER if self.slots is None else _ONE_SLOT)[work]

    def duration_ns(self, length_ns: int) -> int:
        """Active time that work of this length takes on this node."""
        return length_ns * self.slowness_ppm // 1_000_000

    @property
    def capacity_bytes(self) -> int:
        """RAM and swap beyond a full set of containers: what stopped processes may use together."""
        return max(0, self.memory_bytes + self.swap_bytes - self.reserved_bytes)

    @property
    def reserved_bytes(self) -> int:
        """RAM that stopped processes may not use: that of a full set of containers; 0 where a stopped process goes on
        holding the memory that it has asked for."""
        if MEMORY not in self.resource_names:
            return self.containers * self.container_memory_bytes
        index = self.resource_names.index(MEMORY)
        return 0 if self.stopped_hold[index] else memory_bytes_of(self.resources[index])

    def requested_bytes(self, request: Resources) -> int:
        """Memory that a container with this request may use."""
        if MEMORY not in self.resource_names or not request:
            return self.container_memory_bytes
        return memory_bytes_of(request[self.resource_names.index(MEMORY)])

    def held_when_stopped(self, request: Resources) -> Resources:
        """What a process with this request goes on holding while it is stopped."""
        holds = self.stopped_hold or (False,) * len(request)
        return tuple([each if held else 0 for each, held in zip(request, holds, strict=True)])

    def freed_by_stop(self, request: Resources) -> Resources:
        """What a process with this request makes free when it is stopped, and needs again when it resumes."""
        return minus(request, self.held_when_stopped(request))

    def guaranteed_freed(self, request: Resources, may_stop: bool) -> Resources:
        """What taking a process with this request back makes free; ``may_stop``: it may be stopped for that."""
        return self.freed_by_stop(request) if may_stop else request


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """A queue of the capacity scheduler, in containers; in a cluster of several sizes, in millionths of the cluster.
    ``rank`` 0 is the most urgent."""

    name: str
    rank: int
    capacity: int
    maximum: int


@dataclass(frozen=True, slots=True)
class SpeculationSettings:
    """When a straggler gets a second attempt (``emulator.core.application_master.speculation``)."""

    margin_ppm: int
    """How far its rate must be below the mean of its job, in millionths of the mean."""
    after_ns: int
    """How long it must have run since it was launched or resumed."""
    at_most_ppm: int
    """Share of a job's running reduces, in millionths, that may have a second attempt at a time; one always may."""


class UpdateMode(StrEnum):
    """How what has happened reaches the ResourceManager, and what it decides the others; each is a published protocol.

    Under every one of them heartbeats come periodically too, and repeat what was lost.
    """

    HEARTBEAT = "heartbeat"
    """A node tells at its next heartbeat that a container has come free, and an ApplicationMaster learns at its own
    what it gets (natjam, section 3; YARN)."""
    OUT_OF_TURN = "out-of-turn"
    """As in heartbeats, but a node sends one out of turn when a container ends or stops (Hadoop 1:
    ``mapreduce.tasktracker.outofband.heartbeat``, MAPREDUCE-2355)."""
    AT_ONCE = "at-once"
    """Whoever has news tells it at once, and free containers are offered whenever something has changed (kube-scheduler
    and Kueue, which watch the API server; Slurm's controller).  Rounds of reclaiming keep their period."""


@dataclass(frozen=True, slots=True)
class ProtocolSettings:
    """Periods and limits of the protocol, emulated nanoseconds (natjam, section 3.2)."""

    heartbeat_ns: int
    preemptor_period_ns: int
    estimate_period_ns: int
    task_heartbeat_ns: int
    kill_timeout_ns: int
    expired_ns: int
    slow_start_ppm: int
    """Share of a job's maps, in millionths, that must be done before reduces are requested."""
    task_attempts_max: int
    am_attempts: int
    """The job fails when this many of its ApplicationMasters have failed."""
    node_blacklist_failures: int
    """Failed attempts of a job on a node before the job avoids it."""
    node_expiry_ns: int
    """A node not heard of for this long is lost."""
    speculation: SpeculationSettings | None = None
    news: UpdateMode = UpdateMode.HEARTBEAT

    @property
    def has_immediate_updates(self) -> bool:
        """Whether news are told at once."""
        return self.news is UpdateMode.AT_ONCE

    @property
    def retry_ns(self) -> int:
        """A command without a sign of effect is sent again after this time."""
        return 4 * self.heartbeat_ns


@dataclass(frozen=True, slots=True)
class OverheadSettings:
    """Totals that a profile pads to, emulated nanoseconds; 0 pads nothing (profile ``native``)."""

    schedule_ns: int = 0
    suspend_ns: int = 0
    resume_ns: int = 0
    launch_ns: int = 0
    """For a task, from the launch order to its first key; waits for containers and heartbeats come on top."""
    launch_more_ns: int = 0
    """How much longer that takes for each other job that starts in the same pass of the scheduler."""
    application_start_ns: int = 0
    """For an ApplicationMaster, in the same way."""
    cleanup_ns: int = 0
    """How long the container of a killed task stays taken by the task that removes what it has written, as in Hadoop 1
    (os-assisted-preemption, section IV-C); not at all if it has not begun its first key."""
    amrm_client: bool = False
    """Whether an ApplicationMaster talks to the ResourceManager like Hadoop's client: it asks for containers when it
    registers, and learns of the end of a container in answer to its own heartbeat.  It learns of a preemption in the
    first answer after the decision."""


@dataclass(frozen=True, slots=True)
class SpareAfter:
    """A task suspended this often within this time is no longer a victim (os-assisted-preemption, III-A)."""

    suspensions: int
    within_ns: int

    def spares(self, suspended_ns: Sequence[int], now_ns: int) -> bool:
        """Whether a task suspended at these times, the latest last, is spared."""
        return len(suspended_ns) >= self.suspensions and suspended_ns[-self.suspensions] > now_ns - self.within_ns


@dataclass(frozen=True, slots=True)
class Trigger:
    """An order for a task, given when a job reaches a progress (``emulator.core.resource_manager.triggers``)."""

    job: str
    progress_ppm: int
    """Share of that job's work done, in millionths; 0: it has started; 1,000,000: it has ended."""
    task_job: str
    """The job of the task."""
    order: TaskOrder


VICTIMS: dict[str, frozenset[Work]] = {
    "reduces": frozenset({Work.KEYS}),
    "all": frozenset({Work.SHUFFLE, Work.KEYS}),
}
"""What may be preempted, by the name in an experiment.  The papers preempt only reduces; an ApplicationMaster is never
preempted."""


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """The choice on each axis; policies are already resolved."""

    allocation: AllocationPolicy
    job_selection: Policy[JobSelection]
    job_eviction: Policy[JobEviction]
    task_eviction: Policy[TaskEviction]
    mechanism: MechanismPolicy
    placement: PlacementPolicy
    resume_order: Policy[ResumeOrder]
    queues: tuple[QueueSettings, ...]
    victims: frozenset[Work] = VICTIMS["reduces"]
    """What tasks do that may be victims, unless their group says otherwise."""
    epoch_ns: int = 500_000_000
    """How long shares hold, for allocations that give shares."""
    triggers: tuple[Trigger, ...] = ()
    spare_after: SpareAfter | None = None
    fit: FitPolicy = OFFERED

    def may_take(self, group: TaskGroup) -> bool:
        """Whether tasks of the group may be victims."""
        return group.work in self.victims if group.may_be_victim is None else group.may_be_victim

    @property
    def preemption_order(self) -> Policy[JobSelection]:
        """Order in which jobs of one queue may take containers from each other: that of the job eviction if it has one,
        else that of the job selection."""
        return self.job_eviction.dictates or self.job_selection

    @property
    def preempts(self) -> bool:
        """Whether containers are ever reclaimed."""
        return any(TRAITS[mechanism].frees_slot for mechanism in self.mechanism.among)

    @property
    def order_is_fixed(self) -> bool:
        """Whether the order of two jobs never changes, neither for giving containers nor for taking them."""
        return self.job_selection.sort_key is not None and self.preemption_order.sort_key is not None

    @property
    def reports_progress(self) -> bool:
        """Whether ApplicationMasters report progress, because a policy about jobs reads it."""
        jobs = (self.allocation, self.job_selection, self.preemption_order, self.job_eviction)
        return any(Reads.PROGRESS in policy.reads for policy in jobs)


@dataclass(frozen=True, slots=True)
class AvailabilitySettings:
    """What a transactional workload leaves of the cluster (reverse-adaptive, section III)."""

    capacity: Capacity
    """Containers that jobs may hold."""
    forecast: Capacity
    """Their number in the future, as allocations are told."""
    grace_ns: int
    """How long jobs may take to give up containers that the transactional workload wants."""

    def settled_ns(self, since_ns: int) -> int:
        """The time until which a cluster without any move since then may still be waiting for containers."""
        period_ns = self.capacity.period_ns
        return self.capacity.steps[-1][0] if period_ns is None else since_ns + period_ns


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that the machines of one run share."""

    seed: int
    protocol: ProtocolSettings
    overheads: OverheadSettings
    scheduler: SchedulerSettings
    nodes: tuple[NodeSettings, ...]
    tier: Tier | None = None
    """The storage device of every node; None: no images are made."""
    availability: AvailabilitySettings | None = None
    """What a transactional workload leaves; None: all containers are always available to jobs."""
    marks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Rising shares of each job's work, in millionths, that a trigger or another job's submission waits for."""
    master_request: Resources = ()
    """What an ApplicationMaster in a container asks for; empty where all containers have one size."""
    nodes_by_name: dict[str, NodeSettings] = field(init=False, repr=False, compare=False)
    own_slots: bool = field(init=False, repr=False, compare=False)
    """Whether maps and reduces have slots of their own, on some node at least."""

    @property
    def unmanaged_masters(self) -> bool:
        """Whether an ApplicationMaster takes no container, as in Hadoop 1."""
        return self.nodes[0].unmanaged_masters

    @property
    def has_sizes(self) -> bool:
        """Whether containers have the sizes that they ask for, instead of one."""
        return bool(self.nodes[0].resources)

    @property
    def kill_after_ns(self) -> int:
        """How long the Preemptor waits for a container that a transactional workload wants before it has one killed.

        A step is recorded a run later, the timeout is over another run later, and the end of the container known a
        heartbeat after that: all within the grace.
        """
        grace_ns = 0 if self.availability is None else self.availability.grace_ns
        return max(0, grace_ns - 2 * self.protocol.preemptor_period_ns - self.protocol.heartbeat_ns)

    def __post_init__(self) -> None:
        object.__setattr__(self, "nodes_by_name", {node.name: node for node in self.nodes})
        object.__setattr__(self, "own_slots", any(node.slots is not None for node in self.nodes))

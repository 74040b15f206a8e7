"""The numbers and choices a machine is built with; made from an experiment file by ``emulator.assemble``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from emulator.core.messages import TaskOrder
from emulator.policies.policy import (
    AllocationPolicy,
    JobEviction,
    JobSelection,
    MechanismPolicy,
    PlacementPolicy,
    Policy,
    Reads,
    ResumeOrder,
    TaskEviction,
)
from emulator.vocabulary import Kind, Mechanism, Tier


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """One worker.  All containers of a cluster have one size, ``container_memory_bytes``."""

    name: str
    rack: str
    containers: int
    container_memory_bytes: int
    memory_bytes: int
    swap_bytes: int
    max_suspended: int
    slowness_ppm: int = 1_000_000
    """How long work takes here, in millionths of what it should take; only drivers know."""
    slots: tuple[int, int] | None = None
    """Containers for maps only and for reduces only, together all there are; None: each will do for anything."""
    masters_outside: bool = False
    """Whether an ApplicationMaster takes no container, as in Hadoop 1."""

    def duration_ns(self, length_ns: int) -> int:
        """Active time that work of this length takes here."""
        return length_ns * self.slowness_ppm // 1_000_000

    @property
    def room_bytes(self) -> int:
        """RAM and swap beside a full set of containers: what stopped processes may hold together."""
        return max(0, self.memory_bytes + self.swap_bytes - self.containers * self.container_memory_bytes)

    def charged_bytes(self, memory_bytes: int | None) -> int:
        """What a task that holds ``memory_bytes`` is charged with: all of its container where that is not known."""
        return self.container_memory_bytes if memory_bytes is None else memory_bytes


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """A queue of the capacity scheduler, in containers.  ``rank`` 0 is the most urgent."""

    name: str
    rank: int
    capacity: int
    maximum: int


@dataclass(frozen=True, slots=True)
class SpeculationSettings:
    """When a straggler gets a second attempt (``emulator.core.speculation``)."""

    margin_ppm: int
    """By how much its rate is below the mean of its job, in millionths of that."""
    after_ns: int
    """How long it must have run since its launch or resume."""
    at_most_ppm: int
    """Share of a job's running reduces, in millionths, that may have a second attempt at a time; one may always."""


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
    """Share of a job's maps, in millionths, that must be done before reduces are asked for."""
    task_attempts_max: int
    am_attempts: int = 2
    """ApplicationMasters of a job that may fail before it does."""
    node_blacklist_failures: int = 3
    """Failed attempts of a job on a node before the job avoids it."""
    node_expiry_ns: int = 600_000_000_000
    """A node not heard of for so long is lost."""
    speculation: SpeculationSettings | None = None

    @property
    def retry_ns(self) -> int:
        """After this long without a sign a command is sent again."""
        return 4 * self.heartbeat_ns


@dataclass(frozen=True, slots=True)
class OverheadSettings:
    """Totals that a profile pads to, emulated nanoseconds; 0 pads nothing (profile ``native``)."""

    schedule_ns: int = 0
    suspend_ns: int = 0
    resume_ns: int = 0
    launch_ns: int = 0
    """Of a task, from the order to launch it to its first key: waits for containers and heartbeats come on top."""
    application_start_ns: int = 0
    """Of an ApplicationMaster, likewise."""
    amrm_client: bool = False
    """Whether an ApplicationMaster speaks to the ResourceManager as Hadoop's client does: it asks as it registers, and
    hears of the end of a container in answer to its own heartbeat."""


@dataclass(frozen=True, slots=True)
class SpareAfter:
    """A task that has been suspended so often within such a time is no victim (os-assisted-preemption, III-A)."""

    suspensions: int
    within_ns: int

    def spares(self, suspended_ns: Sequence[int], now_ns: int) -> bool:
        """Whether a task is spared that was suspended at these instants, the last one last."""
        return len(suspended_ns) >= self.suspensions and suspended_ns[-self.suspensions] > now_ns - self.within_ns


@dataclass(frozen=True, slots=True)
class Trigger:
    """What is done to a task when a job has come so far (``emulator.core.triggers``)."""

    job: str
    progress_ppm: int
    """Share of that job's work that is done, in millionths; 0: it has begun; 1,000,000: it has ended."""
    task_job: str
    """The job of the task."""
    order: TaskOrder


VICTIMS: dict[str, frozenset[Kind]] = {
    "reduces": frozenset({Kind.REDUCE}),
    "all": frozenset({Kind.MAP, Kind.REDUCE}),
}
"""What may be preempted, by the name it has in an experiment: reduces alone are the papers' choice; an
ApplicationMaster never is."""


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """The choice on each axis, policies already resolved."""

    allocation: AllocationPolicy
    job_selection: Policy[JobSelection]
    job_eviction: Policy[JobEviction]
    task_eviction: Policy[TaskEviction]
    mechanism: MechanismPolicy
    placement: PlacementPolicy
    resume_order: Policy[ResumeOrder]
    queues: tuple[QueueSettings, ...]
    victims: frozenset[Kind] = VICTIMS["reduces"]
    """What may be a victim."""
    epoch_ns: int = 500_000_000
    """How long the shares of an allocation that gives shares hold."""
    triggers: tuple[Trigger, ...] = ()
    spare_after: SpareAfter | None = None

    @property
    def preemption_order(self) -> Policy[JobSelection]:
        """Order in which jobs of one queue may take containers from each other: that of the job eviction where it goes
        by one, else that of the job selection."""
        return self.job_eviction.dictates or self.job_selection

    @property
    def preempts(self) -> bool:
        """Whether containers are ever taken back."""
        return self.mechanism.among != {Mechanism.WAIT}

    @property
    def order_is_fixed(self) -> bool:
        """Whether the order of two jobs never changes, neither for what is given nor for what is taken."""
        return self.job_selection.sort_key is not None and self.preemption_order.sort_key is not None

    @property
    def reports_progress(self) -> bool:
        """Whether ApplicationMasters report the progress of their jobs, because a policy of jobs reads it."""
        jobs = (self.allocation, self.job_selection, self.preemption_order, self.job_eviction)
        return any(Reads.PROGRESS in policy.reads for policy in jobs)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything the machines of one run share."""

    seed: int
    protocol: ProtocolSettings
    overheads: OverheadSettings
    scheduler: SchedulerSettings
    nodes: tuple[NodeSettings, ...]
    tier: Tier | None = None
    """Of every node's storage device; None: no images are made."""
    marks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """By job: shares of its work, in millionths and rising, that a trigger or another job's submission waits for."""
    nodes_by_name: dict[str, NodeSettings] = field(init=False, repr=False, compare=False)

    @property
    def preemptor_period_ns(self) -> int:
        """From one run of what takes containers back to the next."""
        pace = self.scheduler.allocation.paced
        return self.protocol.preemptor_period_ns if pace is None else pace.interval_ns

    def __post_init__(self) -> None:
        object.__setattr__(self, "nodes_by_name", {node.name: node for node in self.nodes})

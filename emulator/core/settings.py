"""The numbers and choices a machine is built with; made from an experiment file by ``emulator.assemble``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from emulator.core.messages import Mechanism
from emulator.policies.views import AllocationPolicy, JobEvictionPolicy, JobSelectionPolicy, JobView, TaskEvictionPolicy


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

    def duration_ns(self, length_ns: int) -> int:
        """Active time that work of this length takes here."""
        return length_ns * self.slowness_ppm // 1_000_000

    @property
    def suspended_limit(self) -> int:
        """Stopped processes it can hold: their memory is charged to RAM and swap beyond the running containers'."""
        room_bytes = self.memory_bytes + self.swap_bytes - self.containers * self.container_memory_bytes
        return max(0, min(self.max_suspended, room_bytes // self.container_memory_bytes))


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
    placement_delay_ns: int
    """How long a resuming reduce holds out for its old node when that has no room."""
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


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """The choice on each axis, policies already resolved to functions."""

    allocation: AllocationPolicy
    job_selection: JobSelectionPolicy
    preemption_order: JobSelectionPolicy
    """Order in which jobs of one queue may take containers from each other: that of the job eviction where it goes by
    one, else that of the job selection."""
    job_eviction: JobEvictionPolicy
    task_eviction: TaskEvictionPolicy
    mechanism: Mechanism
    queues: tuple[QueueSettings, ...]
    selection_key: Callable[[JobView], Any] | None = None
    """What the job selection sorts by, where that never changes of a job; None: the job selection must be asked."""
    preemption_order_is_fixed: bool = False
    """Whether the preemption order of two jobs never changes."""
    reports_progress: bool = False
    """Whether ApplicationMasters report the progress of their jobs."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything the machines of one run share."""

    seed: int
    protocol: ProtocolSettings
    overheads: OverheadSettings
    scheduler: SchedulerSettings
    nodes: tuple[NodeSettings, ...]
    nodes_by_name: dict[str, NodeSettings] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "nodes_by_name", {node.name: node for node in self.nodes})

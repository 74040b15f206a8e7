"""What an operator sets of YARN's CapacityScheduler and its preemption policy (Hadoop 3.4)."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import Annotated

import msgspec

from emulator.policies.yarn.users import QueueLimits
from emulator.vocabulary import Frozen

MEMORY = "memory_gb"
ROOT = "root"
"""The queue that all others are in."""

_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class YarnPreemption(Frozen):
    """``yarn.resourcemanager.monitor.capacity.preemption.*``; the defaults are Hadoop's once preemption is on."""

    interval_s: Annotated[float, msgspec.Meta(ge=1e-3, le=1e8)] = 3.0
    """``monitoring_interval``: time between two rounds."""
    max_wait_before_kill_s: Annotated[float, msgspec.Meta(ge=0, le=1e8)] = 15.0
    """How long a container stays on the list before it is taken."""
    total_preemption_per_round: _Share = 0.1
    """Share of the cluster that one round may ask back."""
    natural_termination_factor: _Share = 0.2
    """Share of a queue's excess that one round asks back."""
    max_ignored_over_capacity: Annotated[float, msgspec.Meta(ge=0, le=1e6)] = 0.1
    """Tolerated excess above a guarantee, as a share of the guarantee."""
    intra_queue: bool = False
    """``intra-queue-preemption.enabled``; the order policy is ``priority_first``."""
    intra_queue_max_allowable_limit: _Share = 0.2
    """Share of a queue's guarantee that one round may move between its jobs."""
    intra_queue_minimum_threshold: _Share = 0.5
    """Share of its guarantee that a queue must use before its jobs take from each other."""

    select_based_on_reserved_containers: bool = False
    """Whether a round first makes room for what is reserved, on the nodes where it is."""
    additional_res_balance_based_on_reserved_containers: bool = False
    """Whether what is reserved counts as wanted, and containers are not expected to end by themselves."""

    cluster_utilization_threshold: _Share = 0.0
    """The FairScheduler's ``preemption.cluster-utilization-threshold``: nothing is taken while less is used of each
    resource of the cluster."""
    observe_only: bool = False
    """Whether nothing is taken: the rounds only observe."""

    @property
    def interval_ns(self) -> int:
        """Time between two rounds."""
        return int(Decimal(str(self.interval_s)) * 10**9)

    @property
    def wait_ns(self) -> int:
        """How long a container stays on the list before it is taken."""
        return int(Decimal(str(self.max_wait_before_kill_s)) * 10**9)


class YarnParent(Frozen):
    """A queue of queues: what one of them leaves unused goes to the others in it first."""

    queues: tuple[str, ...]
    """The names of its queues: of those that have jobs, and of other parents."""
    maximum: _Share = 1.0
    """The largest share of the cluster that they may hold together."""


class YarnQueue(Frozen):
    """What is set of a queue with jobs."""

    capacity: float = 0.0
    """The share of the cluster that it is guaranteed."""
    maximum: float = 1.0


class FairQueue(Frozen):
    """What the FairScheduler's allocation file says of a queue, beside its maximum; None: what it says of the queue
    above, and of the root never, or half."""

    weight: Annotated[float, msgspec.Meta(ge=0)] = 1.0
    min_share: _Share = 0.0
    """``minResources``, as a share of the cluster's memory."""
    min_share_preemption_timeout_s: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """How long it is below its minimum before it preempts."""
    fair_share_preemption_timeout_s: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """How long it is below the threshold of its fair share before it preempts."""
    fair_share_preemption_threshold: _Share | None = None

    def inside(self, above: FairQueue) -> FairQueue:
        """The same in a queue that says this."""
        inherited = (
            "min_share_preemption_timeout_s",
            "fair_share_preemption_timeout_s",
            "fair_share_preemption_threshold",
        )
        unset = {name: getattr(above, name) for name in inherited if getattr(self, name) is None}
        return msgspec.structs.replace(self, **unset)


class OrderingPolicy(StrEnum):
    """``ordering-policy``: the order of the applications of a queue, or of the queues of a parent."""

    FIFO = "fifo"
    FAIR = "fair"
    UTILIZATION = "utilization"
    PRIORITY_UTILIZATION = "priority-utilization"
    DRF = "drf"
    """Of the FairScheduler: by dominant shares."""


class YarnQueueSettings(QueueLimits):
    """What else is set of a queue, of a parent, or of ``root``."""

    ordering_policy: OrderingPolicy | None = None
    """None: ``fifo`` for applications, ``utilization`` for queues."""
    priority: int = 0
    """Under ``priority-utilization`` of its parent; also of the preemption policy."""
    disable_preemption: bool = False
    """Whether nothing is taken from it for other queues; the queues in it have it, too."""
    fair: FairQueue | None = None
    """Under the FairScheduler, which decides if ``root`` has this."""


class YarnOptions(Frozen):
    """The keys of ``name: yarn-capacity``."""

    offswitch_per_heartbeat: Annotated[int, msgspec.Meta(ge=1)] = 1
    """``per-node-heartbeat.maximum-offswitch-assignments``: most containers given out per heartbeat of a node."""
    preemption: YarnPreemption | None = YarnPreemption()
    """None: the scheduling monitor is off, which is Hadoop's default."""
    parents: dict[str, YarnParent] = msgspec.field(default_factory=dict)
    """The queues that have queues and no jobs, by name; each queue is in one of them, or in the root."""
    disable_preemption: tuple[str, ...] = ()
    """The queues with jobs from which nothing is taken for other queues."""
    settings: dict[str, YarnQueueSettings] = msgspec.field(default_factory=dict)
    """What else is set of queues and parents, by name."""
    queues: dict[str, YarnQueue] = msgspec.field(default_factory=dict)
    """The queues with jobs."""
    minimum_allocation: dict[str, float] = msgspec.field(default_factory=lambda: {MEMORY: 1.0, "cpu": 1.0})
    """``minimum-allocation``: the smallest container, where they have several sizes.  A node that has less free gets
    nothing."""

    @property
    def admits_masters(self) -> bool:
        """Whether each queue with jobs has a limit of its ApplicationMasters."""
        given = (self.settings.get(name) for name in self.queues)
        return bool(self.queues) and all(each and each.maximum_am_resource_percent is not None for each in given)

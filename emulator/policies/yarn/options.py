"""What an operator sets of YARN's preemption policy (Hadoop 3.4, ``ProportionalCapacityPreemptionPolicy``)."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

import msgspec

from emulator.vocabulary import Frozen

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

    @property
    def interval_ns(self) -> int:
        """See ``emulator.policies.policy.Pace``."""
        return int(Decimal(str(self.interval_s)) * 10**9)

    @property
    def wait_ns(self) -> int:
        """See ``emulator.policies.policy.Pace``."""
        return int(Decimal(str(self.max_wait_before_kill_s)) * 10**9)


class YarnParent(Frozen):
    """A queue of queues: what one of them leaves unused goes to the others in it first."""

    queues: tuple[str, ...]
    """The names of its queues: of those that have jobs, and of other parents."""
    maximum: _Share = 1.0
    """The largest share of the cluster that they may hold together."""

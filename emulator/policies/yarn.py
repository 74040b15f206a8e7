"""YARN's CapacityScheduler and its ProportionalCapacityPreemptionPolicy (Hadoop 3.4).

Each queue is guaranteed its capacity and may grow to its maximum.  The queue with the least used / guaranteed is served
first.  Once per interval the preemption policy computes the *ideal assignment* of each queue.  First each queue gets
what it holds, up to its guarantee.  The rest is shared in proportion to the guarantees, the most underserved queue
first, up to the larger of its guarantee and what it holds.  What a queue holds beyond its ideal assignment is asked
back, with these limits:

- one round asks back at most ``total_preemption_per_round`` of the cluster;
- of that, only the share ``natural_termination_factor``, because containers also end by themselves;
- nothing from a queue that is at most ``max_ignored_over_capacity`` above its guarantee.

The policy names the containers: those of the last job first.  A container that stays on the list for
``max_wait_before_kill`` is taken.  With ``intra_queue``, the jobs of a queue also take from those of lower priority
(``priority_first``: natjam has no users to limit).  ApplicationMasters are exempt, and so are maps, as everywhere in
natjam.

Where containers have several sizes, all amounts are vectors, compared as YARN's DominantResourceCalculator does
(``emulator.policies.yarn_ideal``), and a container must fit its node in all resources.  Hadoop's default, the
DefaultResourceCalculator, sees memory only and lets nodes have more containers than cores: so does a cluster whose
nodes have no resource but memory, as ``natjam import yarn`` makes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any

import msgspec

from emulator.policies.job_selection import PRIORITY, by_priority
from emulator.policies.policy import PacedAllocation
from emulator.policies.queues import most_underserved
from emulator.policies.resources import lacking, minus
from emulator.policies.views import AllocationDecision, ClusterView, JobView, Take
from emulator.policies.yarn_ideal import Amounts, Need, assign_ideal, between_jobs, scale_of
from emulator.vocabulary import Frozen, Resources

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
    """``intra-queue-preemption.enabled``."""
    intra_queue_max_allowable_limit: _Share = 0.2
    """Share of a queue's guarantee that one round may move between its jobs."""
    intra_queue_minimum_threshold: _Share = 0.5
    """Share of its guarantee that a queue must use before its jobs take from each other."""

    @property
    def interval_ns(self) -> int:
        """See ``emulator.policies.policy.Pace``."""
        return int(Decimal(str(self.interval_s)) * 10**9)

    @property
    def wait_ns(self) -> int:
        """See ``emulator.policies.policy.Pace``."""
        return int(Decimal(str(self.max_wait_before_kill_s)) * 10**9)

    def takes(self, view: ClusterView) -> tuple[Take, ...]:
        """What this round asks back, and from which jobs."""
        amounts = Amounts.of(view)
        needs = [Need.of(queue, amounts) for queue in view.queues]
        assign_ideal(needs, amounts)
        allowed = left = amounts.part(amounts.whole, _exact(self.total_preemption_per_round))
        scale = scale_of(needs, allowed, amounts)
        takes: list[Take] = []
        for need in needs:
            need.asked = self._asked(need, scale, amounts)
            left = lacking(left, need.asked)
            takes += _take(_last_first(view, need.name), need.asked, allowed)
        for need in needs if self.intra_queue else ():
            jobs, gives = self._within(need, _last_first(view, need.name), left, amounts)
            left = lacking(left, gives)
            takes += _take(jobs, gives, allowed, enough_of_any=True)
        return tuple(takes)

    def _asked(self, need: Need, scale: Fraction, amounts: Amounts) -> Resources:
        """What is asked back of a queue."""
        if not amounts.more(need.used, amounts.part(need.guaranteed, 1 + _exact(self.max_ignored_over_capacity))):
            return amounts.none
        least = amounts.larger(amounts.smaller(need.wanted, need.guaranteed), need.ideal)
        if not amounts.more(need.used, least):
            return amounts.none
        wanted = amounts.part(minus(need.used, least), scale)
        by = _exact(self.natural_termination_factor)
        return lacking(amounts.part_up(wanted, [by] * len(wanted)), amounts.none)

    def _within(
        self, need: Need, jobs: list[JobView], allowed: Resources, amounts: Amounts
    ) -> tuple[list[JobView], Resources]:
        """The jobs of a queue that give to jobs of higher priority, and how much in total."""
        threshold = amounts.part(need.guaranteed, _exact(self.intra_queue_minimum_threshold))
        if len(jobs) < 2 or not amounts.some(need.guaranteed) or amounts.more(threshold, need.used):
            return [], amounts.none
        most = amounts.part(need.guaranteed, _exact(self.intra_queue_max_allowable_limit))
        return between_jobs(need, jobs, amounts.smaller(lacking(most, need.asked), allowed), amounts)


class YarnOptions(Frozen):
    """The keys beside ``name: yarn-capacity``."""

    offswitch_per_heartbeat: Annotated[int, msgspec.Meta(ge=1)] = 1
    """``per-node-heartbeat.maximum-offswitch-assignments``: most containers given out per heartbeat of a node."""
    preemption: YarnPreemption | None = YarnPreemption()
    """None: the scheduling monitor is off, which is Hadoop's default."""

    @property
    def pace(self) -> YarnPreemption | None:
        """See ``emulator.policies.policy.PacedAllocation``."""
        return self.preemption


def yarn_capacity(view: ClusterView, options: YarnOptions) -> AllocationDecision:
    """YARN's CapacityScheduler: guaranteed capacities, the least used / guaranteed first, preemption at YARN's pace.

    The jobs of a queue are ordered by priority, then by submission.
    """
    order = most_underserved(queue for queue in view.queues if queue.used < queue.maximum)
    return AllocationDecision(order, per_heartbeat=options.offswitch_per_heartbeat)


# ---- parts ----


def _last_first(view: ClusterView, queue: str) -> list[JobView]:
    """The jobs of a queue, in reverse order of service."""
    return sorted((job for job in view.jobs.values() if job.facts.queue == queue), key=by_priority, reverse=True)


def _take(jobs: Sequence[JobView], amount: Resources, allowed: Resources, enough_of_any: bool = False) -> list[Take]:
    return [Take(tuple(job.name for job in jobs), amount, allowed, enough_of_any)] if jobs and any(amount) else []


def _exact(number: float) -> Fraction:
    """The decimal number as it was written."""
    return Fraction(str(number))


_WITH_OPTIONS: Any = yarn_capacity
YARN_CAPACITY = PacedAllocation(
    "yarn-capacity",
    _WITH_OPTIONS,
    "Hadoop 3.4, CapacityScheduler and ProportionalCapacityPreemptionPolicy",
    options=YarnOptions,
    dictates=PRIORITY,
)

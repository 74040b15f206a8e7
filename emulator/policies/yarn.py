"""YARN's CapacityScheduler and its ProportionalCapacityPreemptionPolicy (Hadoop 3.4), in containers of one size.

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

Amounts are counted in 1/1024 of a container and rounded as Hadoop rounds the megabytes of containers of 1 GB.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any

import msgspec

from emulator.policies.allocation_forms import PacedAllocation
from emulator.policies.job_selection import PRIORITY, by_priority
from emulator.policies.queue_order import most_underserved
from emulator.policies.views import AllocationDecision, ClusterView, JobView, QueueView, Take
from emulator.vocabulary import Frozen

UNIT = 1024
"""Parts of a container."""

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
        """See ``emulator.policies.allocation_forms.Pace``."""
        return int(Decimal(str(self.interval_s)) * 10**9)

    @property
    def wait_ns(self) -> int:
        """See ``emulator.policies.allocation_forms.Pace``."""
        return int(Decimal(str(self.max_wait_before_kill_s)) * 10**9)

    def takes(self, view: ClusterView) -> tuple[Take, ...]:
        """What this round asks back: numbers of containers, and from which jobs."""
        total = view.containers * UNIT
        needs = [Need.of(queue) for queue in view.queues]
        assign_ideal(needs, total)
        allowed = int(total * _exact(self.total_preemption_per_round))
        too_much = sum(max(0, need.used - need.ideal) for need in needs)
        scale = Fraction(allowed, too_much) if too_much > allowed else Fraction(1)
        takes: list[Take] = []
        for need in needs:
            need.asked = self._asked(need, scale)
            jobs = _last_first(view, need.name)
            allowed -= _take(takes, jobs, need.asked, allowed)
        for need in needs if self.intra_queue else ():
            jobs = _last_first(view, need.name)
            allowed -= _take(takes, *self._within(need, jobs, allowed), allowed)
        return tuple(takes)

    def _asked(self, need: Need, scale: Fraction) -> int:
        """What is asked back of a queue."""
        if need.used <= need.guaranteed * (1 + _exact(self.max_ignored_over_capacity)):
            return 0
        least = max(need.ideal, min(need.used + need.pending, need.guaranteed))
        wanted = int(max(0, need.used - least) * scale)
        return _up(wanted * _exact(self.natural_termination_factor))

    def _within(self, need: Need, jobs: Sequence[JobView], allowed: int) -> tuple[list[JobView], int]:
        """The jobs of a queue that give to jobs of higher priority, the lowest first, and how much in total."""
        threshold = need.guaranteed * _exact(self.intra_queue_minimum_threshold)
        if len(jobs) < 2 or not need.guaranteed or need.used < threshold:
            return [], 0
        claims = [_Claim.of(job) for job in jobs]
        left = need.used - need.asked - sum(claim.master for claim in claims)
        for claim in reversed(claims):
            ideal = min(max(0, left), claim.tasks + claim.pending)
            claim.lacks, claim.can_give = max(0, ideal - claim.tasks), max(0, claim.tasks - ideal)
            left -= ideal
        limit = int(need.guaranteed * _exact(self.intra_queue_max_allowable_limit)) - need.asked
        limit = min(max(0, limit), allowed)
        for claim in claims:
            claim.can_give = min(claim.can_give, limit)
            limit -= claim.can_give
        for high in reversed(claims):
            for low in claims:
                if low.job.facts.priority < high.job.facts.priority:
                    given = min(high.lacks, low.can_give - low.gives)
                    high.lacks -= given
                    low.gives += given
        return [claim.job for claim in claims if claim.gives], sum(claim.gives for claim in claims)


class YarnOptions(Frozen):
    """The keys beside ``name: yarn-capacity``."""

    offswitch_per_heartbeat: Annotated[int, msgspec.Meta(ge=1)] = 1
    """``per-node-heartbeat.maximum-offswitch-assignments``: most containers given out per heartbeat of a node."""
    preemption: YarnPreemption | None = YarnPreemption()
    """None: the scheduling monitor is off, which is Hadoop's default."""

    @property
    def pace(self) -> YarnPreemption | None:
        """See ``emulator.policies.allocation_forms.PacedAllocation``."""
        return self.preemption


def yarn_capacity(view: ClusterView, options: YarnOptions) -> AllocationDecision:
    """YARN's CapacityScheduler: guaranteed capacities, the least used / guaranteed first, preemption at YARN's pace.

    The jobs of a queue are ordered by priority, then by submission.
    """
    order = most_underserved(queue for queue in view.queues if queue.used < queue.maximum)
    return AllocationDecision(order, per_heartbeat=options.offswitch_per_heartbeat)


# ---- the ideal assignment ----


@dataclass(slots=True)
class Need:
    """One queue, in units."""

    name: str
    guaranteed: int
    maximum: int
    used: int
    pending: int
    ideal: int = 0
    asked: int = 0

    @classmethod
    def of(cls, queue: QueueView) -> Need:
        """From a view; requests beyond its maximum do not count."""
        pending = max(0, min(queue.pending, queue.maximum - queue.used))
        counts = (queue.capacity, queue.maximum, queue.used, pending)
        return cls(queue.name, *(count * UNIT for count in counts))

    def accept(self, offered: int) -> int:
        """Take as much of the offer as the limits allow; returns how much."""
        most = min(self.maximum, self.used + self.pending, max(self.guaranteed, self.used)) - self.ideal
        taken = max(0, min(offered, most))
        self.ideal += taken
        return taken


def assign_ideal(needs: Iterable[Need], total: int) -> None:
    """Set ``ideal`` of each queue; queues without a guarantee share what the others leave."""
    left = total
    for group in ([need for need in needs if need.guaranteed], [need for need in needs if not need.guaranteed]):
        for need in group:
            need.ideal = min(need.used, need.guaranteed)
            left -= need.ideal
        left = _share_out([need for need in group if need.ideal < need.used + need.pending], left)


def _share_out(hungry: list[Need], left: int) -> int:
    """Offer the rest until no queue takes any more; returns what remains."""
    while hungry and left > 0:
        weights = {need.name: need.guaranteed or 1 for need in hungry}
        weight_sum = sum(weights.values())
        least = min(_served(need) for need in hungry)
        first = [need for need in hungry if _served(need) == least]
        taken = [need.accept(_up(Fraction(left * weights[need.name], weight_sum))) for need in first]
        sated = {need.name for need, amount in zip(first, taken, strict=True) if not amount}
        hungry = [need for need in hungry if need.name not in sated]
        left -= sum(taken)
    return left


def _served(need: Need) -> Fraction:
    return Fraction(need.ideal, need.guaranteed) if need.guaranteed else Fraction(0)


# ---- parts ----


@dataclass(slots=True)
class _Claim:
    """One job of a queue, in units."""

    job: JobView
    master: int
    tasks: int
    pending: int
    lacks: int = 0
    can_give: int = 0
    gives: int = 0

    @classmethod
    def of(cls, job: JobView) -> _Claim:
        master = min(1, job.containers)
        return cls(job, master * UNIT, (job.containers - master) * UNIT, job.pending * UNIT)


def _last_first(view: ClusterView, queue: str) -> list[JobView]:
    """The jobs of a queue, in reverse order of service."""
    return sorted((job for job in view.jobs.values() if job.facts.queue == queue), key=by_priority, reverse=True)


def _take(takes: list[Take], jobs: Sequence[JobView], asked: int, allowed: int) -> int:
    """Add whole containers for ``asked``, rounded up; returns the part of ``allowed`` that they use."""
    count = min(_up(Fraction(asked, UNIT)), allowed // UNIT, sum(job.reclaimable for job in jobs))
    if count > 0:
        takes.append(Take(tuple(job.name for job in jobs), count))
    return max(0, count) * UNIT


def _exact(number: float) -> Fraction:
    """The decimal number as it was written."""
    return Fraction(str(number))


def _up(number: Fraction) -> int:
    return -int(-number // 1)


_WITH_OPTIONS: Any = yarn_capacity
YARN_CAPACITY = PacedAllocation(
    "yarn-capacity",
    _WITH_OPTIONS,
    "Hadoop 3.4, CapacityScheduler and ProportionalCapacityPreemptionPolicy",
    options=YarnOptions,
    dictates=PRIORITY,
)

"""YARN's CapacityScheduler as an allocation: each queue is guaranteed its capacity and may grow to its maximum.

The queue with the least used / guaranteed is served first.  Once per interval the preemption policy asks back what
queues hold beyond their ideal assignments (``ideal``), and with ``intra_queue`` the jobs of a queue also take from
those of lower priority (``victims``: natjam has no users to limit).  A container that stays on the list for
``max_wait_before_kill`` is taken.  ApplicationMasters are exempt, and so are maps, as everywhere in natjam.

Where containers have several sizes, all amounts are vectors, compared as YARN's DominantResourceCalculator does, and a
container must fit its node in all resources.  Hadoop's default, the DefaultResourceCalculator, sees memory only and
lets nodes have more containers than cores: so does a cluster whose nodes have no resource but memory, as ``natjam
import yarn`` makes it.  Where all containers have one size, an amount has one number: 1/1024 of a container, as Hadoop
counts the megabytes of containers of 1 GB.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Annotated, Any

import msgspec

from emulator.policies.job_selection import PRIORITY, by_priority
from emulator.policies.policy import PacedAllocation
from emulator.policies.queues import most_underserved
from emulator.policies.resources import PARTS, WHOLE_PPM, common, lacking, minus, plus, total
from emulator.policies.views import AllocationDecision, ClusterView, JobView, QueueView, Take
from emulator.policies.yarn.amounts import Amounts
from emulator.policies.yarn.ideal import Need, assign
from emulator.policies.yarn.options import YarnPreemption
from emulator.policies.yarn.victims import Claim, demanded
from emulator.vocabulary import Frozen, Resources

UNIT = 1024
"""Parts of a container, where all have one size."""
ONE_CONTAINER: Resources = (UNIT,)
_IN_PARTS = "memory_gb"
"""The resource that is not counted in whole numbers."""


class YarnPace(msgspec.Struct, frozen=True):
    """When and what YARN's preemption policy reclaims; see ``emulator.policies.policy.Pace``."""

    preemption: YarnPreemption

    @property
    def interval_ns(self) -> int:
        """See ``Pace``."""
        return self.preemption.interval_ns

    @property
    def wait_ns(self) -> int:
        """See ``Pace``."""
        return self.preemption.wait_ns

    def takes(self, view: ClusterView) -> tuple[Take, ...]:
        """See ``Pace``."""
        amounts = amounts_of(view)
        leaves = [_need_of(queue, amounts) for queue in view.queues]
        root = Need("root", *(amounts.whole,) * 2, amounts.none, amounts.none, children=tuple(leaves))
        allowed = left = assign(root, self.preemption, False, amounts)
        takes: list[Take] = []
        for leaf in leaves:
            obtained = lacking(leaf.to_obtain, amounts.none)
            left = lacking(left, obtained)
            takes += _take((job.name for job in _last_first(view, leaf.name)), obtained, allowed)
        for leaf in leaves if self.preemption.intra_queue else ():
            jobs = _last_first(view, leaf.name)
            claims = [_claim_of(job, amounts) for job in jobs]
            tasks = total((claim.tasks for claim in claims), amounts.none)
            awaited = (claim.pending for claim, job in zip(claims, jobs, strict=True) if not job.containers)
            masters = plus(minus(leaf.used, tasks), total(awaited, amounts.none))
            givers, amount = demanded(leaf, claims, masters, left, self.preemption, amounts)
            left = lacking(left, amount)
            takes += _take((job.name for job in jobs if job.name in givers), amount, allowed, enough_of_any=True)
        return tuple(takes)


class YarnOptions(Frozen):
    """The keys beside ``name: yarn-capacity``."""

    offswitch_per_heartbeat: Annotated[int, msgspec.Meta(ge=1)] = 1
    """``per-node-heartbeat.maximum-offswitch-assignments``: most containers given out per heartbeat of a node."""
    preemption: YarnPreemption | None = YarnPreemption()
    """None: the scheduling monitor is off, which is Hadoop's default."""

    @property
    def pace(self) -> YarnPace | None:
        """See ``emulator.policies.policy.PacedAllocation``."""
        return None if self.preemption is None else YarnPace(self.preemption)


def amounts_of(view: ClusterView) -> Amounts:
    """The amounts of the cluster as an allocation sees it."""
    nodes = [node for node in view.nodes.values() if node.resources]
    if not nodes:
        return Amounts((view.containers * UNIT,))
    names = nodes[0].resource_names
    whole = total((node.resources for node in nodes), names)
    return Amounts(whole, tuple(1 if name == _IN_PARTS else PARTS for name in names))


def yarn_capacity(view: ClusterView, options: YarnOptions) -> AllocationDecision:
    """YARN's CapacityScheduler: guaranteed capacities, the least used / guaranteed first, preemption at YARN's pace.

    The jobs of a queue are ordered by priority, then by submission.
    """
    order = most_underserved(queue for queue in view.queues if queue.used < queue.maximum)
    return AllocationDecision(order, per_heartbeat=options.offswitch_per_heartbeat)


# ---- parts ----


def _need_of(queue: QueueView, amounts: Amounts) -> Need:
    """A queue from a view; requests beyond its maximum do not count."""
    has_sizes = bool(queue.held)
    guaranteed, maximum = (
        amounts.part(amounts.whole, Fraction(count, WHOLE_PPM)) if has_sizes else (count * UNIT,)
        for count in (queue.capacity, queue.maximum)
    )
    used = queue.held or (queue.used * UNIT,)
    pending = common(queue.wanted or (queue.pending * UNIT,), lacking(maximum, used))
    return Need(queue.name, guaranteed, maximum, used, pending)


def _claim_of(job: JobView, amounts: Amounts) -> Claim:
    tasks = job.tasks_hold or ((job.containers - min(1, job.containers)) * UNIT,)
    pending = job.wanted or (job.pending * UNIT,)
    return Claim(job.name, job.facts.priority, tasks, pending, amounts.none)


def _last_first(view: ClusterView, queue: str) -> Sequence[JobView]:
    """The jobs of a queue, in reverse order of service."""
    return sorted((job for job in view.jobs.values() if job.facts.queue == queue), key=by_priority, reverse=True)


def _take(jobs: Iterable[str], amount: Resources, allowed: Resources, enough_of_any: bool = False) -> list[Take]:
    names = tuple(jobs)
    return [Take(names, amount, allowed, enough_of_any)] if names and any(amount) else []


_WITH_OPTIONS: Any = yarn_capacity
YARN_CAPACITY = PacedAllocation(
    "yarn-capacity",
    _WITH_OPTIONS,
    "Hadoop 3.4, CapacityScheduler and ProportionalCapacityPreemptionPolicy",
    options=YarnOptions,
    dictates=PRIORITY,
)

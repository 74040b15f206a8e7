"""What YARN's preemption policy computes in a round: the ideal assignment of each queue, what each is asked for, what
the jobs of a queue give each other, and which containers go (Hadoop 3.4: ``AbstractPreemptableResourceCalculator``,
``TempQueuePerPartition``, ``FifoIntraQueuePreemptionPlugin``, ``CapacitySchedulerPreemptionUtils``).

Amounts of resources as YARN's DominantResourceCalculator compares and rounds them (Hadoop 3.4).

One amount is more than another if its dominant share is larger: the largest share that it has of any resource of the
cluster; among equal ones the next share decides.  The smaller of two amounts is one of the two, whole.  What is
computed is rounded to whole numbers of each resource, and of memory to 1/1000 GB.

Where all containers have one size, an amount has one number: 1/1024 of a container, as Hadoop counts the megabytes of
containers of 1 GB.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import lcm

import msgspec

from emulator.policies.resources import PARTS, WHOLE_PPM, common, fits, lacking, minus, plus, total
from emulator.policies.views import ClusterView, JobView, QueueView, Take
from emulator.vocabulary import Resources

UNIT = 1024
"""Parts of a container, where all have one size."""
ONE_CONTAINER: Resources = (UNIT,)
_IN_PARTS = "memory_gb"
"""The resource that is not counted in whole numbers."""


class Amounts:
    """The amounts of one cluster."""

    def __init__(self, whole: Resources, steps: Resources | None = None) -> None:
        """``steps``: what computed amounts are multiples of; None: all containers have one size."""
        self.whole = whole
        """The cluster."""
        self.none: Resources = (0,) * len(whole)
        self._has_sizes = steps is not None
        self._steps = steps or (1,) * len(whole)
        common = lcm(*(each for each in whole if each))
        self._weights = tuple(common // each if each else 0 for each in whole)

    @classmethod
    def of(cls, view: ClusterView) -> Amounts:
        """Those of the cluster as an allocation sees it."""
        nodes = [node for node in view.nodes.values() if node.resources]
        if not nodes:
            return cls((view.containers * UNIT,))
        names = nodes[0].resource_names
        return cls(
            total((node.resources for node in nodes), names), tuple(1 if name == _IN_PARTS else PARTS for name in names)
        )

    def shares(self, amount: Resources) -> tuple[int, ...]:
        """Its shares of the cluster's resources, the largest first, in one unit: the order of amounts."""
        return tuple(sorted((each * weight for each, weight in zip(amount, self._weights, strict=True)), reverse=True))

    def more(self, one: Resources, other: Resources) -> bool:
        """Whether one amount is more than the other."""
        return self.shares(one) > self.shares(other)

    def some(self, amount: Resources) -> bool:
        """Whether it is more than nothing."""
        return self.more(amount, self.none)

    def smaller(self, one: Resources, other: Resources) -> Resources:
        """The smaller of two."""
        return min(one, other, key=self.shares)

    def larger(self, one: Resources, other: Resources) -> Resources:
        """The larger of two."""
        return max(one, other, key=self.shares)

    def ratio(self, one: Resources, other: Resources) -> Fraction:
        """The dominant share of one over that of the other, which is more than nothing."""
        return Fraction(self.shares(one)[0], self.shares(other)[0])

    def part(self, amount: Resources, by: Fraction) -> Resources:
        """That part of it, rounded down."""
        return tuple(int(each * by / step) * step for each, step in zip(amount, self._steps, strict=True))

    def part_up(self, amount: Resources, by: Iterable[Fraction]) -> Resources:
        """That part of each resource of it, rounded up."""
        return tuple(-(-each * part // step) * step for each, part, step in zip(amount, by, self._steps, strict=True))

    def of_queue(self, count: int) -> Resources:
        """A queue's capacity or maximum (``QueueView``)."""
        return self.part(self.whole, Fraction(count, WHOLE_PPM)) if self._has_sizes else (count * UNIT,)


class Need(msgspec.Struct):
    """One queue."""

    name: str
    guaranteed: Resources
    maximum: Resources
    used: Resources
    pending: Resources
    ideal: Resources = ()
    asked: Resources = ()

    @classmethod
    def of(cls, queue: QueueView, amounts: Amounts) -> Need:
        """From a view; requests beyond its maximum do not count."""
        maximum, used = amounts.of_queue(queue.maximum), queue.held or (queue.used * UNIT,)
        pending = common(queue.wanted or (queue.pending * UNIT,), lacking(maximum, used))
        return cls(queue.name, amounts.of_queue(queue.capacity), maximum, used, pending)

    @property
    def wanted(self) -> Resources:
        """What it would hold if it got all that it asks for."""
        return plus(self.used, self.pending)

    def accept(self, offered: Resources, amounts: Amounts) -> Resources:
        """Take as much of the offer as the limits allow; returns how much."""
        taken = common(lacking(self.maximum, self.ideal), amounts.smaller(offered, minus(self.wanted, self.ideal)))
        most = minus(amounts.larger(self.used, self.guaranteed), self.ideal)
        taken = common(lacking(amounts.smaller(taken, amounts.larger(most, amounts.none)), amounts.none), offered)
        self.ideal = plus(self.ideal, taken)
        return taken

    def served(self, amounts: Amounts) -> Fraction:
        """How much of its guarantee it has."""
        return amounts.ratio(self.ideal, self.guaranteed) if amounts.some(self.guaranteed) else Fraction(0)


def assign_ideal(needs: Iterable[Need], amounts: Amounts) -> None:
    """Set ``ideal`` of each queue; queues without a guarantee share what the others leave."""
    left, needs = amounts.whole, list(needs)
    for is_guaranteed in (True, False):
        group = [need for need in needs if amounts.some(need.guaranteed) is is_guaranteed]
        for need in group:
            need.ideal = need.used
            if amounts.more(need.used, need.guaranteed):
                need.ideal = common(need.used, need.guaranteed)
            left = minus(left, need.ideal)
        hungry = [need for need in group if amounts.more(need.wanted, need.ideal)]
        left = _share_out(hungry, left, is_guaranteed, amounts)


def _share_out(hungry: list[Need], left: Resources, is_guaranteed: bool, amounts: Amounts) -> Resources:
    """Offer the rest until no queue takes any more; returns what remains."""
    while hungry and amounts.some(left):
        together = total((need.guaranteed for need in hungry), ())
        least = min(need.served(amounts) for need in hungry)
        offered, equal = left, [Fraction(1, len(hungry))] * len(left)
        for need in [need for need in hungry if need.served(amounts) == least]:
            weights = _weights(need.guaranteed, together) if is_guaranteed else equal
            taken = need.accept(common(amounts.part_up(offered, weights), left), amounts)
            left = lacking(minus(left, taken), amounts.none)
            if not amounts.some(taken):
                hungry = [other for other in hungry if other is not need]
    return left


def _weights(guaranteed: Resources, together: Resources) -> list[Fraction]:
    """Its part of the guarantees, of each resource."""
    return [
        Fraction(each, all_of) if all_of else Fraction(0) for each, all_of in zip(guaranteed, together, strict=True)
    ]


def scale_of(needs: Iterable[Need], allowed: Resources, amounts: Amounts) -> Fraction:
    """Which part of what the queues hold beyond their ideal assignments a round may ask back."""
    beyond = [minus(need.used, need.ideal) for need in needs if amounts.more(need.used, need.ideal)]
    together = total(beyond, ()) or amounts.none
    return amounts.ratio(allowed, together) if amounts.more(together, allowed) else Fraction(1)


# ---- the jobs of a queue ----


class _Claim(msgspec.Struct):
    """One job of a queue."""

    job: JobView
    tasks: Resources
    pending: Resources
    lacks: Resources = ()
    can_give: Resources = ()
    gives: Resources = ()

    @classmethod
    def of(cls, job: JobView, amounts: Amounts) -> _Claim:
        tasks = job.tasks_hold or ((job.containers - min(1, job.containers)) * UNIT,)
        return cls(job, tasks, job.wanted or (job.pending * UNIT,), *[amounts.none] * 3)


def between_jobs(
    need: Need, jobs: Sequence[JobView], limit: Resources, amounts: Amounts
) -> tuple[list[JobView], Resources]:
    """The jobs of a queue that give to jobs of higher priority, the lowest first, and how much in total; ``jobs``: in
    that order."""
    claims = [_Claim.of(job, amounts) for job in jobs]
    left = minus(total((claim.tasks for claim in claims), ()), need.asked)
    for claim in reversed(claims):
        ideal = amounts.none
        if min(left) > 0:
            ideal = amounts.smaller(left, plus(claim.tasks, claim.pending))
        claim.lacks, claim.can_give = lacking(ideal, claim.tasks), lacking(claim.tasks, ideal)
        left = minus(left, ideal)
    for claim in claims:
        claim.can_give = amounts.smaller(claim.can_give, limit)
        limit = lacking(limit, claim.can_give)
    for high in reversed(claims):
        for low in claims:
            if low.job.facts.priority < high.job.facts.priority:
                given = amounts.smaller(high.lacks, minus(low.can_give, low.gives))
                high.lacks = lacking(high.lacks, given)
                low.gives = plus(low.gives, given)
    giving = [claim for claim in claims if amounts.some(claim.gives)]
    return [claim.job for claim in giving], total((claim.gives for claim in giving), ()) or amounts.none


# ---- the containers ----


class RoundVictims:
    """The containers that a round would reclaim."""

    def __init__(self) -> None:
        self._together: Resources = ()

    def choose(self, take: Take, containers: Iterable[tuple[str, Resources]]) -> list[str]:
        """Of these containers, each with what it would make free, those that go for ``take``: one after another, as
        long as that makes some of it free, and fits what the round may take."""
        left, chosen = take.amount, list[str]()
        asked = [place for place, each in enumerate(left) if each > 0]
        spent = self._together or (0,) * len(left)
        for container, frees in containers:
            enough = not any(left[place] for place in asked)
            if enough or (take.enough_of_any and not all(left[place] for place in asked)):
                break
            if any(common(left, frees)) and fits(plus(spent, frees), take.at_most):
                chosen.append(container)
                left, spent = lacking(left, frees), plus(spent, frees)
        self._together = spent
        return chosen

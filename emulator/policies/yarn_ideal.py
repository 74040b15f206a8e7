"""What YARN's preemption policy computes in a round: the ideal assignment of each queue, what each is asked for, what
the jobs of a queue give each other, and which containers go (Hadoop 3.4: ``AbstractPreemptableResourceCalculator``,
``TempQueuePerPartition``, ``FifoIntraQueuePreemptionPlugin``, ``CapacitySchedulerPreemptionUtils``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

import msgspec

from emulator.policies.resources import common, fits, lacking, minus, plus, total
from emulator.policies.views import JobView, QueueView, Take
from emulator.policies.yarn_amounts import UNIT, Amounts
from emulator.vocabulary import Resources


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


class Chosen:
    """The containers that a round would take back."""

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

"""What each queue is entitled to, what it holds beyond that, and how much of it one round obtains.

First each queue gets what it holds, up to its guarantee.  The rest is shared in proportion to the guarantees, the most
underserved queue first, up to the larger of its guarantee and what it holds.  The queues of a parent share its ideal
assignment.  What a queue holds beyond its ideal assignment is asked back, with these limits:

- one round asks back at most ``total_preemption_per_round`` of the cluster;
- of that, only the share ``natural_termination_factor``, because containers also end by themselves;
- nothing from a queue that is at most ``max_ignored_over_capacity`` above its guarantee;
- nothing that ``disable_preemption`` protects: it counts as the queue's own.

(Hadoop 3.4: ``AbstractPreemptableResourceCalculator``, ``TempQueuePerPartition``.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

import msgspec

from emulator.policies.resources import common, lacking, minus, plus, total
from emulator.policies.yarn.amounts import Amounts, exact, single
from emulator.policies.yarn.options import YarnPreemption
from emulator.vocabulary import Resources


class Need(msgspec.Struct):
    """A queue as the policy sees it, and what is computed for it."""

    name: str
    guaranteed: Resources
    maximum: Resources
    used: Resources
    pending: Resources
    """What it wants beyond that; of a leaf at most what its users may have."""
    pending_less_reserved: Resources = ()
    """Without what its applications have reserved."""
    priority: int = 0
    is_disabled: bool = False
    """``disable_preemption``."""
    children: tuple[Need, ...] = ()
    ideal: Resources = ()
    to_preempt: Resources = ()
    to_obtain: Resources = ()
    untouchable: Resources = ()
    """What it holds beyond its guarantee and cannot be preempted."""
    touchable: Resources = ()
    """What it holds beyond its guarantee and can be."""

    @property
    def leaves(self) -> Iterator[Need]:
        """The queues below it that have no queues themselves; itself if it has none."""
        if not self.children:
            yield self
        for child in self.children:
            yield from child.leaves

    def find_untouchable(self, amounts: Amounts) -> None:
        """Set what cannot be preempted of it and of the queues below."""
        for child in self.children:
            child.find_untouchable(amounts)
        self.untouchable = self.touchable = amounts.none
        if not amounts.more(self.used, self.guaranteed):
            return
        beyond = minus(self.used, self.guaranteed)
        if not self.children:
            self.touchable, self.untouchable = (amounts.none, beyond) if self.is_disabled else (beyond, amounts.none)
            return
        below = total((child.touchable for child in self.children), beyond)
        self.touchable = amounts.smaller(below, beyond)
        if amounts.more(beyond, below):
            self.untouchable = minus(beyond, below)

    def accept(self, offered: Resources, wants: Resources, amounts: Amounts) -> Resources:
        """Take as much of the offer as the limits allow; returns how much."""
        taken = common(lacking(self.maximum, self.ideal), amounts.smaller(offered, minus(wants, self.ideal)))
        if not self.children:
            most = amounts.larger(minus(amounts.larger(self.used, self.guaranteed), self.ideal), amounts.none)
            taken = amounts.smaller(taken, most)
        taken = common(lacking(taken, amounts.none), offered)
        self.ideal = plus(self.ideal, taken)
        return taken

    def served(self, amounts: Amounts) -> Fraction:
        """How much of its guarantee it has."""
        return amounts.ratio(self.ideal, self.guaranteed) if amounts.some(self.guaranteed) else Fraction(0)


def assign(root: Need, preemption: YarnPreemption, counts_reserved: bool, amounts: Amounts) -> Resources:
    """Set ``ideal``, ``to_preempt`` and ``to_obtain`` of each queue of a tree, whose root has the whole cluster.

    ``counts_reserved``: whether what is reserved counts as wanted, and no container is expected to end by itself.
    Returns how much the round may take in total.
    """
    root.ideal, root.to_preempt, root.to_obtain = amounts.whole, amounts.none, amounts.none
    root.find_untouchable(amounts)
    allowed = amounts.part(amounts.whole, single(preemption.total_preemption_per_round))
    _assign_below(root, allowed, counts_reserved, amounts)
    for leaf in root.leaves:
        leaf.to_obtain = _obtained(leaf, preemption, counts_reserved, amounts)
    return allowed


def _assign_below(parent: Need, allowed: Resources, counts_reserved: bool, amounts: Amounts) -> None:
    inside = amounts.within(parent.ideal)
    _assign_ideal(parent.children, counts_reserved, inside)
    scale = _scale_of(parent.children, allowed, inside)
    for child in parent.children:
        child.to_preempt = child.to_obtain = amounts.none
        least = inside.larger(inside.smaller(plus(child.used, child.pending), child.guaranteed), child.ideal)
        if inside.more(child.used, least):
            child.to_preempt = inside.part(minus(child.used, least), scale)
        _assign_below(child, allowed, counts_reserved, amounts)


def _obtained(queue: Need, preemption: YarnPreemption, counts_reserved: bool, amounts: Amounts) -> Resources:
    """What a round obtains of a leaf."""
    ignored = amounts.part(queue.guaranteed, 1 + exact(preemption.max_ignored_over_capacity))
    if not amounts.more(queue.used, ignored):
        return amounts.none
    if counts_reserved or not amounts.some(queue.to_preempt):
        return queue.to_preempt
    by = exact(preemption.natural_termination_factor)
    return amounts.part_of_each(queue.to_preempt, [by] * len(queue.to_preempt))


def _assign_ideal(queues: Sequence[Need], counts_reserved: bool, amounts: Amounts) -> None:
    """Set ``ideal`` of the queues of a parent; those without a guarantee share what the others leave."""
    left = amounts.whole
    for is_guaranteed in (True, False):
        group = [queue for queue in queues if amounts.some(queue.guaranteed) is is_guaranteed]
        for queue in group:
            queue.ideal = queue.used
            if amounts.more(queue.used, queue.guaranteed):
                queue.ideal = plus(common(queue.used, queue.guaranteed), queue.untouchable)
            left = minus(left, queue.ideal)
        hungry = [queue for queue in group if amounts.more(plus(queue.used, queue.pending), queue.ideal)]
        left = _share_out(hungry, left, is_guaranteed, counts_reserved, amounts)


def _share_out(
    wanting: Iterable[Need], left: Resources, is_guaranteed: bool, counts_reserved: bool, amounts: Amounts
) -> Resources:
    """Offer the rest until no queue takes any more; returns what remains."""
    hungry = _Hungry(wanting, amounts)
    while hungry.queues and amounts.some(left):
        together = total((queue.guaranteed for queue in hungry.queues), ())
        offered, equal = left, [single(1 / len(hungry.queues))] * len(left)
        for queue in hungry.pop_first():
            if not any(each > 0 for each in left):
                break
            weights = _weights(queue.guaranteed, together) if is_guaranteed else equal
            wants = queue.pending if counts_reserved else queue.pending_less_reserved or queue.pending
            offer = common(amounts.part_of_each(offered, weights), left)
            taken = queue.accept(offer, plus(queue.used, wants), amounts)
            left = lacking(minus(left, taken), amounts.none)
            if amounts.some(taken):
                hungry.add(queue)
    return left


class _Hungry:
    """The queues that still want, in a binary heap.

    First comes the least served one, and among those on one side of their guarantees the one of highest priority.
    Which of equal ones is offered first decides about the last megabyte and core; in YARN such a heap does.
    """

    def __init__(self, queues: Iterable[Need], amounts: Amounts) -> None:
        self.queues: list[Need] = []
        self._amounts = amounts
        for queue in queues:
            self.add(queue)

    def _key(self, queue: Need) -> tuple[bool, int, Fraction]:
        served = queue.served(self._amounts)
        return served >= 1, -queue.priority, served

    def add(self, queue: Need) -> None:
        """Put a queue in: at the end, and up past those that come later."""
        heap, place, key = self.queues, len(self.queues), self._key(queue)
        heap.append(queue)
        while place and key < self._key(heap[parent := (place - 1) // 2]):
            heap[place], place = heap[parent], parent
        heap[place] = queue

    def _pop(self) -> Need:
        """Take the first out; the last moves down from its place past those that come earlier."""
        heap, first = self.queues, self.queues[0]
        last, place = heap.pop(), 0
        if heap:
            key = self._key(last)
            while (child := 2 * place + 1) < len(heap):
                child += child + 1 < len(heap) and self._key(heap[child]) > self._key(heap[child + 1])
                if key <= self._key(heap[child]):
                    break
                heap[place], place = heap[child], child
            heap[place] = last
        return first

    def pop_first(self) -> list[Need]:
        """Take out all that come first."""
        first = [self._pop()]
        while self.queues and self._key(self.queues[0]) == self._key(first[0]):
            first.append(self._pop())
        return first


def _weights(guaranteed: Resources, together: Resources) -> list[Fraction]:
    """Its part of the guarantees, of each resource."""
    return [single(each / all_of) if all_of else Fraction(0) for each, all_of in zip(guaranteed, together, strict=True)]


def _scale_of(queues: Iterable[Need], allowed: Resources, amounts: Amounts) -> Fraction:
    """Which part of what the queues hold beyond their ideal assignments a round may ask back."""
    beyond = [minus(queue.used, queue.ideal) for queue in queues if amounts.more(queue.used, queue.ideal)]
    together = total(beyond, amounts.none)
    return single(amounts.ratio(allowed, together)) if amounts.more(together, allowed) else Fraction(1)

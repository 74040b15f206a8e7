"""The tree of queues that the options of an experiment describe."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from emulator.policies.yarn.amounts import exact
from emulator.policies.yarn.capacity import Queue
from emulator.policies.yarn.options import ROOT, FairQueue, OrderingPolicy, YarnOptions, YarnQueueSettings


def tree_of(options: YarnOptions) -> dict[str, Queue]:
    """The queues by name; ``root`` has all others below it."""
    return {queue.name: queue for queue in _Tree(options).queue(ROOT, None, None).all}


class _Tree:
    def __init__(self, options: YarnOptions) -> None:
        self._options = options
        self._inside = {child for parent in options.parents.values() for child in parent.queues}

    def queue(self, name: str, parent: str | None, above: FairQueue | None) -> Queue:
        """A queue with those in it; ``above``: what the FairScheduler has of its parent, if that decides."""
        given = self._options.settings.get(name, YarnQueueSettings())
        fair = given.fair if parent is None or above is None else (given.fair or FairQueue()).inside(above)
        if parent is None and fair is not None:
            fair = fair.inside(FairQueue(fair_share_preemption_threshold=0.5))
        order = given.ordering_policy
        of = self._share(parent) if parent else Fraction(1)
        queue = Queue(
            name,
            self._share(name) / of if of else Fraction(0),
            min(Fraction(1), self._maximum(name) / self._maximum(parent or ROOT)),
            given.priority,
            order is OrderingPolicy.PRIORITY_UTILIZATION,
            order is OrderingPolicy.FAIR or (fair is not None and order is None),
            given.disable_preemption or name in self._options.disable_preemption,
            given,
            order is OrderingPolicy.DRF,
            fair,
        )
        for child in self._children(name):
            queue.add(self.queue(child, name, fair))
        return queue

    def _children(self, name: str) -> Iterator[str]:
        options = self._options
        if name == ROOT:
            yield from (each for each in (*options.queues, *options.parents) if each not in self._inside)
        elif name in options.parents:
            yield from options.parents[name].queues

    def _share(self, name: str) -> Fraction:
        """The share of the cluster that a queue is guaranteed; that of a parent is what its queues are."""
        if name == ROOT:
            return Fraction(1)
        if name in self._options.parents:
            return sum(map(self._share, self._options.parents[name].queues), Fraction(0))
        return exact(self._options.queues[name].capacity)

    def _maximum(self, name: str) -> Fraction:
        """The largest share of the cluster that a queue may hold."""
        if name == ROOT:
            return Fraction(1)
        return exact((self._options.parents.get(name) or self._options.queues[name]).maximum)

"""Amounts of resources as YARN's DominantResourceCalculator compares and rounds them (Hadoop 3.4).

One amount is more than another if its dominant share is larger: the largest share that it has of any resource of the
cluster; among equal ones the next share decides.  The smaller of two amounts is one of the two, whole.  What is
computed is rounded to whole numbers of each resource, and of memory to 1/1000 GB.

Where all containers have one size, an amount has one number: 1/1024 of a container, as Hadoop counts the megabytes of
containers of 1 GB.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import lcm

from emulator.policies.resources import PARTS, WHOLE_PPM, total
from emulator.policies.views import ClusterView
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

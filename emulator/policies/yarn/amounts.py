"""Amounts of resources as YARN compares and rounds them.

An amount has one number for each resource that counts: memory only under the DefaultResourceCalculator, Hadoop's
default, all of them under the DominantResourceCalculator.  One amount is more than another if its dominant share is
larger: the largest share that it has of any resource of the cluster; among equal ones the next share decides.  The
smaller of two amounts is one of the two, whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import cache
from math import lcm
from struct import pack, unpack

from emulator.vocabulary import Resources


def single(number: float | Fraction) -> Fraction:
    """The number with single precision, as YARN has shares of guarantees and scales."""
    return Fraction(unpack("f", pack("f", number))[0])


@cache
def exact(number: float) -> Fraction:
    """The decimal number as it was written."""
    return Fraction(str(number))


class Amounts:
    """The amounts of one cluster."""

    def __init__(self, whole: Resources, steps: Resources | None = None) -> None:
        """``whole``: the cluster; ``steps``: what computed amounts are multiples of; None: of 1."""
        self.whole = whole
        self.none: Resources = (0,) * len(whole)
        self._steps = steps or (1,) * len(whole)
        self._is_alone = len(whole) == 1 and whole[0] > 0
        """Whether an amount is its share, in the unit of the only resource."""
        common = lcm(*(each for each in whole if each > 0))
        self._weights = tuple(common // each if each > 0 else 0 for each in whole)

    def within(self, whole: Resources) -> Amounts:
        """Amounts that are compared by their shares of ``whole``, a part of the cluster."""
        return Amounts(whole, self._steps)

    def shares(self, amount: Resources) -> tuple[int, ...]:
        """Its shares of the cluster's resources, the largest first, in one unit: the order of amounts."""
        if self._is_alone:
            return amount
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

    def part_of_each(self, amount: Resources, by: Iterable[Fraction]) -> Resources:
        """That part of each resource of it: rounded to the nearest if only one resource counts, else up."""
        aside = Fraction(1, 2) if len(self.whole) == 1 else 0
        return tuple(
            -(-(int(each * part + aside) if aside else each * part) // step) * step
            for each, part, step in zip(amount, by, self._steps, strict=True)
        )

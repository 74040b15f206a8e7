"""The number of containers as a function of time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import pairwise

Step = tuple[int, int]
"""An instant, emulated nanoseconds, and the number of containers from then on."""

_MAX_KNOWN = 100_000


class Capacity:
    """A number of containers that changes in steps, optionally periodic.

    Raises ValueError if the instants do not rise from 0, a count is negative, or the period ends before the last step.
    """

    def __init__(self, steps: Iterable[Step], period_ns: int | None = None) -> None:
        self.steps = tuple(steps)
        """The steps of one period; the first one starts at 0."""
        self.period_ns = period_ns
        """After this time the steps repeat; None: the last step lasts for ever."""
        self._instants = [start_ns for start_ns, _ in self.steps]
        self._until: dict[int, int] = {}
        """Cached results of ``until``: the same deadlines are asked for many times."""
        if not self.steps or self._instants[0] != 0 or any(a >= b for a, b in pairwise(self._instants)):
            raise ValueError("the instants of a capacity must rise, from 0")
        if any(count < 0 for _, count in self.steps):
            raise ValueError("a capacity must not be below 0")
        if period_ns is not None and period_ns <= self._instants[-1]:
            raise ValueError("the period of a capacity must end after its last step")

    def at(self, now_ns: int) -> int:
        """Number of containers at that time."""
        return self.steps[self._place(now_ns)][1]

    def next_change_ns(self, now_ns: int) -> int | None:
        """When the number changes next; None: never again."""
        following = self._place(now_ns) + 1
        if following < len(self.steps):
            return now_ns - self._within(now_ns) + self._instants[following]
        return None if self.period_ns is None else now_ns - self._within(now_ns) + self.period_ns

    def until_end(self, end_ns: int) -> Iterator[Step]:
        """All steps from 0 to ``end_ns``, those that come again each time they do."""
        now_ns: int | None = 0
        while now_ns is not None and now_ns <= end_ns:
            yield now_ns, self.at(now_ns)
            now_ns = self.next_change_ns(now_ns)

    def until(self, now_ns: int) -> int:
        """Container-nanoseconds from 0 to ``now_ns``: the most work that all containers could do; exact."""
        found = self._until.get(now_ns)
        if found is None:
            periods, within_ns = divmod(now_ns, self.period_ns or now_ns + 1)
            place = max(0, bisect_right(self._instants, within_ns) - 1)
            start_ns, count = self.steps[place]
            found = periods * self._of_a_period + self._sums[place] + count * (within_ns - start_ns)
            if len(self._until) < _MAX_KNOWN:
                self._until[now_ns] = found
        return found

    def between(self, start_ns: int, end_ns: int) -> int:
        """Container-nanoseconds between two instants."""
        return self.until(end_ns) - self.until(start_ns)

    @cached_property
    def most(self) -> int:
        """The largest number of containers at any time."""
        return max(count for _, count in self.steps)

    @cached_property
    def _sums(self) -> list[int]:
        """For each step: container-nanoseconds before it in its period."""
        sums = [0]
        for (start_ns, count), (end_ns, _) in pairwise(self.steps):
            sums.append(sums[-1] + count * (end_ns - start_ns))
        return sums

    @cached_property
    def _of_a_period(self) -> int:
        start_ns, count = self.steps[-1]
        return self._sums[-1] + count * ((self.period_ns or start_ns) - start_ns)

    def _within(self, now_ns: int) -> int:
        return now_ns if self.period_ns is None else now_ns % self.period_ns

    def _place(self, now_ns: int) -> int:
        return max(0, bisect_right(self._instants, self._within(now_ns)) - 1)

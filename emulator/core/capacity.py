"""How many containers there are, as a function of time."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise

from emulator.vocabulary import Frozen


class Capacity(Frozen):
    """Containers in steps.  Raises ValueError for instants that do not rise from 0."""

    steps: tuple[tuple[int, int], ...]
    """From each instant on, emulated nanoseconds, so many; the first from 0."""

    def __post_init__(self) -> None:
        instants = [start_ns for start_ns, _ in self.steps]
        if not instants or instants[0] != 0 or any(before >= after for before, after in pairwise(instants)):
            raise ValueError("the instants of a capacity must rise, from 0")

    def at(self, now_ns: int) -> int:
        """Containers there are then."""
        return self.steps[self._place(now_ns)][1]

    def next_change_ns(self, now_ns: int) -> int | None:
        """When that changes next; None: never again."""
        following = self._place(now_ns) + 1
        return self.steps[following][0] if following < len(self.steps) else None

    def _place(self, now_ns: int) -> int:
        return max(0, bisect_right(self.steps, (now_ns, 1 << 62)) - 1)

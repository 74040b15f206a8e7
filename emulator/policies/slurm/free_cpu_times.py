"""When nodes will have so many free CPUs, by the time limits of the jobs on them.

Sets of nodes are whole numbers here: bit ``i`` is the node that ``slurm.conf`` has in place ``i``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable

ALREADY_NS = -(1 << 62)
"""A node has them now."""
NEVER_NS = 1 << 63
"""A node is too small."""


class FreeCpuTimes:
    """When each node will have one number of free CPUs; kept up to date as jobs come and go."""

    def __init__(self, at_ns: Iterable[int]) -> None:
        """``at_ns``: for each node, ``ALREADY_NS`` and ``NEVER_NS`` included."""
        self._at_ns = list(at_ns)
        self._order = sorted((at, place) for place, at in enumerate(self._at_ns))
        self._times: list[int] = []
        self._masks: list[int] = []
        """At each of ``_times``, the nodes that have room by then; empty: they are to be made again."""
        self.now = sum(1 << place for place, at in enumerate(self._at_ns) if at == ALREADY_NS)
        """The nodes that have room now."""

    def change(self, place: int, at_ns: int) -> None:
        """A node will have room at another time than it seemed."""
        before_ns = self._at_ns[place]
        if at_ns == before_ns:
            return
        self._at_ns[place] = at_ns
        del self._order[bisect_left(self._order, (before_ns, place))]
        insort(self._order, (at_ns, place))
        self._masks = []
        if ALREADY_NS in (before_ns, at_ns):
            self.now ^= 1 << place

    def first_ns(self, nodes: int, count: int) -> int | None:
        """When so many of ``nodes`` will have room; None: never."""
        self._look()
        found = bisect_left(self._masks, count, key=lambda mask: (mask & nodes).bit_count())
        return self._times[found] if found < len(self._masks) else None

    def by(self, at_ns: int) -> int:
        """The nodes that will have room by then."""
        self._look()
        found = bisect_right(self._times, at_ns)
        return self._masks[found - 1] if found else 0

    def _look(self) -> None:
        if self._masks:
            return
        self._times, mask = [], 0
        for at_ns, place in self._order:
            if at_ns == NEVER_NS:
                break
            mask |= 1 << place
            if self._times and self._times[-1] == at_ns:
                self._masks[-1] = mask
            else:
                self._times.append(at_ns)
                self._masks.append(mask)

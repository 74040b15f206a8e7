"""Virtual time: a heap of events ordered by (time, priority, sequence)."""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count


class Kernel:
    """The event loop of a simulation.  Time is emulated nanoseconds and never goes back."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.events = 0
        self._heap: list[tuple[int, int, int, Callable[[], None]]] = []
        self._sequence = count()

    @property
    def next_ns(self) -> float:
        """When the next event is due; infinity if there is none."""
        return self._heap[0][0] if self._heap else math.inf

    def at(self, at_ns: int, action: Callable[[], None], priority: int = 0) -> None:
        """Do ``action`` at ``at_ns``; of equal times the lower priority goes first, then the one set first.

        Raises ValueError for an instant that has passed.
        """
        if at_ns < self.now_ns:
            raise ValueError(f"an event for {at_ns} ns at {self.now_ns} ns")
        heappush(self._heap, (at_ns, priority, next(self._sequence), action))

    def run(self, until: Callable[[], bool], limit_ns: int, most_events: int | None = None) -> None:
        """Run until ``until()`` holds or ``most_events`` have happened.

        Raises RuntimeError when nothing is left to do or ``limit_ns`` is passed.
        """
        last = None if most_events is None else self.events + most_events
        while self.events != last and not until():
            if not self._heap:
                raise RuntimeError(f"nothing is left to happen at {self.now_ns / 1e9:.3f} s, and the end has not come")
            at_ns, _, _, action = heappop(self._heap)
            if at_ns > limit_ns:
                raise RuntimeError(f"not finished after {limit_ns / 1e9:.0f} emulated seconds")
            self.now_ns = at_ns
            self.events += 1
            action()

"""The clock of the players of Kueue, Kubernetes and Slurm: what is to happen, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush


class Agenda:
    """Events by their time; at one instant by their ``order``, then as they were added."""

    def __init__(self) -> None:
        self.now_ns = 0
        self._events: list[tuple[int, int, int, str, Callable[[], None]]] = []
        self._added = 0

    def __bool__(self) -> bool:
        """Whether anything is to come."""
        return bool(self._events)

    def add(self, at_ns: int, order: int, happens: Callable[[], None], what: str = "") -> None:
        """Add an event; ``what`` names it in ``to_come``."""
        heappush(self._events, (at_ns, order, self._added, what, happens))
        self._added += 1

    @property
    def next_ns(self) -> int:
        """The next instant at which something is due."""
        return self._events[0][0]

    def go_on(self) -> None:
        """Go to the next instant, and let happen all that is due at it, also what is added for it meanwhile."""
        self.now_ns = self.next_ns
        while self._events and self._events[0][0] == self.now_ns:
            heappop(self._events)[-1]()

    def to_come(self) -> Iterator[tuple[int, str]]:
        """How far the named events are, in their order."""
        for at_ns, _, _, what, _ in sorted(self._events):
            if what:
                yield at_ns - self.now_ns, what

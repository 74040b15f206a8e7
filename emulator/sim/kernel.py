"""Virtual time: events ordered by (time, priority, sequence)."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import TypeAlias

Action: TypeAlias = Callable[[], None]

_EVENT, _LAST, _BEAT = 0, 1, 2


class Kernel:
    """The event loop of a simulation.  Time is emulated nanoseconds and never goes back.

    At equal times, events come first, in the order in which they were set, together with all that they set for the same
    instant; then those that are to be the last, one by one, each with all that it sets in turn.  Then come the beats of
    machines, in the order of the machines, each with all that it sets, in the same order.  So whether a beat is run
    does not affect the order of anything else.  ``settle`` is called when everything that an event or beat has set for
    its instant is done; it may plan beats.
    """

    def __init__(self) -> None:
        self.now_ns = 0
        self.events = 0
        self.beat_rank = -1
        """Rank of the last beat of this instant; -1 before the first."""
        self.stopped = False
        self.settle: Action = _no_op
        self._heap: list[tuple[int, int, int, int, Action]] = []
        self._soon: deque[Action] = deque()
        """Actions still to run at this instant, without beats."""
        self.soon: Callable[[Action], None] = self._soon.append
        """Runs an action at this instant, after what is already set for it."""
        self._sequence = count()

    @property
    def next_ns(self) -> float:
        """When the next event is due; infinity if there is none."""
        if self._soon:
            return self.now_ns
        self.settle()
        return self._heap[0][0] if self._heap else math.inf

    def at(self, at_ns: int, action: Action) -> None:
        """Run ``action`` at ``at_ns``.  Raises ValueError for a time in the past."""
        if at_ns == self.now_ns:
            self._soon.append(action)
        else:
            self._set(at_ns, _EVENT, 0, action)

    def last(self, at_ns: int, action: Action) -> None:
        """Run ``action`` at ``at_ns``, when nothing else is left to happen then but beats.

        Raises ValueError for a time in the past.
        """
        self._set(at_ns, _LAST, 0, action)

    def heartbeat(self, at_ns: int, rank: int, action: Action) -> None:
        """Run ``action`` at ``at_ns``, as a beat of the machine with this ``rank``.

        Raises ValueError for a time in the past.
        """
        self._set(at_ns, _BEAT, rank, action)

    def _set(self, at_ns: int, priority: int, rank: int, action: Action) -> None:
        if at_ns < self.now_ns:
            raise ValueError(f"an event for {at_ns} ns at {self.now_ns} ns")
        heappush(self._heap, (at_ns, priority, rank, next(self._sequence), action))

    def stop(self) -> None:
        """Let ``run`` return after the current event."""
        self.stopped = True

    def run(self, limit_ns: int, max_events: int | None = None, until: Callable[[], bool] | None = None) -> None:
        """Run until ``stop`` is called, or to the end of the instant in which ``until()`` holds or ``max_events`` are
        done.

        Raises RuntimeError if nothing is left to do or ``limit_ns`` is passed.
        """
        soon, take = self._soon, self._soon.popleft
        last = math.inf if max_events is None else self.events + max_events
        self.stopped = False
        while self.events < last and not self.stopped and not (until is not None and until()):
            if not soon:
                self._start_next(limit_ns)
            while soon and not self.stopped:
                self.events += 1
                take()()

    def _start_next(self, limit_ns: int) -> None:
        """Begin the next instant, or go on with this one: with its events, or what comes last, or its next beat."""
        self.settle()
        heap = self._heap
        if not heap:
            raise RuntimeError(f"nothing is left to happen at {self.now_ns / 1e9:.3f} s, and the end has not come")
        if heap[0][0] > limit_ns:
            raise RuntimeError(f"not finished after {limit_ns / 1e9:.0f} emulated seconds")
        at_ns, priority, rank, _, action = heappop(heap)
        self.soon(action)
        if at_ns != self.now_ns:
            self.now_ns, self.beat_rank = at_ns, -1
        if priority == _BEAT:
            self.beat_rank = rank
        elif priority == _EVENT:
            while heap and heap[0][0] == at_ns and heap[0][1] == _EVENT:
                self.soon(heappop(heap)[4])


def _no_op() -> None:
    pass

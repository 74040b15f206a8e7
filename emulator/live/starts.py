"""Which tasks may do the work of a launch now: a few at a time, in the order they were asked for.

Theory of operation
-------------------
A launch is a few milliseconds of work: a fork, then a map's output or a reduce's input.  Were hundreds of tasks let
loose at once, each would be done when nearly all are, and the sleeps of those already walking would end late behind
them.  One after the other the same work is done just as soon, most of it sooner, and the run queue stays short.

A task has *settled* when that work is done, or waits for somebody else's (map outputs still to come).  One that takes
longer than ``patience_real_ns`` gives up its turn to the next, not its work: it may be waiting for the network.
"""

from __future__ import annotations

from emulator.live.containers import ContainerProcess


class StartQueue:
    """Containers that wait for their turn to start: to be forked, or to be given their input."""

    def __init__(self, width: int, patience_real_ns: int = 200_000_000) -> None:
        self._width = width
        self._patience_real_ns = patience_real_ns
        self._waiting: dict[str, ContainerProcess] = {}
        """By container id, the next one first."""
        self._until_real_ns: dict[str, int] = {}
        """Those at it, by container id, in the order they began, and when each one's turn ends at the latest."""

    def add(self, container: ContainerProcess) -> None:
        """Last in the queue, unless it is there already."""
        self._waiting.setdefault(container.id, container)

    def take(self, now_real_ns: int) -> ContainerProcess | None:
        """The next one, if it may start now: its turn begins."""
        if not self._waiting or self.wait_real_ns(now_real_ns):
            return None
        container = self._waiting.pop(next(iter(self._waiting)))
        self.settled(container)
        self._until_real_ns[container.id] = now_real_ns + self._patience_real_ns
        return container

    def settled(self, container: ContainerProcess) -> None:
        """Its turn is over."""
        self._until_real_ns.pop(container.id, None)

    def wait_real_ns(self, now_real_ns: int) -> int | None:
        """How long until the next one may start if none settles; None: none waits."""
        if not self._waiting:
            return None
        while self._until_real_ns:
            first = next(iter(self._until_real_ns))
            if self._until_real_ns[first] > now_real_ns:
                break
            del self._until_real_ns[first]
        if len(self._until_real_ns) < self._width:
            return 0
        return self._until_real_ns[next(iter(self._until_real_ns))] - now_real_ns

    def forget(self, container: ContainerProcess) -> None:
        """It has ended, or will never start."""
        self._waiting.pop(container.id, None)
        self.settled(container)

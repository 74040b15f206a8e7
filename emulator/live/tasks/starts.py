"""Which tasks may do the work of a launch now: few at a time, in the order of the requests.

Theory of operation
-------------------
A launch is some milliseconds of work: a fork, then a map's output or a reduce's input.  If hundreds of tasks started at
once, each would be ready only when nearly all are, and tasks already walking their keys would wake up late.  One after
the other, the same work is done at the same time, most of it earlier, and the run queue stays short.

A task has *settled* when its launch work is done, or when it waits for another (for map outputs, for example).  A task
that takes longer than ``patience_real_ns`` loses its turn to the next one but continues; it may be waiting for the
network.
"""

from __future__ import annotations

from emulator.live.tasks.containers import ContainerProcess


class StartQueue:
    """Containers that wait for their turn: to be forked, or to get their input."""

    def __init__(self, width: int, patience_real_ns: int = 200_000_000) -> None:
        self._width = width
        self._patience_real_ns = patience_real_ns
        self._waiting: dict[str, ContainerProcess] = {}
        """By container id, the next one first."""
        self._until_real_ns: dict[str, int] = {}
        """Containers whose turn it is, in the order in which they started, with the latest end of each turn."""

    def add(self, container: ContainerProcess) -> None:
        """Put a container last in the queue, unless it is already in it."""
        self._waiting.setdefault(container.id, container)

    def take(self, now_real_ns: int) -> ContainerProcess | None:
        """The next container, if it may start now; its turn begins."""
        if not self._waiting or self.wait_real_ns(now_real_ns):
            return None
        container = self._waiting.pop(next(iter(self._waiting)))
        self.settled(container)
        self._until_real_ns[container.id] = now_real_ns + self._patience_real_ns
        return container

    def settled(self, container: ContainerProcess) -> None:
        """The container's turn is over."""
        self._until_real_ns.pop(container.id, None)

    def wait_real_ns(self, now_real_ns: int) -> int | None:
        """How long until the next one may start if none settles; None: none is waiting."""
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

    @property
    def is_busy(self) -> bool:
        """Whether a container waits for its turn, or has it."""
        return bool(self._waiting or self._until_real_ns)

    def forget(self, container: ContainerProcess) -> None:
        """The container has ended, or will never start."""
        self._waiting.pop(container.id, None)
        self.settled(container)

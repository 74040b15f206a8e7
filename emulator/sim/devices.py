"""The storage device of each node in virtual time: dumps and restores wait for it, and end when they are due."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from emulator.core.application_master.devices import DeviceQueue
from emulator.sim.kernel import Kernel


class VirtualDevices:
    """One device per node, made at its first use."""

    def __init__(self, kernel: Kernel, at_once: int) -> None:
        self._kernel = kernel
        self._at_once = at_once
        self._queues: dict[str, DeviceQueue] = {}
        self._done: dict[str, tuple[str, Callable[[], None]]] = {}
        """By operation: its node, and the function to call at its end."""

    def use(self, node: str, operation: str, work_ns: int, done: Callable[[], None]) -> None:
        """Call ``done`` when the device of ``node`` has done ``work_ns`` of work for ``operation``."""
        queue = self._queues.setdefault(node, DeviceQueue(self._at_once))
        self._done[operation] = (node, done)
        queue.submit(operation, work_ns, self._kernel.now_ns)
        self._plan(node)

    def leave(self, operation: str) -> None:
        """Cancel the operation, if it exists: it is no longer needed."""
        if operation in self._done:
            node, _ = self._done.pop(operation)
            self._queues[node].end(operation, self._kernel.now_ns)
            self._plan(node)

    def _plan(self, node: str) -> None:
        due = self._queues[node].next_due()
        if due is not None:
            self._kernel.at(due[0], partial(self._due, node, due))

    def _due(self, node: str, due: tuple[int, str]) -> None:
        if self._queues[node].next_due() != due:
            return  # other operations have begun or ended since it was planned
        self._queues[node].end(due[1], self._kernel.now_ns)
        _, done = self._done.pop(due[1])
        self._plan(node)
        done()

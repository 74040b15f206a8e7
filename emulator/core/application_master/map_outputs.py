"""Map outputs: which nodes know where the outputs of a job's maps are; to each, that is a ``LatestValue``."""

from __future__ import annotations

from collections.abc import Iterator

from emulator.core.delivery import LatestValue
from emulator.core.effects import Send
from emulator.core.messages import MapOutputs, node_address


class MapOutputLedger:
    """Where the map outputs of one job are, and which nodes know it."""

    def __init__(self, job: str, retry_ns: int) -> None:
        self._job = job
        self._retry_ns = retry_ns
        self._nodes: tuple[str, ...] | None = None
        self.version = 0
        """Version of the outputs when they were last complete."""
        self._registrations: dict[str, int] = {}
        """The registration of each node: what an earlier one received is not known there."""
        self._notified: dict[str, LatestValue] = {}
        """By node, under the numbers of the versions; those that were never told are not among them."""
        self._unacknowledged: dict[str, LatestValue] = {}
        """Those of them that have not acknowledged."""

    @property
    def due_ns(self) -> int | None:
        """When a node must be notified again (never too late); None: all know it, or there is nothing to know."""
        if self._nodes is None:
            return None
        times_ns = [told.due_ns for told in self._unacknowledged.values() if told.due_ns is not None]
        return min(times_ns) if times_ns else None

    def complete(self, nodes: tuple[str, ...]) -> None:
        """All maps are done; ``nodes[i]`` has the output of map i.  All nodes must be notified again."""
        self._nodes = nodes
        self.version += 1
        self._notified.clear()
        self._unacknowledged.clear()

    def incomplete(self) -> None:
        """A map's output has been lost."""
        self._nodes = None

    def notify(self, node: str, now_ns: int) -> list[Send]:
        """Tell ``node``, unless it was notified or the outputs are not complete."""
        if self._nodes is None or node in self._notified:
            return []
        self._notified[node] = LatestValue(self._retry_ns)
        return [self._send(node, now_ns)]

    def received(self, node: str, version: int, registration: int) -> None:
        """``node`` has acknowledged."""
        told = self._unacknowledged.get(node)
        if told is not None and registration == self._registrations.get(node, 0) and told.acknowledge(version):
            del self._unacknowledged[node]

    def registered(self, node: str, registration: int) -> None:
        """``node`` has been heard of as registered at that instant."""
        if registration > self._registrations.get(node, 0):
            self._registrations[node] = registration
            self._notified.pop(node, None)
            self._unacknowledged.pop(node, None)

    def forget_node(self, node: str) -> None:
        """``node`` is gone, or has been: what it has not acknowledged may be for nobody."""
        if node not in self._registrations:
            self._unacknowledged.pop(node, None)

    def repeat(self, now_ns: int) -> Iterator[Send]:
        """Tell again the nodes that have not acknowledged for too long."""
        for node, told in self._unacknowledged.items() if self._nodes is not None else ():
            if told.due_ns is not None and told.due_ns <= now_ns:
                yield self._send(node, now_ns)

    def _send(self, node: str, now_ns: int) -> Send:
        assert self._nodes is not None
        self._unacknowledged[node] = self._notified[node]
        self._notified[node].send(self.version, now_ns)
        return Send(node_address(node), MapOutputs(self._job, self.version, self._nodes))

"""What a node has to tell the ResourceManager: what has come free, and that it is there.

Theory of operation
-------------------
Containers that have ended or stopped are told in each heartbeat until one that has told them is acknowledged (natjam,
Fig. 1, step 10).

A node that has been given up is told so in answer to each heartbeat.  It ends whatever runs, and once nothing does it
resyncs, as it does when it is started again: under a later ``registration``, by which orders and answers that
were meant for what was there before are distinguished, and refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from emulator.core.delivery import LatestValue
from emulator.core.messages import NodeHeartbeat, NodeHeartbeatResponse
from emulator.core.node_manager.container import Container

RESTARTED = "its node was started anew"
"""Why a container was lost, where nobody had missed the node before."""


@dataclass(slots=True)
class NodeStatusUpdater:
    """What one NodeManager has to tell the ResourceManager; see the module's theory of operation."""

    node: str
    registration: int = 0
    """See ``NodeHeartbeat``."""
    _is_registered: bool = True
    """Unless it has not heard yet that it is resynced."""
    _freed: dict[str, tuple[Container, LatestValue]] = field(default_factory=dict)
    """Those that have ended or stopped and are not acknowledged, each told under the first heartbeat that had it."""
    _reported_id: int = -1
    """The last heartbeat that reported something."""
    received_id: int = -1
    """Id of the last response with news."""

    def freed(self, container: Container) -> None:
        """It has ended, or its process has stopped."""
        self._freed[container.id] = container, LatestValue()

    def withdraw(self, container: Container) -> None:
        """There is nothing to tell of it any more: its stopped process goes on, or its end is acknowledged."""
        self._freed.pop(container.id, None)

    def is_acknowledged(self, container: Container) -> bool:
        """Whether there is nothing to tell of it that is not acknowledged."""
        return container.id not in self._freed

    def due_ns(self, now_ns: int) -> int | None:
        """From when on a heartbeat may say something; None: none will."""
        if not self._is_registered:
            return now_ns
        if not self._freed:
            return None
        times_ns = [container.slot_free_ns for container, _ in self._freed.values()]
        return min((at_ns for at_ns in times_ns if at_ns is not None), default=None)

    def heartbeat(self, now_ns: int) -> NodeHeartbeat:
        """The next one."""
        freed = [
            (container, told)
            for container, told in self._freed.values()
            if container.slot_free_ns is not None and container.slot_free_ns <= now_ns
        ]
        heartbeat_id = max(now_ns, self.registration)
        if freed:
            # Above that of an empty heartbeat of the same instant, whose answer must not pass for this one's.
            heartbeat_id = self._reported_id = max(now_ns, self._reported_id) + 1
        for _, told in freed:
            if not told.is_unacknowledged:
                told.send(heartbeat_id, now_ns)
        reports = tuple([container.report(self.node) for container, _ in freed])
        return NodeHeartbeat(self.node, heartbeat_id, reports, self.received_id, self.registration)

    def apply_response(self, response: NodeHeartbeatResponse) -> list[Container] | None:
        """The containers that are acknowledged by this; None: it has no news, or is for what was here before."""
        if response.id < self.registration:
            return None
        told = [container for container, told in self._freed.values() if told.acknowledge(response.id)]
        if not told and response.is_empty and self._is_registered:
            return None
        self._is_registered = True
        if response.finished_jobs:
            self.received_id = max(self.received_id, response.id)
        for container in told:
            self.withdraw(container)
        return told

    def resync(self, now_ns: int) -> None:
        """Nothing is left of what was here."""
        self._freed.clear()
        self._is_registered = False
        self.registration = self._reported_id = max(now_ns, self._reported_id) + 1

"""The ledger of a node whose containers have the sizes that their tasks ask for.

Theory of operation
-------------------
A container is charged with what it asked for, of each resource, until it has ended.  While its process is stopped it is
charged only with what a stopped process still holds (``MechanismTraits.holds``, unless the file says otherwise); the
rest is taken again when it resumes.  The memory that tasks really use, and the room for stopped processes, are counted
as on any node (``emulator.core.node_ledger``): where a stopped process goes on holding the memory it asked for, it
needs no other room.
"""

from __future__ import annotations

from emulator.core.node_ledger import Charge, NodeLedger, NoRoom, Slot
from emulator.core.settings import NodeSettings
from emulator.policies.resources import fits, lacking, minus, plus, total, written
from emulator.vocabulary import Resources, Work

_ANY_NUMBER = {Slot.ANY: 1 << 62}


class SizedLedger(NodeLedger):
    """See the module's theory of operation."""

    def __init__(self, node: NodeSettings) -> None:
        super().__init__(node, _ANY_NUMBER)
        self.charged = (0,) * len(node.resources)

    def take(self, container: str, work: Work, memory_bytes: int | None = None, request: Resources = ()) -> None:
        """See ``NodeLedger``; a task whose memory is unknown is charged with the memory that it asked for."""
        if work is Work.MASTER and self.node.masters_outside:
            super().take(container, work)
            return
        self._charge(request)
        size_bytes = self.node.requested_bytes(request) if memory_bytes is None else memory_bytes
        super().take(container, work, size_bytes, request)

    def stop(self, container: str, memory_bytes: int | None = None) -> None:
        """See ``NodeLedger``."""
        super().stop(container, memory_bytes)
        self.charged = minus(self.charged, self._freed_by_stop(container))

    def resume(self, container: str, work: Work) -> None:
        """See ``NodeLedger``."""
        self._charge(self._freed_by_stop(container))
        super().resume(container, work)

    def end(self, container: str) -> None:
        """See ``NodeLedger``."""
        self.charged = minus(self.charged, self._held_by(container))
        super().end(container)

    def validate(self) -> None:
        """See ``NodeLedger``."""
        super().validate()
        held = [self._held_by(container) for container in self._entries]
        assert self.charged == total(held, self.node.resource_names), self.node.name
        assert fits(self.charged, self.node.resources), f"{self.node.name}: {self.charged} of {self.node.resources}"

    # ---- parts ----

    def _charge(self, more: Resources) -> None:
        after = plus(self.charged, more)
        if not fits(after, self.node.resources):
            names = self.node.resource_names
            short = written(lacking(after, self.node.resources), names)
            raise NoRoom(f"{self.node.name} lacks {short} of {written(more, names)}")
        self.charged = after

    def _freed_by_stop(self, container: str) -> Resources:
        request = self._entries[container].request
        return minus(request, self.node.held_when_stopped(request))

    def _held_by(self, container: str) -> Resources:
        entry = self._entries[container]
        if entry.slot is None:
            return (0,) * len(self.node.resources)
        return self.node.held_when_stopped(entry.request) if entry.charge is Charge.STOPPED else entry.request


def ledger_of(node: NodeSettings) -> NodeLedger:
    """An empty ledger of a node."""
    return SizedLedger(node) if node.resources else NodeLedger(node)

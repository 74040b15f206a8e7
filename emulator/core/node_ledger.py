"""The ledger of a node: what it has, and what each container uses.  NodeManager and ResourceManager each keep one.

Theory of operation
-------------------
What a node has is a vector of resources, and so is what a container needs of it (``NodeSettings.needs``).  Where all
containers have one size, a node has one resource, of which each container needs one; where maps and reduces have slots
of their own (Hadoop 1 and FLEX), it has two.  A container is charged with what it needs until it has ended.  While its
process is stopped it is charged only with what a stopped process still holds (``MechanismTraits.holds``, unless the
file says otherwise); the rest is taken again when it resumes.  An ApplicationMaster outside containers is charged with
nothing.

Beside that it is charged with memory: that of its task or, if that is unknown, the memory that it asked for or the
largest that a container may use.  RAM and swap are reserved first for a full set of containers of the largest size; the
rest is for stopped processes.  At most ``max_suspended`` processes may be stopped (os-assisted-preemption, section
III).  So a stopped process can always resume, and nothing is promised twice.  Memory for a process is reserved before
it is stopped (``set_aside``), so two that stop at the same time cannot both take what is left.  Where a stopped process
goes on holding the memory it asked for, it needs no other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from emulator.core.settings import NodeSettings
from emulator.policies.resources import fits, lacking, minus, plus, total, written
from emulator.vocabulary import Resources, Work


class Charge(Enum):
    """What a container uses of its node."""

    OUTSIDE = "nothing: an ApplicationMaster outside containers"
    RUNNING = "what it needs, and memory"
    SET_ASIDE = "what it needs, memory, and memory to be stopped"
    STOPPED = "what a stopped process holds, and memory"


_IN_CONTAINER = (Charge.RUNNING, Charge.SET_ASIDE)


class InsufficientResourcesError(Exception):
    """The node lacks the requested resource; the message says how much it has.  Nothing was changed."""


@dataclass(slots=True)
class _Entry:
    needs: Resources
    memory_bytes: int
    charge: Charge = Charge.RUNNING


@dataclass(slots=True)
class NodeLedger:
    """What each container uses of a node; see the module's theory of operation."""

    node: NodeSettings
    used: int = 0
    """Number of containers in use, without those of stopped processes."""
    charged: Resources = field(init=False)
    """What is held of the node's resources."""
    stopped: int = 0
    """Number of stopped processes, including those with memory set aside."""
    stopped_bytes: int = 0
    """Memory of the processes in ``stopped``."""
    running_bytes: int = 0
    """Memory of the processes in a container."""
    _entries: dict[str, _Entry] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.charged = (0,) * len(self.node.has)

    # ---- reading ----

    @property
    def resident_bytes(self) -> int:
        """Memory of all processes that fits in RAM."""
        return min(self._held_bytes, self.node.memory_bytes)

    @property
    def swapped_bytes(self) -> int:
        """Memory of all processes that does not fit in RAM."""
        return max(0, self._held_bytes - self.node.memory_bytes)

    @property
    def _held_bytes(self) -> int:
        if not self.stopped:
            return self.running_bytes
        stopped = (e.memory_bytes for e in self._entries.values() if e.charge is Charge.STOPPED)
        return self.running_bytes + sum(stopped)

    def in_container(self, container: str) -> bool:
        """Whether it uses a container; a stopped process does not."""
        entry = self._entries.get(container)
        return entry is not None and entry.charge in _IN_CONTAINER

    def __contains__(self, container: str) -> bool:
        return container in self._entries

    # ---- changing ----

    def take(self, container: str, work: Work, memory_bytes: int | None = None, request: Resources = ()) -> None:
        """A container starts; ``request``: what it requests, if containers have several sizes.

        Raises InsufficientResourcesError.
        """
        if work is Work.MASTER and self.node.unmanaged_masters:
            self._entries[container] = _Entry((), 0, Charge.OUTSIDE)
            return
        size_bytes = self.node.requested_bytes(request) if memory_bytes is None else memory_bytes
        entry = _Entry(self.node.needs(work, request), size_bytes)
        self._charge(entry.needs)
        self._entries[container] = entry
        self.used += 1
        self.running_bytes += size_bytes

    def set_aside(self, container: str) -> None:
        """A container will be stopped: reserve memory for it.  Raises InsufficientResourcesError."""
        entry, node = self._entries[container], self.node
        if self.stopped >= node.max_suspended:
            raise InsufficientResourcesError(f"{node.name} holds {self.stopped} stopped processes, the most it may")
        if self.stopped_bytes + entry.memory_bytes > node.capacity_bytes:
            raise InsufficientResourcesError(
                f"{node.name} has {_gb(node.capacity_bytes)} GB of RAM and swap beside its containers,"
                f" stopped processes hold {_gb(self.stopped_bytes)} of it, and this one has {_gb(entry.memory_bytes)}"
            )
        self._count_stopped(entry, 1)
        entry.charge = Charge.SET_ASIDE

    def keep(self, container: str) -> None:
        """It will not be stopped after all."""
        entry = self._entries[container]
        if entry.charge is Charge.SET_ASIDE:
            self._count_stopped(entry, -1)
            entry.charge = Charge.RUNNING

    def stop(self, container: str, memory_bytes: int | None = None) -> None:
        """Its process is stopped, so its container is free.  ``memory_bytes``: the memory it uses, known by now."""
        entry = self._entries[container]
        if memory_bytes is not None:
            self._weigh(entry, memory_bytes)
        if entry.charge is Charge.RUNNING:
            self._count_stopped(entry, 1)
        self._leave(entry)
        entry.charge = Charge.STOPPED
        self.charged = minus(self.charged, self.node.freed_by_stop(entry.needs))

    def resume(self, container: str) -> None:
        """Its stopped process resumes.  Raises InsufficientResourcesError."""
        entry = self._entries[container]
        self._charge(self.node.freed_by_stop(entry.needs))
        entry.charge = Charge.RUNNING
        self._count_stopped(entry, -1)
        self.used += 1
        self.running_bytes += entry.memory_bytes

    def end(self, container: str) -> None:
        """A container has ended."""
        entry = self._entries.pop(container)
        if entry.charge is Charge.OUTSIDE:
            return
        self.charged = minus(self.charged, self._held_by(entry))
        if entry.charge is not Charge.RUNNING:
            self._count_stopped(entry, -1)
        if entry.charge is not Charge.STOPPED:
            self._leave(entry)

    # ---- parts ----

    def _charge(self, more: Resources) -> None:
        after, has = plus(self.charged, more), self.node.has
        if not fits(after, has):
            names = self.node.has_names
            raise InsufficientResourcesError(
                f"{self.node.name} lacks {written(lacking(after, has), names)} of {written(more, names)}"
            )
        self.charged = after

    def _held_by(self, entry: _Entry) -> Resources:
        return self.node.held_when_stopped(entry.needs) if entry.charge is Charge.STOPPED else entry.needs

    def _leave(self, entry: _Entry) -> None:
        self.used -= 1
        self.running_bytes -= entry.memory_bytes

    def _weigh(self, entry: _Entry, memory_bytes: int) -> None:
        if entry.charge is not Charge.STOPPED:
            self.running_bytes += memory_bytes - entry.memory_bytes
        if entry.charge is not Charge.RUNNING:
            self.stopped_bytes += memory_bytes - entry.memory_bytes
        entry.memory_bytes = memory_bytes

    def _count_stopped(self, entry: _Entry, change: int) -> None:
        self.stopped += change
        self.stopped_bytes += change * entry.memory_bytes

    def validate(self) -> None:
        """Raise AssertionError if the sums are wrong, or more is held than the node has."""
        entries = [entry for entry in self._entries.values() if entry.charge is not Charge.OUTSIDE]
        running = [entry for entry in entries if entry.charge is not Charge.STOPPED]
        held = [entry for entry in entries if entry.charge is not Charge.RUNNING]
        assert self.used == len(running)
        assert self.running_bytes == sum(entry.memory_bytes for entry in running)
        assert (self.stopped, self.stopped_bytes) == (len(held), sum(entry.memory_bytes for entry in held))
        assert self.charged == total(map(self._held_by, entries), self.node.has_names), self.node.name
        assert fits(self.charged, self.node.has), f"{self.node.name}: {self.charged} of {self.node.has}"


def _gb(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.3g}"

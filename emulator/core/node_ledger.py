"""The ledger of a node: what it has, and who holds what of it.  NodeManager and ResourceManager each keep one.

Theory of operation
-------------------
A container is charged for a slot and for memory: what its task holds or, where nothing is known of that, all that a
container may hold.  While its process is stopped it holds no slot, but its memory is still charged.  RAM and swap are
promised to a full set of containers, each as large as it may become, and what that leaves to stopped processes; of
those there may be at most ``max_suspended`` (os-assisted-preemption, section III).  So a stopped process can always
go on, and nothing is promised twice.  Room for a process that is to be stopped is set aside first (``set_aside``), so
that two that stop at the same time do not both take the last.

A node may have slots for maps only, for reduces only and for anything (Hadoop 1 and FLEX keep the first two apart); a
container takes one of its own kind before one for anything, an ApplicationMaster none where masters are outside.  What
a node has may change: it is then over-committed until it has given up ``surplus`` slots, and nothing more is given out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from emulator.core.settings import NodeSettings
from emulator.vocabulary import Kind


class Slot(Enum):
    """What a slot is for."""

    MAP = "map"
    REDUCE = "reduce"
    ANY = "any"


class Charge(Enum):
    """What a container holds of its node."""

    RUNNING = "a slot and memory"
    SET_ASIDE = "a slot, memory, and room to be stopped"
    STOPPED = "memory"


class NoRoom(Exception):
    """The node has not what is wanted; says how much of it there is.  Nothing has been changed."""


@dataclass(slots=True)
class _Entry:
    slot: Slot | None
    """None: an ApplicationMaster outside, which is charged for nothing."""
    memory_bytes: int
    charge: Charge = Charge.RUNNING


SLOTS_FOR = {
    Kind.APPLICATION_MASTER: (Slot.ANY,),
    Kind.MAP: (Slot.MAP, Slot.ANY),
    Kind.REDUCE: (Slot.REDUCE, Slot.ANY),
}
"""Slots that a container of each kind may have, the first first."""


def slots_of(node: NodeSettings) -> dict[Slot, int]:
    """What a node has to begin with."""
    if node.slots is None:
        return {Slot.ANY: node.containers}
    maps, reduces = node.slots
    return {Slot.MAP: maps, Slot.REDUCE: reduces}


@dataclass(slots=True)
class NodeLedger:
    """See the module's theory of operation."""

    node: NodeSettings
    slots: Mapping[Slot, int] = field(default_factory=dict)
    """How many there are of each; none at all: those of ``node``."""
    devices: tuple[str, ...] = ()
    """Names of the devices that stopped processes are saved to; nothing is charged for them yet."""
    stopped: int = 0
    """Processes stopped, and those that room has been set aside for."""
    stopped_bytes: int = 0
    """Their memory."""
    running_bytes: int = 0
    """Memory of the processes on a slot."""
    _used: dict[Slot, int] = field(default_factory=lambda: dict.fromkeys(Slot, 0))
    _entries: dict[str, _Entry] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.slots = self.slots or slots_of(self.node)

    # ---- what there is ----

    @property
    def used(self) -> int:
        """Slots in use."""
        return sum(self._used.values())

    @property
    def total(self) -> int:
        """All slots."""
        return sum(self.slots.values())

    @property
    def surplus(self) -> int:
        """Slots in use that there are not any more."""
        return sum(max(0, used - self.slots.get(slot, 0)) for slot, used in self._used.items())

    @property
    def resident_bytes(self) -> int:
        """Of all processes, what RAM holds."""
        return min(self._held_bytes, self.node.memory_bytes)

    @property
    def swapped_bytes(self) -> int:
        """Of all processes, what RAM does not hold."""
        return self._held_bytes - self.resident_bytes

    @property
    def _held_bytes(self) -> int:
        stopped = (e.memory_bytes for e in self._entries.values() if e.charge is Charge.STOPPED)
        return self.running_bytes + sum(stopped)

    def free(self, kind: Kind) -> int:
        """Slots that a container of that kind could have."""
        return sum(max(0, self.slots.get(slot, 0) - self._used[slot]) for slot in SLOTS_FOR[kind])

    def slot_of(self, container: str) -> Slot | None:
        """The slot that it holds, if it holds one."""
        entry = self._entries.get(container)
        return None if entry is None or entry.charge is Charge.STOPPED else entry.slot

    def on_slot(self, container: str) -> bool:
        """Whether it holds a slot."""
        return self.slot_of(container) is not None

    def __contains__(self, container: str) -> bool:
        return container in self._entries

    # ---- what happens ----

    def take(self, container: str, kind: Kind, memory_bytes: int | None = None) -> None:
        """It begins.  Raises NoRoom."""
        if kind is Kind.APPLICATION_MASTER and self.node.masters_outside:
            self._entries[container] = _Entry(None, 0)
            return
        size_bytes = self.node.charged_bytes(memory_bytes)
        self._entries[container] = _Entry(self._take_slot(kind), size_bytes)
        self.running_bytes += size_bytes

    def set_aside(self, container: str) -> None:
        """It is to be stopped.  Raises NoRoom."""
        entry, node = self._entries[container], self.node
        if self.stopped >= node.max_suspended:
            raise NoRoom(f"{node.name} holds {self.stopped} stopped processes, the most it may")
        if self.stopped_bytes + entry.memory_bytes > node.room_bytes:
            raise NoRoom(
                f"{node.name} has {_gb(node.room_bytes)} GB of RAM and swap beside its containers, stopped processes"
                f" hold {_gb(self.stopped_bytes)} of it, and this one has {_gb(entry.memory_bytes)}"
            )
        self._count_stopped(entry, 1)
        entry.charge = Charge.SET_ASIDE

    def keep(self, container: str) -> None:
        """It is not stopped after all."""
        entry = self._entries[container]
        if entry.charge is Charge.SET_ASIDE:
            self._count_stopped(entry, -1)
            entry.charge = Charge.RUNNING

    def stop(self, container: str, memory_bytes: int | None = None) -> None:
        """Its process is stopped: its slot is free.  ``memory_bytes``: what it holds, now that this is known."""
        entry = self._entries[container]
        if memory_bytes is not None:
            self._weigh(entry, memory_bytes)
        if entry.charge is Charge.RUNNING:
            self._count_stopped(entry, 1)
        self._leave_slot(entry)
        entry.charge = Charge.STOPPED

    def resume(self, container: str, kind: Kind) -> None:
        """Its stopped process goes on.  Raises NoRoom."""
        entry = self._entries[container]
        entry.slot = self._take_slot(kind)
        entry.charge = Charge.RUNNING
        self._count_stopped(entry, -1)
        self.running_bytes += entry.memory_bytes

    def end(self, container: str) -> None:
        """It is gone."""
        entry = self._entries.pop(container)
        if entry.charge is not Charge.RUNNING:
            self._count_stopped(entry, -1)
        if entry.charge is not Charge.STOPPED:
            self._leave_slot(entry)

    def change(self, slots: Mapping[Slot, int]) -> None:
        """From now on there are so many slots."""
        self.slots = dict(slots)

    # ---- parts ----

    def _take_slot(self, kind: Kind) -> Slot:
        slot = next((s for s in SLOTS_FOR[kind] if self._used[s] < self.slots.get(s, 0)), None)
        if slot is None:
            raise NoRoom(f"{self.node.name} has no free container for a {kind.value}: {self.used} of {self.total} used")
        self._used[slot] += 1
        return slot

    def _leave_slot(self, entry: _Entry) -> None:
        if entry.slot is not None:
            self._used[entry.slot] -= 1
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
        """Raise AssertionError where the sums are wrong."""
        entries = list(self._entries.values())
        on_slot = [entry for entry in entries if entry.charge is not Charge.STOPPED]
        held = [entry for entry in entries if entry.charge is not Charge.RUNNING]
        assert self._used == {slot: sum(entry.slot is slot for entry in on_slot) for slot in Slot}
        assert self.running_bytes == sum(entry.memory_bytes for entry in on_slot)
        assert (self.stopped, self.stopped_bytes) == (len(held), sum(entry.memory_bytes for entry in held))


def _gb(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.3g}"

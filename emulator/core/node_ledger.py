"""The ledger of a node: what it has, and what each container uses.  NodeManager and ResourceManager each keep one.

Theory of operation
-------------------
A container is charged with a slot and with memory: the memory of its task or, if that is unknown, the largest that a
container may use.  While its process is stopped it uses no slot, but its memory is still charged.  RAM and swap are
reserved first for a full set of containers of the largest size; the rest is for stopped processes.  At most
``max_suspended`` processes may be stopped (os-assisted-preemption, section III).  So a stopped process can always
resume, and nothing is promised twice.  Room for a process is reserved before it is stopped (``set_aside``), so two that
stop at the same time cannot both take the last room.

A node may have slots for maps only, for reduces only and for any task (Hadoop 1 and FLEX separate the first two).  A
container takes a slot of its own before one for any task; an ApplicationMaster outside containers takes none.  The
slots of a node may change.  The node is then over-committed until it has freed ``surplus`` slots, and gives out no
more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache

from emulator.core.machine import Symbol
from emulator.core.settings import NodeSettings
from emulator.vocabulary import Resources, Work


class Slot(Symbol):
    """What a slot may be used for."""

    MAP = "map"
    REDUCE = "reduce"
    ANY = "any"


class Charge(Enum):
    """What a container uses of its node."""

    RUNNING = "a slot and memory"
    SET_ASIDE = "a slot, memory, and room to be stopped"
    STOPPED = "memory"


class NoRoom(Exception):
    """The node lacks the requested resource; the message says how much it has.  Nothing was changed."""


@dataclass(slots=True)
class _Entry:
    slot: Slot | None
    """None: an ApplicationMaster outside containers, which is charged nothing."""
    memory_bytes: int
    charge: Charge = Charge.RUNNING
    request: Resources = ()
    """What it asked for; empty where all containers have one size."""


SLOTS_FOR = {
    Work.MASTER: (Slot.ANY,),
    Work.SHUFFLE: (Slot.MAP, Slot.ANY),
    Work.KEYS: (Slot.REDUCE, Slot.ANY),
}
"""Slots that a container may use, by what its process does, in the order of preference."""

_WHO = {Work.MASTER: "an ApplicationMaster", Work.SHUFFLE: "a map", Work.KEYS: "a task"}


def slots_of(node: NodeSettings) -> Mapping[Slot, int]:
    """The slots that a node starts with."""
    return _slots(node.containers, node.slots)


@cache  # thousands of nodes are alike
def _slots(containers: int, apart: tuple[int, int] | None) -> Mapping[Slot, int]:
    if apart is None:
        return {Slot.ANY: containers}
    maps, reduces = apart
    return {Slot.MAP: maps, Slot.REDUCE: reduces}


@dataclass(slots=True)
class NodeLedger:
    """See the module's theory of operation."""

    node: NodeSettings
    slots: Mapping[Slot, int] = field(default_factory=dict)
    """Number of slots of each kind; empty: those of ``node``."""
    stopped: int = 0
    """Number of stopped processes, including those with room set aside."""
    stopped_bytes: int = 0
    """Memory of the processes in ``stopped``."""
    running_bytes: int = 0
    """Memory of the processes in a slot."""
    charged: Resources = ()
    """What is held of the node's resources; empty where all containers have one size."""
    _used: dict[Slot, int] = field(default_factory=lambda: dict.fromkeys(Slot, 0))
    _entries: dict[str, _Entry] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.slots = self.slots or slots_of(self.node)

    # ---- reading ----

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
        """Slots in use beyond those that the node still has."""
        return sum(max(0, used - self.slots.get(slot, 0)) for slot, used in self._used.items())

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

    def slot_of(self, container: str) -> Slot | None:
        """The slot that it uses, if any."""
        entry = self._entries.get(container)
        return None if entry is None or entry.charge is Charge.STOPPED else entry.slot

    def on_slot(self, container: str) -> bool:
        """Whether it uses a slot."""
        return self.slot_of(container) is not None

    def __contains__(self, container: str) -> bool:
        return container in self._entries

    # ---- changing ----

    def take(self, container: str, work: Work, memory_bytes: int | None = None, request: Resources = ()) -> None:
        """A container starts; ``request``: what it asks for, if containers have several sizes.  Raises NoRoom."""
        if work is Work.MASTER and self.node.masters_outside:
            self._entries[container] = _Entry(None, 0)
            return
        size_bytes = self.node.charged_bytes(memory_bytes)
        self._entries[container] = _Entry(self._take_slot(work), size_bytes, request=request)
        self.running_bytes += size_bytes

    def set_aside(self, container: str) -> None:
        """A container will be stopped: reserve room for it.  Raises NoRoom."""
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
        """It will not be stopped after all."""
        entry = self._entries[container]
        if entry.charge is Charge.SET_ASIDE:
            self._count_stopped(entry, -1)
            entry.charge = Charge.RUNNING

    def stop(self, container: str, memory_bytes: int | None = None) -> None:
        """Its process is stopped, so its slot is free.  ``memory_bytes``: the memory it uses, known by now."""
        entry = self._entries[container]
        if memory_bytes is not None:
            self._weigh(entry, memory_bytes)
        if entry.charge is Charge.RUNNING:
            self._count_stopped(entry, 1)
        self._leave_slot(entry)
        entry.charge = Charge.STOPPED

    def resume(self, container: str, work: Work) -> None:
        """Its stopped process resumes.  Raises NoRoom."""
        entry = self._entries[container]
        entry.slot = self._take_slot(work)
        entry.charge = Charge.RUNNING
        self._count_stopped(entry, -1)
        self.running_bytes += entry.memory_bytes

    def end(self, container: str) -> None:
        """A container has ended."""
        entry = self._entries.pop(container)
        if entry.charge is not Charge.RUNNING:
            self._count_stopped(entry, -1)
        if entry.charge is not Charge.STOPPED:
            self._leave_slot(entry)

    def change(self, slots: Mapping[Slot, int]) -> None:
        """Set the number of slots from now on."""
        self.slots = dict(slots)

    # ---- parts ----

    def _take_slot(self, work: Work) -> Slot:
        for slot in SLOTS_FOR[work]:
            if self._used[slot] < self.slots.get(slot, 0):
                self._used[slot] += 1
                return slot
        raise NoRoom(f"{self.node.name} has no free container for {_WHO[work]}: {self.used} of {self.total} used")

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
        """Raise AssertionError if the sums are wrong."""
        entries = list(self._entries.values())
        on_slot = [entry for entry in entries if entry.charge is not Charge.STOPPED]
        held = [entry for entry in entries if entry.charge is not Charge.RUNNING]
        assert self._used == {slot: sum(entry.slot is slot for entry in on_slot) for slot in Slot}
        assert self.running_bytes == sum(entry.memory_bytes for entry in on_slot)
        assert (self.stopped, self.stopped_bytes) == (len(held), sum(entry.memory_bytes for entry in held))


def _gb(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.3g}"

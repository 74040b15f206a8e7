"""The values that policies, machines and tables share: what a job is, what a container holds, what a mechanism does."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: object) -> Callable[[type], type]:
        return lambda cls: cls


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Frozen(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """A value: it cannot be changed, equals what has equal fields, and can be a key.

    A simulation makes tens of millions of them, each several times as fast as a dataclass, and writes most of them in
    its journal, where fields that have their default are left out.  They refer to no cycles, so the garbage collector
    need not look at them.
    """


class Kind(str, Enum):
    """What a container holds."""

    APPLICATION_MASTER = "am"
    MAP = "map"
    REDUCE = "reduce"


class Mechanism(str, Enum):
    """What happens to a victim (DESIGN section 2)."""

    WAIT = "wait"
    KILL = "kill"
    SUSPEND = "suspend"
    CHECKPOINT = "checkpoint"
    IMAGE = "image"


class Order(str, Enum):
    """What a trigger, or a user, has done to one task."""

    SUSPEND = "suspend"
    RESUME = "resume"
    KILL = "kill"


class JobFacts(Frozen):
    """What is known of a job from its submission on and never changes.

    Submission, ResourceManager, views and tables share it: a new attribute of a job is added here and where the
    experiment file or the trace is read (``workloads.schema``, ``workloads.expand``).
    """

    name: str
    """Unique in an experiment."""
    queue: str
    maps: int = 0
    reduces: int = 0
    deadline_ns: int | None = None
    """Absolute, emulated; None: it has none."""
    priority: int = 0
    """Larger is more urgent."""
    memory_bytes: int = 0
    """Of one of its containers: the most that a task of it may use."""
    task_memory_bytes: tuple[int, ...] = ()
    """What its tasks really hold of that, cycled over its maps and over its reduces; empty: nothing is known of it."""
    dirty_ppm: int = 1_000_000
    """Share of the memory of its tasks that changes from one image of them to the next, in millionths."""
    weight_ppm: int = 1_000_000
    """How much it counts in weighted metrics, in millionths."""
    sla: tuple[tuple[int, int], ...] = ()
    """Instants, absolute, and what it costs in all, in millionths, to end after each; both rise."""
    min_containers: int | None = None
    """Share it is guaranteed; None: its part of its queue's capacity."""
    max_containers: int | None = None
    """Most containers it may hold at a time; None: as many as it has maps, or reduces."""
    map_ns: int | None = None
    """Mean length of its maps, where that is known beforehand."""
    reduce_ns: int | None = None
    """Mean length of its reduces, likewise."""

    def held_by(self, task: int) -> int | None:
        """Memory that the map or reduce of that number holds, bytes; None: nothing is known of it."""
        held = self.task_memory_bytes
        return held[task % len(held)] if held else None

    def footprint_bytes(self, task: int) -> int:
        """What the process of a task counts for where it is saved whole: what it holds, or all of its container where
        nothing is known of that."""
        held_bytes = self.held_by(task)
        return self.memory_bytes if held_bytes is None else held_bytes

    @property
    def most_containers(self) -> int:
        """That it can use at a time, at least 1."""
        tasks = max(self.maps, self.reduces, 1)
        return tasks if self.max_containers is None else min(tasks, self.max_containers)


class MeasuredCosts(Frozen):
    """Mean costs so far in emulated nanoseconds, None where nothing has been measured yet."""

    schedule_ns: int | None = None
    suspend_ns: int | None = None
    resume_ns: int | None = None


class Tier(Frozen):
    """The storage device of a node, for process images, in emulated bytes and nanoseconds."""

    name: str
    write_bytes_s: int
    read_bytes_s: int
    network_bytes_s: int | None = None
    """To another node; None: at the network's own speed."""
    latency_ns: int = 0
    """Of each dump and each restore, before its first byte."""
    at_once: int = 1
    """Dumps and restores that go on together; they share the device's speed."""
    incremental: bool = True
    """Whether an image rests on the one before, where there is one, and holds only what has changed since."""
    held: bool = True
    """Whether live runs are held to these speeds; the machine's own device is as fast as it is."""

    def dump_bytes(self, facts: JobFacts, task: int, has_image: bool) -> int:
        """What an image of a task of the job writes; ``has_image``: there is one that it can rest on."""
        size_bytes = facts.footprint_bytes(task)
        return size_bytes * facts.dirty_ppm // 1_000_000 if has_image and self.incremental else size_bytes

    def write_ns(self, size_bytes: int) -> int:
        """How long ``size_bytes`` take to be written, nothing else being done."""
        return self.latency_ns + transfer_ns(size_bytes, self.write_bytes_s)

    def read_ns(self, size_bytes: int) -> int:
        """How long ``size_bytes`` take to be read, nothing else being done."""
        return self.latency_ns + transfer_ns(size_bytes, self.read_bytes_s)


def transfer_ns(size_bytes: int, bytes_s: int) -> int:
    """Nanoseconds that ``size_bytes`` take at ``bytes_s`` bytes a second, rounded up."""
    return -(-size_bytes * 10**9 // bytes_s)

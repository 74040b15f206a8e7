"""Values that policies, machines and tables share: jobs, mechanisms and what they save of a task, storage devices."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias, dataclass_transform

import msgspec


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Frozen(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """An immutable value: equal when its fields are equal, and usable as a key.

    A simulation makes tens of millions of them, and making one is several times as fast as making a dataclass.  Most
    are written to the journal, where fields with their default value are left out.  They form no cycles, so the
    garbage collector need not track them.
    """


SECOND_NS = 10**9
MINUTE_NS = 60 * SECOND_NS
HOUR_NS = 60 * MINUTE_NS


def counted(count: int, what: str) -> str:
    """A number with its noun: "1 container", "2 plays", "3,000 entries"."""
    plural = what[:-1] + "ies" if what.endswith("y") and what[-2:-1] not in "aeiou" else what + "s"
    return f"{count:,} {what if count == 1 else plural}"


def mean_s(times_ns: Sequence[int]) -> float | None:
    """The mean of nanoseconds, in seconds; None: there are none."""
    return sum(times_ns) / len(times_ns) / SECOND_NS if times_ns else None


Resources = tuple[int, ...]
"""Amounts of the resources of a cluster, in thousandths, in its order of them (``emulator.policies.resources``); empty
where all containers have one size."""


class Work(StrEnum):
    """What the process in a container does."""

    MASTER = "master"
    """It is the ApplicationMaster of its job."""
    SHUFFLE = "shuffle"
    """It makes output for the job's other tasks, as a map does: it counts no keys."""
    KEYS = "keys"
    """It walks keys, as a reduce does, or is a program: it may leave a checkpoint after each key."""


MASTER = "am"
"""In place of a group's name: the ApplicationMaster."""
MAP = "map"
REDUCE = "reduce"
TASKS = "tasks"


class StartsAfter(Frozen):
    """What must be done before a group's containers are requested (slow start)."""

    group: str
    """Name of another group of the job."""
    share_ppm: int | None = None
    """Share of its tasks that must have succeeded, in millionths; None: ``protocol.slow_start``."""


class TaskGroup(Frozen):
    """Tasks of a job that are alike: its maps, its reduces, its programs, or a group with a name of its own.

    Add what is asked for each of a group's tasks here.
    """

    name: str
    """Unique in its job; the word for its tasks in tables and messages."""
    count: int
    work: Work = Work.KEYS
    may_be_victim: bool | None = None
    """Whether its tasks may be preempted; None: as ``scheduler.victims`` says of its kind of work."""
    starts_after: StartsAfter | None = None
    """What its containers wait for; None: they are requested when the job starts."""
    mean_ns: int | None = None
    """Mean length of its tasks, where known beforehand."""
    request: Resources = ()
    """What each of its tasks asks for, in thousandths; empty where all containers have one size."""
    task_memory_bytes: tuple[int, ...] = ()
    """Memory that its tasks really use, cycled over them; empty: as the job's."""


MASTER_GROUP = TaskGroup(MASTER, 1, Work.MASTER, may_be_victim=False)
"""The group of every job's ApplicationMaster."""


def map_reduce(maps: int, reduces: int) -> tuple[TaskGroup, ...]:
    """The groups of a MapReduce job."""
    of_maps = (TaskGroup(MAP, maps, Work.SHUFFLE),) if maps else ()
    after = StartsAfter(MAP) if maps else None
    return (*of_maps, TaskGroup(REDUCE, reduces, starts_after=after)) if reduces else of_maps


class TaskId(NamedTuple):
    """One task of a job."""

    group: str
    number: int
    """Among the tasks of its group, from 0."""


class Mechanism(StrEnum):
    """What happens to a victim."""

    WAIT = "wait"
    KILL = "kill"
    SUSPEND = "suspend"
    CHECKPOINT = "checkpoint"
    IMAGE = "image"


ReclaimMechanism = Literal["kill", "suspend", "checkpoint", "image"]
"""What may happen to a task that is taken back: all but ``wait``."""


class Order(StrEnum):
    """What a trigger, or a user, orders for one task."""

    SUSPEND = "suspend"
    RESUME = "resume"
    KILL = "kill"


class Details:
    """What a job is to one kind of scheduler, beside what it is to all; ``emulator.sites.details`` has the kinds."""

    __slots__ = ()


class JobFacts(Frozen, gc=True, dict=True):
    """What is known of a job when it is submitted and never changes.

    Submission, ResourceManager, views and tables share it.  Add a new attribute of a job here, and where the experiment
    file or the trace is read (``workloads.schema``, ``emulator.experiment.expand``).  It has a dictionary for what is
    counted from its fields once.
    """

    name: str
    """Unique in an experiment."""
    queue: str
    """The queue to which the job was submitted."""
    groups: tuple[TaskGroup, ...] = ()
    """The groups of its tasks."""
    deadline_ns: int | None = None
    """The absolute emulated time of its deadline; None: it has none."""
    priority: int = 0
    """Larger is more urgent."""
    memory_bytes: int = 0
    """Size of one of its containers: the most memory that one of its tasks may use."""
    task_memory_bytes: tuple[int, ...] = ()
    """Memory that its tasks really use, cycled over the tasks of each group; empty: unknown."""
    dirty_ppm: int = 1_000_000
    """Share of a task's memory that changes between one image and the next, in millionths."""
    memory_at_start_ppm: int = 1_000_000
    """Share of a task's memory that it uses when it starts, in millionths; the rest comes evenly with its progress."""
    weight_ppm: int = 1_000_000
    """How much it counts in weighted metrics, in millionths."""
    sla: tuple[tuple[int, int], ...] = ()
    """Pairs (absolute instant, total cost in millionths of finishing after it); both values rise."""
    min_containers: int | None = None
    """Containers it is guaranteed; None: its part of its queue's capacity."""
    max_containers: int | None = None
    """Most containers it may hold at a time; None: as many as its tasks that write output for the
    shuffle, or its other tasks, whichever are more."""
    gang: int | None = None
    """Fewest of its tasks that must have room at once before any of them starts; None: each starts by itself."""
    grace_ns: int = 0
    """How long a task that is evicted by a kill may still run after SIGTERM; then it gets SIGKILL."""
    minimum_runtime_ns: int = 0
    """How long a task must have run, since it last started or resumed, before it may be a victim."""
    checkpoint_period_ns: int | None = None
    """How often a task that walks keys saves by itself what it has done, in its active time; None: never."""
    mechanism: Mechanism | None = None
    """What happens to its tasks when they are taken back; None: as for all jobs."""
    details: Details | None = None
    """What the job is to the kind of scheduler that decides; None: no more than to all."""
    master_request: Resources = ()
    """What its ApplicationMaster asks for; empty: as those of other jobs."""

    @cached_property
    def maps(self) -> int:
        """How many of its tasks write output for the shuffle."""
        return sum([group.count for group in self.groups if group.work is Work.SHUFFLE])

    @cached_property
    def reduces(self) -> int:
        """How many of its tasks walk keys."""
        return sum([group.count for group in self.groups if group.work is Work.KEYS])

    def group(self, name: str) -> TaskGroup:
        """The group with this name, or that of its ApplicationMaster.  Raises KeyError."""
        for group in self.groups:
            if group.name == name:
                return group
        if name == MASTER:
            return MASTER_GROUP
        raise KeyError(name)

    def meant(self, group: str) -> str:
        """The name of the group that a user means: of a job of programs, ``reduce`` means its programs."""
        is_other = group == REDUCE and all(each.name != REDUCE for each in self.groups)
        return TASKS if is_other and any(each.name == TASKS for each in self.groups) else group

    def lacks(self, group: str, task: int) -> str | None:
        """Why it has no such task, in words; None: it has it."""
        name = self.meant(group)
        count = sum(each.count for each in self.groups if each.name == name)
        words = {MAP: "maps", REDUCE: "reduces", TASKS: "tasks"}.get(name, f"tasks in its group '{name}'")
        return f"'{self.name}' has {count} {words}, counted from 0" if task >= count else None

    def index_of(self, group: str, task: int) -> int:
        """The place of a task among all tasks of the job that do the same work: its lengths, its keys and its data have
        it."""
        found, before = self.group(group), 0
        for other in self.groups:
            if other is found:
                break
            before += other.count if other.work is found.work else 0
        return before + task

    def held_by(self, group: str, task: int) -> int | None:
        """Memory that the task of a group with this number uses, bytes; None: unknown."""
        held = self.group(group).task_memory_bytes or self.task_memory_bytes
        return held[task % len(held)] if held else None

    def footprint_bytes(self, group: str, task: int, done_ppm: int = 1_000_000) -> int:
        """Bytes to save when the whole process of a task is saved that has done this share of its work, in millionths:
        the memory it uses by then, of its whole container where that is unknown."""
        held_bytes = self.held_by(group, task)
        most_bytes = self.memory_bytes if held_bytes is None else held_bytes
        unused_ppm = (1_000_000 - self.memory_at_start_ppm) * (1_000_000 - done_ppm) // 1_000_000
        return most_bytes * (1_000_000 - unused_ppm) // 1_000_000

    @cached_property
    def most_containers(self) -> int:
        """Most containers it can use at a time, at least 1."""
        tasks = max(self.maps, self.reduces, 1)
        return tasks if self.max_containers is None else min(tasks, self.max_containers)


class KeyCheckpoint(Frozen, tag="key-checkpoint"):
    """What natjam section 3.1 saves for a suspended reduce; the ApplicationMaster keeps it and sends it at resume."""

    past_containers: tuple[str, ...]
    """Containers of the suspended attempts, in order; the output consists of their partial outputs in this order."""
    keys_done: int
    location: str
    """Local path of the merged reduce input on ``node``."""
    node: str
    """Node of the last attempt that saved it, preferred at resume."""
    size_bytes: int = 0


class ProcessImage(Frozen, tag="process-image"):
    """A saved process with its memory, on the storage device (CRIU)."""

    past_containers: tuple[str, ...]
    """As in a key checkpoint; the last one is the container of the process."""
    keys_done: int
    """Keys that a reduce had done when the image was made."""
    location: str
    """Path of the file."""
    node: str
    """The node where the process ran."""
    size_bytes: int
    """Size of its memory: what a restore reads."""
    checksum: str
    in_key_ns: int = 0
    """Active time already spent on the key in progress (for a map: on all its work)."""
    written_bytes: int | None = None
    """What making it has written: of an incremental image, what had changed since the one before; None: all of it."""
    whole: bool = False
    """It rests on no other image, though it says what was written: a page that is there twice is written once."""

    @property
    def is_incremental(self) -> bool:
        """Whether it builds on an earlier image."""
        return self.written_bytes is not None and not self.whole

    @property
    def bytes_written(self) -> int:
        """Bytes written to make it."""
        return self.size_bytes if self.written_bytes is None else self.written_bytes


Saved: TypeAlias = KeyCheckpoint | ProcessImage
"""What is left of the work of a process that has ended."""


class MeasuredCosts(Frozen):
    """Mean costs so far in emulated nanoseconds; None: nothing has been measured yet."""

    schedule_ns: int | None = None
    """From a container with all its input to the first key of a new task."""
    suspend_ns: int | None = None
    """From the order to give way until the ResourceManager has the container back."""
    resume_ns: int | None = None
    """From a container with all its input to the first new key of a resumed task."""


class Tier(Frozen):
    """The storage device of a node, which holds process images; emulated bytes and nanoseconds."""

    name: str
    """``hdd``, ``ssd``, ``nvm``, ``native`` or one of your own."""
    write_bytes_s: int
    """Speed of writing images."""
    read_bytes_s: int
    """Speed of reading them back."""
    network_bytes_s: int | None = None
    """Speed of copying to another node; None: the speed of the network."""
    latency_ns: int = 0
    """Delay of each dump and each restore before its first byte."""
    at_once: int = 1
    """Dumps and restores that run at the same time; they share the device's speed."""
    incremental: bool = True
    """Whether an image holds only what has changed since the task's previous image, if it has one."""
    held: bool = True
    """Whether live runs are slowed down to these speeds; False: the machine's own device sets the speed."""

    def dump_bytes(self, facts: JobFacts, group: str, task: int, has_image: bool, done_ppm: int = 1_000_000) -> int:
        """Bytes that an image of a task of the job writes that has done this share of its work, in millionths;
        ``has_image``: an earlier image exists to build on."""
        size_bytes = facts.footprint_bytes(group, task, done_ppm)
        return size_bytes * facts.dirty_ppm // 1_000_000 if has_image and self.incremental else size_bytes

    def write_ns(self, size_bytes: int) -> int:
        """Time to write ``size_bytes`` when the device does nothing else."""
        return self.latency_ns + transfer_ns(size_bytes, self.write_bytes_s)

    def read_ns(self, size_bytes: int) -> int:
        """Time to read ``size_bytes`` when the device does nothing else."""
        return self.latency_ns + transfer_ns(size_bytes, self.read_bytes_s)


def transfer_ns(size_bytes: int, bytes_s: int) -> int:
    """Nanoseconds that ``size_bytes`` take at ``bytes_s`` bytes a second, rounded up."""
    return -(-size_bytes * 10**9 // bytes_s)

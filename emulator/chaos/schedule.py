"""What goes wrong in a run, and when: a list of faults, drawn by seed.

A fault says when it comes, how long it lasts, and a number from which whoever carries it out picks whom it meets among
those there are at that moment.  So a list stays a list of faults whatever is taken out of it, which is what makes it
possible to shrink (``emulator.chaos.shrink``).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from emulator.core.machine import keyed_random
from emulator.vocabulary import Frozen

_MOST_FAULTS = 6
_SHORTEST_NS, _LONGEST_NS = 100_000_000, 60_000_000_000
_PICKS = 1 << 20


class FaultKind(str, Enum):
    """What can go wrong."""

    CRASH = "crash"
    """The process of a map or reduce ends by a signal."""
    MASTER_DEATH = "master-death"
    """The process of an ApplicationMaster ends by a signal."""
    MASTERS_DEATH = "masters-death"
    """The host of ApplicationMasters is gone, and all of them with it."""
    MANAGER_DEATH = "manager-death"
    """The host of ResourceManager and client is gone for a while."""
    SUPERVISOR_DEATH = "supervisor-death"
    """All task processes of a node end by a signal; its NodeManager lives."""
    NODE_DEATH = "node-death"
    """A node is gone with all that runs on it."""
    SILENT_DEATH = "silent-death"
    """The same, and nobody is told: it has to be missed."""
    FALSE_DEATH = "false-death"
    """The ResourceManager is told that a node which lives is lost."""
    PAUSE = "pause"
    """A machine does nothing for a while, and then all that it has missed."""
    PARTITION = "partition"
    """For a while no message comes to a node or leaves it."""
    BAD_NETWORK = "bad-network"
    """For a while messages are lost, doubled and late."""
    LOST_OUTPUT = "lost-output"
    """The output of a map that has ended is gone."""
    SHUFFLE_DEATH = "shuffle-death"
    """For a while no output of a map can be had from a node."""
    BAD_CHECKPOINT = "bad-checkpoint"
    """What a suspended task has saved is lost or damaged."""
    FULL_DISK = "full-disk"
    """For a while nothing can be written on a node."""
    SLOW_DISK = "slow-disk"
    """For a while everything that is written on a node takes long."""
    CLOCK_STEP = "clock-step"
    """The clock of a machine is ahead of the others' from now on."""


DESTRUCTIVE = frozenset(
    {
        *(FaultKind.CRASH, FaultKind.MASTER_DEATH, FaultKind.MASTERS_DEATH, FaultKind.SUPERVISOR_DEATH),
        *(FaultKind.NODE_DEATH, FaultKind.SILENT_DEATH, FaultKind.FALSE_DEATH, FaultKind.FULL_DISK),
    }
)
"""These may make a job fail: attempts at a task, masters and nodes are not there without number."""


class Fault(Frozen):
    """One thing that goes wrong.  Times are emulated nanoseconds."""

    kind: FaultKind
    at_ns: int
    for_ns: int
    """How long it lasts, where it lasts; of a clock step: how far."""
    pick: int
    """Whom it meets, of those there are: the ``pick`` modulo their number."""

    def __str__(self) -> str:
        return f"{self.at_ns / 1e9:.3f} s {self.kind.value} for {self.for_ns / 1e9:.3f} s, pick {self.pick}"


def draw_faults(seed: int, span_ns: int, kinds: Sequence[FaultKind]) -> tuple[Fault, ...]:
    """The faults of ``seed`` for a run that takes ``span_ns`` when nothing goes wrong, in the order of time.

    As many short ones are drawn as long ones, from a tenth of a second to a minute, or to a quarter of the run where
    that is less.
    """
    random = keyed_random(seed, "chaos")
    longest_ns = max(2 * _SHORTEST_NS, min(_LONGEST_NS, span_ns // 4))
    faults = []
    for _ in range(1 + random.randrange(_MOST_FAULTS)):
        kind = kinds[random.randrange(len(kinds))]
        doublings = random.randrange((longest_ns // _SHORTEST_NS).bit_length())
        for_ns = min(longest_ns, (_SHORTEST_NS << doublings) + random.randrange(_SHORTEST_NS << doublings))
        faults.append(Fault(kind, random.randrange(span_ns), for_ns, random.randrange(_PICKS)))
    return tuple(sorted(faults, key=lambda fault: fault.at_ns))

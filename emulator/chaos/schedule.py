"""What goes wrong in a run, and when: a list of faults, drawn by seed.

A fault has a time, a duration, and a number.  When it happens, the number selects its target among those that exist at
that moment.  So any part of a list is again a valid list of faults, which makes it possible to shrink a list
(``emulator.shrink``).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TypeVar

from emulator.core.machine import keyed_random
from emulator.vocabulary import Frozen

T = TypeVar("T")

_MAX_FAULTS = 6
_SHORTEST_NS, _LONGEST_NS = 100_000_000, 60_000_000_000
_PICKS = 1 << 20


class FaultKind(StrEnum):
    """What can go wrong."""

    CRASH = "crash"
    """The process of a map or reduce ends by a signal."""
    MASTER_DEATH = "master-death"
    """The process of an ApplicationMaster ends by a signal."""
    MASTERS_DEATH = "masters-death"
    """The host of ApplicationMasters is gone, and all of them with it; after a while this is known."""
    MANAGER_DEATH = "manager-death"
    """The host of ResourceManager and client is down for a while."""
    SUPERVISOR_DEATH = "supervisor-death"
    """All task processes of a node end by a signal; its NodeManager lives."""
    NODE_DEATH = "node-death"
    """A node dies with all that runs on it."""
    SILENT_DEATH = "silent-death"
    """The same, but nobody is notified; it must be noticed by its silence."""
    NODE_RETURN = "node-return"
    """A node is gone with all that runs on it, and known to be; after a while it is there again, with nothing."""
    NODE_RESTART = "node-restart"
    """The same, but it is there again before anybody has missed it."""
    FALSE_DEATH = "false-death"
    """The ResourceManager is notified that a living node is lost."""
    PAUSE = "pause"
    """A machine does nothing for a while, and then handles all messages it has missed."""
    PARTITION = "partition"
    """For a while no message reaches or leaves a node."""
    BAD_NETWORK = "bad-network"
    """For a while messages are lost, duplicated and delayed."""
    LOST_OUTPUT = "lost-output"
    """The output of a map that has ended is lost."""
    SHUFFLE_DEATH = "shuffle-death"
    """For a while a node serves no map outputs."""
    BAD_CHECKPOINT = "bad-checkpoint"
    """The saved state of a suspended task is lost or damaged."""
    FULL_DISK = "full-disk"
    """For a while nothing can be written on a node."""
    SLOW_DISK = "slow-disk"
    """For a while all writes on a node are slow."""
    CLOCK_STEP = "clock-step"
    """From now on the clock of a machine is ahead of the others'."""


DESTRUCTIVE = frozenset(
    {
        *(FaultKind.CRASH, FaultKind.MASTER_DEATH, FaultKind.MASTERS_DEATH, FaultKind.SUPERVISOR_DEATH),
        *(FaultKind.NODE_DEATH, FaultKind.SILENT_DEATH, FaultKind.NODE_RETURN, FaultKind.FALSE_DEATH),
        FaultKind.FULL_DISK,
    }
)
"""These may make a job fail, because the numbers of attempts, masters and nodes are limited."""


class Fault(Frozen):
    """One fault.  Times are emulated nanoseconds."""

    kind: FaultKind
    at_ns: int
    for_ns: int
    """How long it lasts, if it lasts; for a clock step: how far the clock moves."""
    pick: int
    """Selects its target: number ``pick`` modulo the number of possible targets."""

    def target(self, among: Sequence[T]) -> T | None:
        """The one of ``among`` that it hits; None if there are none."""
        return among[self.pick % len(among)] if among else None

    def __str__(self) -> str:
        return f"{self.at_ns / 1e9:.3f} s {self.kind.value} for {self.for_ns / 1e9:.3f} s, pick {self.pick}"


def draw_faults(seed: int, span_ns: int, kinds: Sequence[FaultKind]) -> tuple[Fault, ...]:
    """The faults of ``seed``, in the order of time, for a run that takes ``span_ns`` without faults.

    Durations are from a tenth of a second to a minute, or to a quarter of the run if that is less; short ones are as
    likely as long ones.
    """
    random = keyed_random(seed, "chaos")
    longest_ns = max(2 * _SHORTEST_NS, min(_LONGEST_NS, span_ns // 4))
    faults = []
    for _ in range(1 + random.randrange(_MAX_FAULTS)):
        kind = kinds[random.randrange(len(kinds))]
        doublings = random.randrange((longest_ns // _SHORTEST_NS).bit_length())
        for_ns = min(longest_ns, (_SHORTEST_NS << doublings) + random.randrange(_SHORTEST_NS << doublings))
        faults.append(Fault(kind, random.randrange(span_ns), for_ns, random.randrange(_PICKS)))
    return tuple(sorted(faults, key=lambda fault: fault.at_ns))

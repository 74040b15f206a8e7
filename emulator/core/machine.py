"""What all state machines here share: a literal table of arcs, timers, seeded phases.

Theory of operation
-------------------
A machine is an object with ``address`` and ``handle(message, now_ns) -> list[Effect]``.  It does no I/O and reads no
clock: it gets the time as emulated nanoseconds and returns effects, and the driver (live or simulated) carries them
out.  The same messages at the same times give the same effects; this makes a journal replayable.  Random numbers come
from ``keyed_random``, whose key is the seed, the machine and the decision.  They never come from a stream, whose
position would depend on history.

The contract for heartbeats that a driver may leave out:

* The driver sends ``Tick`` at the times of a machine's ``heartbeat``; no machine sets a timer for it.
* A message changes something, so ``revision`` grows, unless its handler calls ``skip_journal``.  Only handlers of
  ticks, heartbeats and responses may do so.  A message that changed nothing and has no content is not journalled, and a
  run without it is the same run.
* ``heartbeat_due_ns`` gives the earliest time at which a tick may matter, never too late.  A decision of a policy holds
  until its input changes, or until the time that the policy names.
* Each heartbeat carries ``heard_id``.  The ResourceManager repeats its last news if that id is older; to a node only if
  its heartbeat reports something.  It does not record ids, so a heartbeat that only acknowledges something changes
  nothing.
* Messages of one instant are handled first in, first out, each with its effects before the next.  A message to a
  machine in answer to an effect comes after the messages that waited before it.  Timers with ``is_last`` fire when none
  is left; ticks come after them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from random import Random
from typing import Any, ClassVar, NamedTuple

from msgspec.structs import replace

from emulator.core.effects import Effect, SetTimer
from emulator.core.messages import Message, TimerFired


class Symbol(Enum):
    """A state or an event, hashed by identity: ``Enum`` hashes by name, in Python, which costs as much as an arc."""

    __hash__ = object.__hash__


class StateMachine:
    """One role (ResourceManager, NodeManager, ApplicationMaster, Client) as a pure state machine.

    It passes each message to its handler, and counts the revision.  Its driver sends it ``Tick`` at the times of
    ``heartbeat``, or only at those that may matter.
    """

    address: str
    heartbeat: Phase | None = None
    """When it gets ``Tick``; None: never."""
    handlers: ClassVar[Mapping[type[Message], Callable[[Any, Any, int], list[Effect]]]]
    """By the type of the message: ``handler(machine, message, now_ns)``."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.revision = 0
        """Grows with every message that changes something; an empty heartbeat and its response change nothing."""
        self._skips_journal = False

    def handle(self, message: Message, now_ns: int) -> list[Effect]:
        """Handle one message at emulated time ``now_ns``; returns what the driver must do."""
        handler = self.handlers.get(type(message))
        if handler is None:
            raise IllegalTransition(f"{self.address}: {type(message).__name__} is not for this machine")
        effects = handler(self, message, now_ns)
        if self._skips_journal:
            self._skips_journal = False
        else:
            self.revision += 1
        return effects

    @property
    def received_id(self) -> int:
        """Id of the last news of the ResourceManager that it has received; -1 if it never waits for any."""
        return -1

    def heartbeat_due_ns(self, now_ns: int) -> int | None:
        """From when on its heartbeats may say or change something, as known at ``now_ns``; None: never.

        The time is never too late: before it, while nothing happens to the machine, each heartbeat is empty.  Drivers
        that leave empty heartbeats out ask for it.
        """
        return None

    def skip_journal(self) -> None:
        """The message being handled (a tick, a heartbeat or a response) has changed nothing."""
        self._skips_journal = True

    def validate_state(self) -> None:
        """Raise AssertionError if an invariant of the machine does not hold; used by tests and ``natjam chaos``."""


class IllegalTransition(Exception):
    """The state has no arc for this event; nothing was changed."""


class Arc(NamedTuple):
    """One arc of a state machine: where it leads, and what is done on it."""

    target: Enum
    action: Callable[..., Any] = lambda machine, *facts: None
    """The method that changes the rest of the machine, which is in its new state by then, and returns what has to be
    done outside it; it takes the facts of the event.  By default nothing else changes."""


class Stateful:
    """What has a state, and one literal table of the arcs between its states."""

    __slots__ = ()

    state: Any
    arcs: ClassVar[Mapping[tuple[Any, Any], Arc]]
    """By the state that an arc leaves and the event: a symbol, or the type of a message."""

    def take(self, event: Enum | type, *facts: Any) -> Any:
        """Take the arc of an event; returns what its action returns.  Raises IllegalTransition, without changing
        anything, if the state has no such arc."""
        arc = self.arcs.get((self.state, event))
        if arc is None:
            said = event.__name__ if isinstance(event, type) else event.value
            raise IllegalTransition(f"{type(self).__name__} {self}: no arc for {said} in {self.state.value}")
        self.state = arc.target
        return arc.action(self, *facts)


class Timers:
    """The timers of one machine.  Each setting has a new generation, so an outdated firing can be recognised."""

    def __init__(self) -> None:
        self._pending: dict[str, SetTimer] = {}
        self._count = 0

    def set(self, name: str, at_ns: int, is_last: bool = False) -> SetTimer:
        """Set (or reset) the timer ``name`` to the emulated time ``at_ns``; ``is_last``: see ``SetTimer``."""
        self._count += 1
        timer = self._pending[name] = SetTimer(name, at_ns, self._count, is_last)
        return timer

    def take(self, fired: TimerFired) -> bool:
        """Whether this firing is current; if so, the timer is used up."""
        timer = self._pending.get(fired.name)
        if timer is None or timer.generation != fired.generation:
            return False
        del self._pending[fired.name]
        return True

    def forget(self, name: str) -> None:
        """Cancel the timer: a later firing of ``name`` is outdated."""
        self._pending.pop(name, None)

    def again(self, now_ns: int) -> list[SetTimer]:
        """The timers that are set, for a driver that has lost them; overdue timers fire now."""
        return [replace(timer, at_ns=max(now_ns, timer.at_ns)) for timer in self._pending.values()]


class Phase:
    """The times ``phase + k * period`` at which one machine does something periodically.

    ``what`` is "heartbeat" for heartbeats, and "preemptor" for the ResourceManager's Preemptor.
    """

    __slots__ = ("period_ns", "phase_ns")

    def __init__(self, seed: int, who: str, what: str, period_ns: int) -> None:
        self.period_ns = period_ns
        self.phase_ns = keyed_random(seed, who, what).randrange(period_ns)

    def after(self, now_ns: int) -> int:
        """The first such time later than ``now_ns``."""
        return self.phase_ns + ((now_ns - self.phase_ns) // self.period_ns + 1) * self.period_ns

    def until(self, now_ns: int) -> int:
        """The last such time not later than ``now_ns`` (may be negative)."""
        return self.phase_ns + (now_ns - self.phase_ns) // self.period_ns * self.period_ns


def keyed_random(seed: int, *key: object) -> Random:
    """A random generator for one decision: equal keys give equal draws on every machine, whatever came before."""
    return Random(":".join(map(str, (seed, *key))))

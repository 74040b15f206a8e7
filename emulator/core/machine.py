"""What every state machine here has in common: a literal transition table, timers, seeded phases.

Theory of operation
-------------------
A machine is an object with ``address`` and ``handle(message, now_ns) -> list[Effect]``.  It performs no I/O and reads
no clock: time comes in as emulated nanoseconds, wishes go out as effects, and the driver (live or simulated) carries
them out.  Given the same messages at the same times it returns the same effects, which is what makes a journal
replayable.  Randomness is drawn from ``keyed_random``, whose key is the seed, the machine and the decision, never from
a stream whose position depends on history.

The contract for heartbeats that a driver may leave out:

* The driver tells ``Tick`` at the instants of a machine's ``heartbeat``; no machine sets a timer for it.
* A message changes something, and ``revision`` grows with it, unless its handler says otherwise: only those of ticks,
  heartbeats and responses may call ``leaves_no_trace``.  What has changed nothing and says nothing is not journalled,
  and a run without it is the same run.
* ``heartbeat_due_ns`` says from when on a tick may matter, never too late.  A decision of a policy holds until what it
  was made from changes, or until the instant it names.
* Messages of one instant are handled first in, first out, each with its effects before the next; what a machine is told
  in answer to an effect comes after what waited before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from random import Random
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from emulator.core.effects import Effect, SetTimer
from emulator.core.messages import Message, TimerFired

StateT = TypeVar("StateT", bound=Enum)
EventT = TypeVar("EventT", bound=Enum)


class Machine(Protocol):
    """One role (ResourceManager, NodeManager, ApplicationMaster, Client) as a pure state machine."""

    address: str

    @property
    def revision(self) -> int:
        """Grows with every change of state; a heartbeat that says nothing and its response make none."""
        ...

    def handle(self, message: Message, now_ns: int) -> list[Effect]:
        """Take one message at emulated time ``now_ns``; return what the driver must do about it."""
        ...

    def validate_state(self) -> None:
        """Raise AssertionError when an invariant of the machine does not hold; used by tests and ``--strict``."""
        ...


class PeriodicMachine(Machine, Protocol):
    """One that its driver tells ``Tick`` at the instants of ``heartbeat``, or only at those that may matter."""

    @property
    def heartbeat(self) -> Phase | None:
        """When it is told ``Tick``; None: never."""
        ...

    def heartbeat_due_ns(self, now_ns: int) -> int | None:
        """From when on its heartbeats may say or change something, as things stand at ``now_ns``; None: none will.

        Never too late: before that, and as long as nothing happens to the machine, each is empty.  Asked for by a
        driver that leaves empty ones out.
        """
        ...


class StateMachine:
    """Base of the machines: each message goes to its handler, and the revision grows by itself."""

    address: str
    handlers: ClassVar[Mapping[type[Message], Callable[[Any, Any, int], list[Effect]]]]
    """By the type of the message: ``handler(machine, message, now_ns)``."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.revision = 0
        """Grows with every message that changes something."""
        self._traceless = False

    def handle(self, message: Message, now_ns: int) -> list[Effect]:
        """Take one message; see ``Machine``."""
        handler = self.handlers.get(type(message))
        if handler is None:
            raise IllegalTransition(f"{self.address}: {type(message).__name__} is not for this machine")
        effects = handler(self, message, now_ns)
        if self._traceless:
            self._traceless = False
        else:
            self.revision += 1
        return effects

    def leaves_no_trace(self) -> None:
        """The message that is being handled, a tick or a heartbeat or a response, has changed nothing."""
        self._traceless = True


class IllegalTransition(Exception):
    """An event arrived that the state has no arc for; nothing has been changed."""


class TransitionTable(Generic[StateT, EventT]):
    """The arcs of one kind of state machine, written as a literal mapping (state, event) -> next state."""

    def __init__(self, name: str, arcs: Mapping[tuple[StateT, EventT], StateT]) -> None:
        self.name = name
        self.arcs = dict(arcs)

    def next(self, state: StateT, event: EventT, who: str) -> StateT:
        """Return the state that ``event`` leads to; raise IllegalTransition naming ``who`` when there is no arc."""
        target = self.arcs.get((state, event))
        if target is None:
            raise IllegalTransition(f"{self.name} {who}: no arc for {event.value} in {state.value}")
        return target

    def allows(self, state: StateT, event: EventT) -> bool:
        """Whether ``state`` has an arc for ``event``."""
        return (state, event) in self.arcs


class Timers:
    """The timers of one machine.  Each setting gets a new generation, so that a stale firing can be told apart."""

    def __init__(self) -> None:
        self._pending: dict[str, SetTimer] = {}
        self._count = 0

    def set(self, name: str, at_ns: int) -> SetTimer:
        """Arm (or re-arm) the timer ``name`` for emulated instant ``at_ns``."""
        self._count += 1
        timer = self._pending[name] = SetTimer(name, at_ns, self._count)
        return timer

    def take(self, fired: TimerFired) -> bool:
        """Whether this firing is current; a current one is used up."""
        timer = self._pending.get(fired.name)
        if timer is None or timer.generation != fired.generation:
            return False
        del self._pending[fired.name]
        return True

    def forget(self, name: str) -> None:
        """Disarm: a later firing of ``name`` is stale."""
        self._pending.pop(name, None)

    def again(self, now_ns: int) -> list[SetTimer]:
        """Those that are armed, for a driver that has forgotten them; what was due before now fires now."""
        return [SetTimer(timer.name, max(now_ns, timer.at_ns), timer.generation) for timer in self._pending.values()]


class Phase:
    """The instants ``phase + k * period`` at which one machine does something periodically.

    Of heartbeats ``what`` is "heartbeat", of the ResourceManager's "preemptor".
    """

    __slots__ = ("period_ns", "phase_ns")

    def __init__(self, seed: int, who: str, what: str, period_ns: int) -> None:
        self.period_ns = period_ns
        self.phase_ns = keyed_random(seed, who, what).randrange(period_ns)

    def after(self, now_ns: int) -> int:
        """The first instant strictly later than ``now_ns``."""
        return self.phase_ns + ((now_ns - self.phase_ns) // self.period_ns + 1) * self.period_ns

    def until(self, now_ns: int) -> int:
        """The last instant not later than ``now_ns`` (may be negative)."""
        return self.phase_ns + (now_ns - self.phase_ns) // self.period_ns * self.period_ns


def keyed_random(seed: int, *key: object) -> Random:
    """A generator of its own for one decision: equal keys draw equally on every machine, whatever came before."""
    return Random(":".join(map(str, (seed, *key))))

"""The base of allocations by whoever is told what happens, in the words of ``emulator.policies.news``.

Theory of operation
-------------------
It is asked whenever anything has changed, and when the time has come that it has named.  What it says is checked
(``said_decisions``) before it is carried out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from emulator.core.effects import Effect
from emulator.core.machine import Timers
from emulator.core.messages import TimerFired
from emulator.core.resource_manager.allocation import Asked, Decision, Occasion
from emulator.core.resource_manager.by_contract import Parts
from emulator.core.resource_manager.said_decisions import SaidDecisions
from emulator.core.resource_manager.scheduler_news import SchedulerNews


class ByTold(ABC):
    """See the module's theory of operation; an ``Allocation``."""

    timer: ClassVar[str]
    """For the time at which it wants to be asked again."""

    def __init__(self, parts: Parts) -> None:
        self.changes = 0
        self._said = SaidDecisions(parts)
        self._news = SchedulerNews(parts.state, parts.settings.scheduler.may_take)
        self._timers = Timers()
        self._is_due = False
        """Whether it must be asked even if there is no news."""
        self._effects: list[Effect] = []

    def fired(self, timer: TimerFired) -> None:
        """The time has come at which it wanted to be asked again."""
        self._is_due |= self._timers.take(timer)

    def asked_ns(self, occasion: Occasion, now_ns: int) -> int | None:
        """See ``Allocation``: whenever anything has changed."""
        return None if occasion in (Occasion.HEARTBEAT, Occasion.TIME) else now_ns

    def decide(self, asked: Asked) -> Iterator[Decision]:
        """See ``Allocation``."""
        return iter(()) if self.asked_ns(asked.occasion, asked.now_ns) is None else self._decide(asked.now_ns)

    def explain(self) -> list[Effect]:
        """See ``Allocation``; and its timer, and what else is to be done for it."""
        effects, self._effects = self._effects, []
        return effects

    def _ask_again(self, at_ns: int | None) -> None:
        if at_ns is None:
            self._timers.forget(self.timer)
        else:
            self._effects.append(self._timers.set(self.timer, at_ns))

    @abstractmethod
    def begin_anew(self, now_ns: int) -> list[Effect]:
        """The ResourceManager was away."""

    @abstractmethod
    def _decide(self, now_ns: int) -> Iterator[Decision]:
        """Ask it, as far as there is anything to ask, and decide what it has said."""

"""Allocation by a scheduler that people run, whose rules are natjam's own (``emulator.policies.news.Scheduler``).

Theory of operation
-------------------
It is told what a process outside would be told, in the same words (``docs/outside.md``), and answers in the same
instant.  It hears whenever anything has changed, and when its own time has come.  If it then wants to decide at this
very instant, it does so after what else happens now by itself: when its timer for now has fired ``_QUIET`` times
without any news.  What it has decided is told to it when it hears next.  A decision that cannot be carried out ends the
run: nothing can have overtaken it.
"""

from __future__ import annotations

from collections.abc import Iterator

from emulator.core.decisions import PolicyError
from emulator.core.effects import Effect
from emulator.core.machine import Timers
from emulator.core.messages import TimerFired
from emulator.core.resource_manager.allocation import Asked, Decision, Occasion
from emulator.core.resource_manager.by_contract import Parts
from emulator.core.resource_manager.said_decisions import CannotBeError, SaidDecisions
from emulator.core.resource_manager.scheduler_news import SchedulerNews, first_news
from emulator.policies.allocation_forms import SchedulerAllocation
from emulator.policies.news import Answer, CannotGoOnError, News

_AGAIN = "ask the scheduler"
_QUIET = 3
"""What happens at an instant reaches the ResourceManager in steps: a process ends, its node says so, then its job.

With two, a job that ended exactly at a pass of Slurm was seen one pass late: drawn sites, compared with the player,
showed that.
"""


class ByScheduler:
    """See the module's theory of operation; an ``Allocation``."""

    def __init__(self, parts: Parts) -> None:
        allocation = parts.settings.scheduler.allocation
        assert isinstance(allocation, SchedulerAllocation)
        self.changes = 0
        self._name = allocation.name
        self._scheduler = allocation.function()
        self._said = SaidDecisions(parts)
        self._news = SchedulerNews(parts.state, parts.settings.scheduler.may_take)
        self._first: list[News] = [first_news(parts.settings)]
        self._timers = Timers()
        self._is_due = False
        """Whether the time has come at which it wanted to be asked again."""
        self._quiet = 0
        """So often its time must still come without any news before it decides; 0: it does not want to."""
        self._effects: list[Effect] = []

    def begin_anew(self, now_ns: int) -> list[Effect]:
        """The ResourceManager was away: its timers are set again."""
        return [*self._timers.again(now_ns)]

    def fired(self, timer: TimerFired) -> None:
        """The time has come at which it wanted to be asked again."""
        self._is_due |= self._timers.take(timer)

    def asked_ns(self, occasion: Occasion, now_ns: int) -> int | None:
        """See ``Allocation``: whenever anything has changed."""
        return None if occasion in (Occasion.HEARTBEAT, Occasion.TIME) else now_ns

    def decide(self, asked: Asked) -> Iterator[Decision]:
        """See ``Allocation``."""
        if self.asked_ns(asked.occasion, asked.now_ns) is None:
            return
        news, self._first = [*self._first, *self._news.take()], []
        if not news and not self._is_due:
            return
        self._is_due = False
        try:
            answer = self._answer(news, asked.now_ns)
        except CannotGoOnError as error:
            raise PolicyError(f"allocation {self._name}: {error}") from None
        self._set_timer(answer.again_ns)
        self.changes += 1
        self._said.begin(answer.decisions)
        for decision in answer.decisions:
            try:
                yield self._said.checked(decision, asked.now_ns)
            except CannotBeError as error:
                raise PolicyError(f"allocation {self._name}: {decision}: {error}") from None
            self._effects += self._said.explained(decision)

    def _answer(self, news: list[News], now_ns: int) -> Answer:
        if news or not self._quiet:
            answer = self._scheduler.hear(news, now_ns)
            decides = answer.again_ns is not None and answer.again_ns <= now_ns
            self._quiet = _QUIET if decides else 0
            return answer
        self._quiet -= 1
        return Answer(again_ns=now_ns) if self._quiet else self._scheduler.decide(now_ns)

    def _set_timer(self, again_ns: int | None) -> None:
        if again_ns is None:
            self._timers.forget(_AGAIN)
        else:
            self._effects.append(self._timers.set(_AGAIN, again_ns))

    def explain(self) -> list[Effect]:
        """See ``Allocation``; and when it wants to be asked again."""
        effects, self._effects = self._effects, []
        return effects

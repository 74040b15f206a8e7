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
from emulator.core.resource_manager.allocation import Decision
from emulator.core.resource_manager.by_contract import Parts
from emulator.core.resource_manager.by_told import ByTold
from emulator.core.resource_manager.said_decisions import CannotBeError
from emulator.core.resource_manager.scheduler_news import first_news
from emulator.policies.allocation_forms import SchedulerAllocation
from emulator.policies.news import Answer, CannotGoOnError, News

_QUIET = 3
"""What happens at an instant reaches the ResourceManager in steps: a process ends, its node says so, then its job.

With two, a job that ended exactly at a pass of Slurm was seen one pass late: drawn sites, compared with the player,
showed that.
"""


class ByScheduler(ByTold):
    """See the module's theory of operation; an ``Allocation``."""

    timer = "ask the scheduler"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        allocation = parts.settings.scheduler.allocation
        assert isinstance(allocation, SchedulerAllocation)
        self._name = allocation.name
        self._scheduler = allocation.function()
        self._first: list[News] = [first_news(parts.settings)]
        self._quiet = 0
        """So often its time must still come without any news before it decides; 0: it does not want to."""

    def begin_anew(self, now_ns: int) -> list[Effect]:
        """See ``ByTold``: its timers are set again."""
        return [*self._timers.again(now_ns)]

    def _decide(self, now_ns: int) -> Iterator[Decision]:
        news, self._first = [*self._first, *self._news.take()], []
        if not news and not self._is_due:
            return
        self._is_due = False
        try:
            answer = self._answer(news, now_ns)
        except CannotGoOnError as error:
            raise PolicyError(f"allocation {self._name}: {error}") from None
        self._ask_again(answer.again_ns)
        self.changes += 1
        self._said.begin(answer.decisions)
        for decision in answer.decisions:
            try:
                yield self._said.checked(decision, now_ns)
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

"""Allocation by a scheduler that people run, whose rules are natjam's own (``emulator.policies.news.Scheduler``).

Theory of operation
-------------------
It is told what a process outside would be told, in the same words (``docs/outside.md``), and answers in the same
instant.  It is asked whenever anything has changed, and when its own time has come.  What it has decided is told to it
when it is asked next.  A decision that cannot be carried out ends the run: nothing can have overtaken it.
"""

from __future__ import annotations

from collections.abc import Iterator

from emulator.core.decisions import PolicyError
from emulator.core.effects import Effect
from emulator.core.resource_manager.allocation import Asked, Decision, Occasion
from emulator.core.resource_manager.by_contract import Parts
from emulator.core.resource_manager.said_decisions import CannotBeError, SaidDecisions
from emulator.core.resource_manager.scheduler_news import SchedulerNews, first_news
from emulator.policies.allocation_forms import SchedulerAllocation
from emulator.policies.news import News


class ByScheduler:
    """See the module's theory of operation; an ``Allocation``."""

    def __init__(self, parts: Parts) -> None:
        allocation = parts.settings.scheduler.allocation
        assert isinstance(allocation, SchedulerAllocation)
        self.changes = 0
        self._name = allocation.name
        self._scheduler = allocation.begin()
        self._said = SaidDecisions(parts)
        self._news = SchedulerNews(parts.state, parts.settings.scheduler.may_take)
        self._first: list[News] = [first_news(parts.settings)]
        self._due_ns: int | None = None
        """When it wants to be asked even if nothing has changed."""

    def asked_ns(self, occasion: Occasion, now_ns: int) -> int | None:
        """See ``Allocation``: whenever anything has changed."""
        if occasion is Occasion.HEARTBEAT:
            return None
        return self._due_ns if occasion is Occasion.TIME else now_ns

    def decide(self, asked: Asked) -> Iterator[Decision]:
        """See ``Allocation``."""
        if asked.occasion is Occasion.HEARTBEAT:
            return
        news, self._first = [*self._first, *self._news.take()], []
        is_due = self._due_ns is not None and self._due_ns <= asked.now_ns
        if not news and not is_due:
            return
        answer = self._scheduler.answer(news, asked.now_ns)
        self._due_ns = answer.again_ns
        self.changes += 1
        self._said.begin(answer.decisions)
        for decision in answer.decisions:
            try:
                yield self._said.checked(decision, asked.now_ns)
            except CannotBeError as error:
                raise PolicyError(f"allocation {self._name}: {decision}: {error}") from None

    def explain(self) -> list[Effect]:
        """See ``Allocation``."""
        return []

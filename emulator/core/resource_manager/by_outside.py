"""Allocation from outside: another process decides, and this asks it (``docs/outside.md``).

Theory of operation
-------------------
When something has changed, the process is told what, and asked, by an effect.  Its answer comes in as a message, so the
journal has its decisions and a replay needs no process.  One question is open at a time; what happens meanwhile is told
with the next.  It may name a time when it wants to be asked again; that is at least ``LEAST_WAIT_NS`` later.

What it decides is checked against the state at its answer.  A decision that could be carried out as far as the process
knew, but that something it was not told of has overtaken, is void: it changes nothing, and the process is told.  Any
other decision that cannot be carried out ends the run, with its line.
"""

from __future__ import annotations

from collections.abc import Iterator

from emulator.core.completions import DecidedOutside
from emulator.core.decisions import LEAST_WAIT_NS, PolicyError
from emulator.core.effects import AskOutside, Effect
from emulator.core.machine import Timers
from emulator.core.messages import TimerFired
from emulator.core.resource_manager.allocation import Asked, Decision, Occasion
from emulator.core.resource_manager.by_contract import Parts
from emulator.core.resource_manager.said_decisions import CannotBeError, SaidDecisions
from emulator.core.resource_manager.scheduler_news import SchedulerNews, first_news
from emulator.policies.news import Decide, News, NotSaid, Said, Void, said, shown

_AGAIN = "ask outside"


class ByOutside:
    """See the module's theory of operation; an ``Allocation``."""

    def __init__(self, parts: Parts) -> None:
        self.changes = 0
        self._settings = parts.settings
        self._said = SaidDecisions(parts)
        self._timers = Timers()
        self._news = SchedulerNews(parts.state, parts.settings.scheduler.may_take)
        self._untold: list[News] = []
        """What has happened while a question was open."""
        self._void: list[Void] = []
        self._question = 0
        self._is_open = False
        """Whether a question is open."""
        self._wants_a_question = True
        """Whether it must be asked even if there is no news."""
        self._begins = True
        """Whether the next question is the first to a process."""
        self._answer: DecidedOutside | None = None
        self._effects: list[Effect] = []

    # ---- what the ResourceManager hears for it ----

    def begin_anew(self, now_ns: int) -> list[Effect]:
        """The ResourceManager was away, and with it the process: a new one is told everything."""
        self._news, self._begins, self._is_open = self._news.forgotten(), True, False
        self._void.clear()
        self._untold.clear()
        return []

    def take(self, answer: DecidedOutside) -> None:
        """The process has answered; its decisions are made when this is asked next."""
        if self._is_open and answer.question == self._question:
            self._answer = answer

    def fired(self, timer: TimerFired) -> None:
        """The time has come at which it wanted to be asked again."""
        self._wants_a_question |= self._timers.take(timer)

    # ---- an allocation ----

    def asked_ns(self, occasion: Occasion, now_ns: int) -> int | None:
        """See ``Allocation``: whenever anything has changed."""
        return None if occasion in (Occasion.HEARTBEAT, Occasion.TIME) else now_ns

    def decide(self, asked: Asked) -> Iterator[Decision]:
        """See ``Allocation``."""
        if self.asked_ns(asked.occasion, asked.now_ns) is None:
            return
        answer, self._answer = self._answer, None
        if answer is not None:
            yield from self._decisions(answer, asked.now_ns)
        self._ask(asked.now_ns)

    def explain(self) -> list[Effect]:
        """See ``Allocation``; and its questions."""
        effects, self._effects = self._effects, []
        return effects

    def _ask(self, now_ns: int) -> None:
        if self._is_open:
            return
        news: list[News] = [first_news(self._settings)] if self._begins else []
        news += [*self._void, *self._untold, *self._news.take()]
        if not news and not self._wants_a_question:
            return
        self._question += 1
        self._effects.append(AskOutside(self._question, (*news, Decide(self._question, now_ns))))
        self._is_open, self._wants_a_question, self._begins = True, False, False
        self._void.clear()
        self._untold.clear()
        self.changes += 1

    # ---- its decisions ----

    def _decisions(self, answer: DecidedOutside, now_ns: int) -> Iterator[Decision]:
        self._untold += self._news.take()
        overtaking = {pair for news in self._untold for pair in _named_by(news)}
        decisions = [*_understood(answer)]
        self._said.begin([decision for _, _, decision in decisions])
        for number, line, decision in decisions:
            try:
                yield self._said.checked(decision, now_ns)
            except CannotBeError as error:
                if not overtaking & self._said.concerns(decision):
                    raise _refusal(number, line, error) from None
                self._void.append(Void(number, str(error)))
                continue
            self._effects += self._said.explained(decision)
        self._is_open = False
        self.changes += 1
        if answer.again_ns is None:
            self._timers.forget(_AGAIN)
        else:
            self._effects.append(self._timers.set(_AGAIN, max(answer.again_ns, now_ns + LEAST_WAIT_NS)))


def _understood(answer: DecidedOutside) -> Iterator[tuple[int, str, Said]]:
    """Its lines, with their numbers.  Raises PolicyError."""
    for number, line in enumerate(answer.lines, start=answer.first_line):
        try:
            yield number, line, said(line)
        except NotSaid as error:
            raise _refusal(number, line, error) from None


def _refusal(number: int, line: str, why: Exception) -> PolicyError:
    return PolicyError(f"allocation external: {shown(number, line)}: {why}")


def _named_by(news: News) -> Iterator[tuple[str, str]]:
    for what in ("job", "node", "container"):
        name = getattr(news, what, None)
        if name is not None:
            yield what, name

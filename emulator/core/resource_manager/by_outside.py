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
from emulator.core.resource_manager.allocation import Decision
from emulator.core.resource_manager.by_contract import Parts
from emulator.core.resource_manager.by_told import ByTold
from emulator.core.resource_manager.said_decisions import CannotBeError
from emulator.core.resource_manager.scheduler_news import first_news
from emulator.policies.news import Decide, News, NotSaid, Said, Void, said, shown

_MOST_HURRIED = 100
"""More than a process needs that plays what is given at short times; time would hardly pass for one that never ends."""


class ByOutside(ByTold):
    """See the module's theory of operation; an ``Allocation``."""

    timer = "ask outside"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._settings = parts.settings
        self._is_due = True
        self._untold: list[News] = []
        """What has happened while a question was open."""
        self._void: list[Void] = []
        self._question = 0
        self._is_open = False
        """Whether a question is open."""
        self._begins = True
        """Whether the next question is the first to a process."""
        self._answer: DecidedOutside | None = None
        self._hurried = 0
        """Answers in a row that have decided nothing, and want to be asked again at once."""

    # ---- what the ResourceManager hears for it ----

    def begin_anew(self, now_ns: int) -> list[Effect]:
        """See ``ByTold``: with it the process was away, and a new one is told everything."""
        self._news, self._begins, self._is_open = self._news.forgotten(), True, False
        self._void.clear()
        self._untold.clear()
        return []

    def take(self, answer: DecidedOutside) -> None:
        """The process has answered; its decisions are made when this is asked next."""
        if self._is_open and answer.question == self._question:
            self._answer = answer

    # ---- an allocation ----

    def _decide(self, now_ns: int) -> Iterator[Decision]:
        answer, self._answer = self._answer, None
        if answer is not None:
            yield from self._decisions(answer, now_ns)
        self._ask(now_ns)

    def _ask(self, now_ns: int) -> None:
        if self._is_open:
            return
        news: list[News] = [first_news(self._settings)] if self._begins else []
        news += [*self._void, *self._untold, *self._news.take()]
        if not news and not self._is_due:
            return
        self._question += 1
        self._effects.append(AskOutside(self._question, (*news, Decide(self._question, now_ns))))
        self._is_open, self._is_due, self._begins = True, False, False
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
        self._ask_again(self._again_ns(answer.again_ns, bool(decisions), now_ns))

    def _again_ns(self, again_ns: int | None, has_decided: bool, now_ns: int) -> int | None:
        """When to ask again.  After many answers in a row that decide nothing, no sooner than in ``LEAST_WAIT_NS``."""
        soonest_ns = now_ns + LEAST_WAIT_NS
        is_hurried = not has_decided and again_ns is not None and again_ns < soonest_ns
        self._hurried = self._hurried + 1 if is_hurried else 0
        return soonest_ns if self._hurried > _MOST_HURRIED else again_ns


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

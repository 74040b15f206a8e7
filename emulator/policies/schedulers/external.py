"""A process outside as a scheduler: it is asked in lines of JSON, and its answer comes later, as a message.

Theory of operation
-------------------
Whatever it is notified of, it is asked what it decides.  The driver writes the question to the process, and its lines
come back as a message, so the journal has its decisions and a replay needs no process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from emulator.policies.schedulers.protocol import (
    Answer,
    Decide,
    Event,
    InvalidLineError,
    Question,
    Scheduler,
    SchedulerDecision,
    SchedulerError,
    decision_of,
    shown,
)


class ExternalScheduler(Scheduler):
    """Another process decides: it is notified in JSON lines of what happens, and says who gets a container of which
    node, and from whom one is reclaimed."""

    outlives_restarts: ClassVar[bool] = False

    def __init__(self) -> None:
        self._number = 0

    def notify(self, events: Sequence[Event], now_ns: int) -> Question:
        """See ``Scheduler``."""
        self._number += 1
        return Question(self._number, (*events, Decide(self._number, now_ns)))

    def decide(self, now_ns: int) -> Question:
        """See ``Scheduler``."""
        return self.notify((), now_ns)

    def answered(self, lines: Sequence[str], first_line: int, again_ns: int | None) -> Answer:
        """What its lines say, the number of the first of which is ``first_line``.  Raises SchedulerError."""
        numbered = [*enumerate(lines, start=first_line)]
        return Answer([*_decisions(numbered)], again_ns, numbered)


def _decisions(numbered: Sequence[tuple[int, str]]) -> Iterator[SchedulerDecision]:
    for number, line in numbered:
        try:
            yield decision_of(line)
        except InvalidLineError as error:
            raise SchedulerError(f"{shown(number, line)}: {error}") from None

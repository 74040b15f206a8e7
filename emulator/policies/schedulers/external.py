"""A process outside as a scheduler: it is asked in lines of JSON, and its answer comes later, as a message.

Theory of operation
-------------------
Whatever it is notified of, it is asked what it decides.  The driver writes the question to the process, and its lines
come back as a message, so the journal has its decisions and a replay needs no process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from emulator.policies.policy import LEAST_WAIT_NS
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

_MAX_NO_OP_ANSWERS = 100
"""More than a process needs that plays what is given at short times; time would hardly pass for one that never ends."""


class ExternalScheduler(Scheduler):
    """Another process decides: it is notified in JSON lines of what happens, and says who gets a container of which
    node, and from whom one is reclaimed."""

    outlives_restarts: ClassVar[bool] = False

    def __init__(self) -> None:
        self._number = 0
        self._no_op_answers = 0
        """Answers in a row that have decided nothing, and want to be asked again at once."""

    def notify(self, events: Sequence[Event], now_ns: int) -> Question:
        """See ``Scheduler``."""
        self._number += 1
        return Question(self._number, (*events, Decide(self._number, now_ns)))

    def decide(self, now_ns: int) -> Question:
        """See ``Scheduler``."""
        return self.notify((), now_ns)

    def answered(self, lines: Sequence[str], first_line: int, again_ns: int | None, now_ns: int) -> Answer:
        """What its lines say, the number of the first of which is ``first_line``.  Raises SchedulerError.

        After many answers in a row that decide nothing, it is asked again no sooner than in ``LEAST_WAIT_NS``.
        """
        numbered = [*enumerate(lines, start=first_line)]
        soonest_ns = now_ns + LEAST_WAIT_NS
        is_hurried = not lines and again_ns is not None and again_ns < soonest_ns
        self._no_op_answers = self._no_op_answers + 1 if is_hurried else 0
        valid_until_ns = soonest_ns if self._no_op_answers > _MAX_NO_OP_ANSWERS else again_ns
        return Answer([*_decisions(numbered)], valid_until_ns, numbered)


def _decisions(numbered: Sequence[tuple[int, str]]) -> Iterator[SchedulerDecision]:
    for number, line in numbered:
        try:
            yield decision_of(line)
        except InvalidLineError as error:
            raise SchedulerError(f"{shown(number, line)}: {error}") from None

"""Answers before all is simulated or played: when one is shown, of which draws, and when to stop.

A first answer needs only the first candidates (a thinner sweep) and a few draws (seeds, or days); so these are made
first.  It is shown after ``FIRST_ANSWER_REAL_S``, or as soon as they are made; and a better one whenever the time that
has passed has doubled, until all is made or the time that was given is over.  After ``HURRIED_REAL_S`` one draw of two
of the first candidates is an answer, which says so.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence

FIRST_ANSWER_REAL_S = 10.0
HURRIED_REAL_S = 30.0
LEAST_DRAWS = 3
"""Seeds or days of a first answer: with fewer there are no intervals (``analysis.advise.verdict.LEAST_SEEDS``)."""


class Pace:
    """When answers are due, in real seconds from its making."""

    def __init__(self, seconds: float | None) -> None:
        """``seconds``: after so many the last answer is given; None: only when all is made."""
        self._seconds = seconds
        self._began_real_s = time.monotonic()
        self._next_real_s = FIRST_ANSWER_REAL_S

    @property
    def passed_real_s(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began_real_s

    @property
    def is_due(self) -> bool:
        """Whether an answer is to be shown now, if one can be given."""
        return self.passed_real_s >= self._next_real_s

    @property
    def is_hurried(self) -> bool:
        """Whether one draw is enough by now."""
        return self.passed_real_s >= HURRIED_REAL_S

    @property
    def is_over(self) -> bool:
        """Whether the answer that can be given now is the last."""
        return self._seconds is not None and self.passed_real_s >= self._seconds

    def shown(self) -> str:
        """An answer is shown; a line above it."""
        passed_real_s = self.passed_real_s
        is_first = self._next_real_s == FIRST_ANSWER_REAL_S
        self._next_real_s = 2 * passed_real_s
        return f"{'a first' if is_first else 'a better'} answer, after {passed_real_s:.0f} s:"

    def left_real_s(self, done: float) -> float | None:
        """How long it will take, if this share is done; None: not known."""
        passed_real_s = self.passed_real_s
        left_real_s = passed_real_s * (1 - done) / done if done else None
        if self._seconds is None:
            return left_real_s
        until_real_s = max(0.0, self._seconds - passed_real_s)
        return until_real_s if left_real_s is None else min(left_real_s, until_real_s)


def in_order(candidates: Sequence[str], first: Collection[str], draws: Sequence[int]) -> list[tuple[str, int]]:
    """All pairs of a candidate and a draw: those of the first answer, and then draw by draw."""
    pairs = [(candidate, draw) for draw in draws for candidate in candidates]
    early = set(draws[:LEAST_DRAWS])
    return sorted(pairs, key=lambda pair: pair[0] not in first or pair[1] not in early)


def comparable(
    made: Collection[tuple[str, int]],
    candidates: Sequence[str],
    first: Collection[str],
    draws: Sequence[int],
    hurried: bool = False,
) -> tuple[list[str], list[int]]:
    """The candidates and draws of an answer: each of these candidates has all of these draws.

    They are all candidates, if these have enough draws in common; else those that have all that the first ones have in
    common; else, if it is ``hurried``, those of the first ones that have a draw in common; else none.
    """
    by_candidate: dict[str, set[int]] = {candidate: set() for candidate in candidates}
    for candidate, draw in made:
        by_candidate[candidate].add(draw)
    for among in (candidates, first):
        common = set.intersection(*(by_candidate[candidate] for candidate in among))
        if len(common) >= min(LEAST_DRAWS, len(draws)):
            return [one for one in candidates if common <= by_candidate[one]], sorted(common)
    some = [one for one in candidates if one in first and by_candidate[one]] if hurried else []
    common = set.intersection(*(by_candidate[one] for one in some)) if len(some) > 1 else set[int]()
    return (some, sorted(common)) if common else ([], [])


def of_how_many(candidates: tuple[int, int], draws: tuple[int, int], called: str) -> Iterator[str]:
    """A sentence if an answer is not of all; numbers of candidates and of draws, each with the number of all."""
    if candidates[0] < candidates[1] or draws[0] < draws[1]:
        of_draws = f", and {draws[0]} of {draws[1]} {called}" if draws[1] > 1 else ""
        yield f"This is of {candidates[0]} of {candidates[1]} choices{of_draws}: more time may change it (--seconds)."

"""Which candidate to choose, by one fixed rule, and how sure the choice is.

The steps of the rule:

1. Leave out candidates with a failed run, and those that miss more deadlines than another candidate by more than
   ``MISSED_TOLERANCE`` of all deadlines.
2. Take the candidate with the least cost.  The cost is ``PRODUCTION_WEIGHT`` times the logarithm of the time of
   production jobs, plus the logarithm of the time of all others.  So one percent of production's time is worth three
   percent of the others'.
3. Of the candidates within ``COST_TOLERANCE`` of it, choose the one that loses the least work; of equal ones, the first
   in the list.

The choice is sure if the difference in cost to the best of every *other* mechanism is: from the costs under each seed,
Student's 95% interval of the mean, widened by Bonferroni's rule for the number of mechanisms compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from numpy.typing import ArrayLike

from analysis.advise.candidates import NO_POLICIES, WAIT
from analysis.advise.outcomes import Outcome, Outcomes
from analysis.curves import known
from analysis.frames import Series
from analysis.statistics import mean_interval

MISSED_TOLERANCE = 0.01
PRODUCTION_WEIGHT = 3
COST_TOLERANCE = 0.03
"""One percent of production's time."""
_LEAST_SEEDS = 3


@dataclass(frozen=True, slots=True)
class Ratio:
    """How much longer jobs take under one candidate than under another; 1: equally long."""

    mean: float
    low: float | None
    high: float | None
    """End of the interval; None for fewer than three seeds."""

    @property
    def is_apart(self) -> bool:
        """Whether the interval does not contain 1."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high

    def in_words(self) -> str:
        """For example "12% longer (8% to 16%)"."""
        interval = ""
        if self.low is not None and self.high is not None and self.high - self.low >= 5e-4:
            interval = f" ({_percent(self.low)} to {_percent(self.high)})"
        if abs(self.mean - 1) < 5e-4:
            return "as long" + interval
        return f"{abs(self.mean - 1):.1%} {'longer' if self.mean > 1 else 'shorter'}{interval}"


def _percent(ratio: float) -> str:
    return f"{ratio - 1:+.1%}"


class Reason(StrEnum):
    """The reason for the chosen candidate."""

    DEADLINES = "deadlines"
    TIMES = "times"
    WORK_LOST = "work lost"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Rival:
    """The best candidate of another mechanism, or another policy of the same mechanism, against the chosen one."""

    outcome: Outcome
    production: Ratio | None
    """Ratio of its production jobs' times to those under the chosen one; None if there are none."""
    others: Ratio | None
    reason: Reason
    is_sure: bool
    """For times only: whether the interval of the difference in cost does not contain 0."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The choice."""

    chosen: Outcome
    rivals: tuple[Rival, ...]
    """The best candidate of every other mechanism, the best first."""
    policies: tuple[Rival, ...]
    """The chosen mechanism under the other policies."""
    left_out: tuple[Outcome, ...]
    """Candidates with failed runs."""
    seeds: int


def judge(found: Outcomes, seeds: int) -> Verdict | None:
    """Apply the rule; None if every candidate has a failed run."""
    sound = [row for row in found.rows if not row.failed]
    if not sound:
        return None
    chosen = _best(found, sound)
    rivals, rest = [], [row for row in sound if row.candidate.mechanism != chosen.candidate.mechanism]
    comparisons = len({row.candidate.mechanism for row in rest})
    while rest:
        best = _best(found, rest)
        rivals.append(_rival(found, chosen, best, comparisons))
        rest = [row for row in rest if row.candidate.mechanism != best.candidate.mechanism]
    same = [row for row in sound if row.candidate.mechanism == chosen.candidate.mechanism and row is not chosen]
    policies = tuple(_rival(found, chosen, row, comparisons) for row in same)
    left_out = tuple(row for row in found.rows if row.failed)
    return Verdict(chosen, tuple(rivals), policies, left_out, seeds)


def _cost(found: Outcomes, a: str, b: str) -> Series:
    """How much more ``a`` costs than ``b``, for each seed."""
    production, others = (found.log_ratios(a, b, which) for which in (True, False))
    if not len(production) or not len(others):
        return PRODUCTION_WEIGHT * production if len(production) else others
    return (PRODUCTION_WEIGHT * production).add(others, fill_value=0.0)


def _best(found: Outcomes, rows: Sequence[Outcome]) -> Outcome:
    most = min(row.missed for row in rows) + MISSED_TOLERANCE * max(row.deadlines for row in rows)
    good = [row for row in rows if row.missed <= most]
    costs = [_mean(_cost(found, row.candidate.name, good[0].candidate.name)) for row in good]
    limit = min(costs) + COST_TOLERANCE
    return min((row for row, cost in zip(good, costs, strict=True) if cost <= limit), key=lambda row: row.lost_s)


def _mean(values: Series) -> float:
    return float(values.mean()) if len(values) else 0.0


def _rival(found: Outcomes, chosen: Outcome, row: Outcome, comparisons: int) -> Rival:
    names = row.candidate.name, chosen.candidate.name
    production, others = (ratio_of(found.log_ratios(*names, which), comparisons) for which in (True, False))
    cost = ratio_of(_cost(found, *names), comparisons)
    allowed = MISSED_TOLERANCE * max(row.deadlines, chosen.deadlines)
    if row.missed > chosen.missed + allowed:
        reason = Reason.DEADLINES
    elif cost is not None and cost.mean > math.exp(COST_TOLERANCE):
        reason = Reason.TIMES
    elif row.lost_s > chosen.lost_s:
        reason = Reason.WORK_LOST
    else:
        reason = Reason.NOTHING
    return Rival(row, production, others, reason, reason is Reason.TIMES and cost is not None and cost.is_apart)


def ratio_of(log_ratios: ArrayLike, comparisons: int = 1) -> Ratio | None:
    """Mean and interval of ratios, from their logarithms, one for each seed; None if there are none."""
    found = known(log_ratios)
    n = len(found)
    if not n:
        return None
    interval = mean_interval(found, comparisons) if n >= _LEAST_SEEDS else None
    low, high = (None, None) if interval is None else map(math.exp, interval)
    return Ratio(math.exp(float(found.mean())), low, high)


# ---- in words ----

_REASONS = {
    Reason.DEADLINES: "misses {missed} deadlines, not {chosen_missed}",
    Reason.TIMES: "costs more time",
    Reason.WORK_LOST: "takes about as long and loses more work ({lost} against {chosen_lost})",
    Reason.NOTHING: "does the same here",
}


def sentences(verdict: Verdict) -> Iterator[str]:
    """What to choose, and how sure the choice is."""
    chosen = verdict.chosen
    yield f"Choose {_called(chosen)}."
    for rival in verdict.rivals:
        why = _REASONS[rival.reason].format(
            missed=rival.outcome.missed,
            chosen_missed=chosen.missed,
            lost=f"{rival.outcome.lost_share:.1%}",
            chosen_lost=f"{chosen.lost_share:.1%}",
        )
        yield f"  {_called(rival.outcome)} {why}{_difference(rival)}{_how_sure(rival)}."
        if rival.outcome.candidate.mechanism == WAIT and rival.reason is Reason.TIMES and not rival.is_sure:
            yield "  So no choice here is surely better than wait, which is no preemption at all."
    alike = [one.outcome.candidate.policies for one in verdict.policies if not one.is_sure]
    worse = [one for one in verdict.policies if one.is_sure]
    if alike:
        yield f"  {chosen.candidate.mechanism} may do as well with {' or with '.join(alike)}."
    for one in worse:
        yield f"  {_called(one.outcome)} {_REASONS[one.reason]}{_difference(one)}{_how_sure(one)}."
    if any(not one.is_sure and one.reason is Reason.TIMES for one in verdict.rivals):
        yield f"  More seeds would give more certainty; these are {verdict.seeds} (--seeds)."


def _called(outcome: Outcome) -> str:
    one = outcome.candidate
    return one.mechanism if one.policies == NO_POLICIES else f"{one.mechanism} ({one.policies})"


def _difference(rival: Rival) -> str:
    parts = []
    if rival.production is not None:
        parts.append(f"production {rival.production.in_words()}")
    if rival.others is not None:
        parts.append(f"others {rival.others.in_words()}")
    return ": " + ", ".join(parts) if parts else ""


def _how_sure(rival: Rival) -> str:
    if rival.reason is not Reason.TIMES:
        return ""
    return ": sure" if rival.is_sure else ": not sure"

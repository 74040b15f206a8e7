"""Which candidate to choose, by one fixed rule, how sure the choice is, and the same in words.

The steps of the rule:

1. Leave out candidates with a failed run, and those that miss more deadlines than another candidate by more than
   ``MISSED_TOLERANCE`` of all deadlines.
2. Take the candidate with the least cost.  The cost is ``PRODUCTION_WEIGHT`` times the logarithm of the time of
   production jobs, plus the logarithm of the time of all others.  So one percent of production's time is worth three
   percent of the others'.
3. Look at the candidates within ``COST_TOLERANCE`` of it.  Leave out each whose cost is surely higher than that of
   another one.  Of the rest, take the one that loses the smallest share of the work; of equal ones, the one with the
   least cost; of equal ones, the first in the list.  A difference below what is shown (``SHOWN``) is none.

All differences are paired: each seed gives one, between two candidates with the same jobs.  A difference is sure if
Student's 95% interval of its mean, widened by Bonferroni's rule for the number of mechanisms compared, does not contain
0.  The candidate is *preferred* only if it is surely better than waiting; if it is to wait itself, only if every other
mechanism is surely worse.  Otherwise there is no preference; nor is there one where something that decides at the site
is not modelled, or where too little is preempted to tell (``MIN_PREEMPTIONS``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from numpy.typing import ArrayLike

from analysis.advise.answers import of_how_many
from analysis.advise.candidates import WAIT, spelled_out
from analysis.advise.outcomes import CandidateResults
from analysis.advise.results import NO_POLICIES, CandidateResult, reasons_against_any
from analysis.curves import known
from analysis.frames import Series
from analysis.statistics import mean_interval

MISSED_TOLERANCE = 0.01
PRODUCTION_WEIGHT = 3
COST_TOLERANCE = 0.03
"""One percent of production's time."""
SHOWN = 1e-3
"""Shares and ratios are shown to a tenth of a percent."""
LEAST_SEEDS = 3


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

    @property
    def interval(self) -> str:
        """For example "+8.0% to +16.0%"; empty if there is none, or no width."""
        if self.low is None or self.high is None or self.high - self.low < 5e-4:
            return ""
        return f"{_percent(self.low)} to {_percent(self.high)}"

    def in_words(self) -> str:
        """For example "12% longer (8% to 16%)"."""
        interval = f" ({self.interval})" if self.interval else ""
        if abs(self.mean - 1) < 5e-4:
            return "as long" + interval
        return f"{abs(self.mean - 1):.1%} {'longer' if self.mean > 1 else 'shorter'}{interval}"


def _percent(ratio: float) -> str:
    return f"{ratio - 1:+.1%}"


class Reason(StrEnum):
    """What speaks against a rival."""

    DEADLINES = "deadlines"
    TIMES = "times"
    WORK_LOST = "work lost"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Rival:
    """A candidate against the one that the rule takes, and against waiting; None where there is no figure."""

    outcome: CandidateResult
    production: Ratio | None
    """Time of its production jobs, to that under the one that the rule takes."""
    others: Ratio | None
    cost: Ratio | None
    """The same for the cost, as a ratio of production's time."""
    production_to_wait: Ratio | None
    """Time of its production jobs, to that when waiting."""
    others_to_wait: Ratio | None
    reason: Reason
    is_sure: bool
    """Whether the difference that ``reason`` names is."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the rule takes, and whether that is a preference."""

    chosen: CandidateResult
    is_preferred: bool
    itself: Rival
    """The chosen one against itself, for its difference to waiting."""
    rivals: tuple[Rival, ...]
    """The best candidate of every other mechanism, the best first."""
    policies: tuple[Rival, ...]
    """The chosen mechanism under the other policies."""
    left_out: tuple[CandidateResult, ...]
    """Candidates with failed runs."""
    seeds: int
    reasons_against_any: tuple[str, ...] = ()
    """Why none may be preferred, whatever the figures are; a sentence each."""


def judge(found: CandidateResults, seeds: int, among: Sequence[CandidateResult] | None = None) -> Verdict | None:
    """Apply the rule to all candidates, or to those ``among`` them; None if every one has a failed run."""
    rows = found.rows if among is None else among
    sound = [row for row in rows if not row.number("failed")]
    if not sound:
        return None
    comparisons = len({row.candidate.mechanism for row in sound}) - 1
    chosen = _best(found, sound, comparisons)
    rest = [row for row in sound if row.candidate.mechanism != chosen.candidate.mechanism]
    same = [row for row in sound if row.candidate.mechanism == chosen.candidate.mechanism and row is not chosen]
    judged = _Judged(found, chosen, comparisons)
    rivals: list[Rival] = []
    while rest:
        best = _best(found, rest, comparisons)
        rivals.append(judged.rival(best))
        rest = [row for row in rest if row.candidate.mechanism != best.candidate.mechanism]
    against_any = tuple(reasons_against_any(found.basis, max(row.number("preempted") for row in sound)))
    return Verdict(
        chosen,
        not against_any and _is_preferred(rivals),
        judged.rival(chosen),
        tuple(rivals),
        tuple(judged.rival(row) for row in same),
        tuple(row for row in rows if row.number("failed")),
        seeds,
        against_any,
    )


def _is_preferred(rivals: Sequence[Rival]) -> bool:
    decisive = [rival for rival in rivals if rival.outcome.candidate.mechanism == WAIT] or rivals
    return bool(decisive) and all(rival.is_sure for rival in decisive)


def _cost(found: CandidateResults, a: str, b: str) -> Series:
    """How much more ``a`` costs than ``b``, for each seed."""
    production, others = (found.log_ratios(a, b, which) for which in (True, False))
    if not len(production) or not len(others):
        return PRODUCTION_WEIGHT * production if len(production) else others
    return (PRODUCTION_WEIGHT * production).add(others, fill_value=0.0)


def _cost_ratio(found: CandidateResults, a: CandidateResult, b: CandidateResult, comparisons: int) -> Ratio | None:
    """The same as a ratio of production's time."""
    return ratio_of(_cost(found, a.candidate.name, b.candidate.name) / PRODUCTION_WEIGHT, comparisons)


def _is_surely_dearer(cost: Ratio | None) -> bool:
    return cost is not None and cost.is_apart and cost.mean - 1 >= SHOWN


def _best(found: CandidateResults, rows: Sequence[CandidateResult], comparisons: int) -> CandidateResult:
    allowed = MISSED_TOLERANCE * max(row.number("deadlines") for row in rows)
    most = min(row.number("missed") for row in rows) + allowed
    good = [row for row in rows if row.number("missed") <= most]
    costs = [_mean(_cost(found, row.candidate.name, good[0].candidate.name)) for row in good]
    least = min(costs)
    alike = [(row, cost) for row, cost in zip(good, costs, strict=True) if cost <= least + COST_TOLERANCE]
    left = [
        (_shown(row.number("lost_share")), _shown((cost - least) / PRODUCTION_WEIGHT), place)
        for place, (row, cost) in enumerate(alike)
        if not any(_is_surely_dearer(_cost_ratio(found, row, other, comparisons)) for other, _ in alike)
    ]
    return alike[min(left)[-1]][0]


def _shown(share: float) -> int:
    """In tenths of a percent."""
    return round(share / SHOWN)


def _mean(values: Series) -> float:
    return float(values.mean()) if len(values) else 0.0


@dataclass(frozen=True, slots=True)
class _Judged:
    """Compares candidates with the chosen one."""

    found: CandidateResults
    chosen: CandidateResult
    comparisons: int

    def rival(self, row: CandidateResult) -> Rival:
        """A candidate against the chosen one, and against waiting."""
        chosen = self.chosen
        cost = _cost_ratio(self.found, row, chosen, self.comparisons)
        reason, is_sure = (Reason.NOTHING, False) if row is chosen else self._reason(row, cost)
        production, others = self._times(row, chosen)
        waits = (one for one in self.found.rows if one.candidate.mechanism == WAIT)
        waiting = next((one for one in waits if not one.number("failed")), None)
        to_wait = (None, None) if waiting is None else self._times(row, waiting)
        return Rival(row, production, others, cost, to_wait[0], to_wait[1], reason, is_sure)

    def _reason(self, row: CandidateResult, cost: Ratio | None) -> tuple[Reason, bool]:
        """What speaks against a candidate, and whether that is sure; what is sure goes before what is not."""
        allowed = MISSED_TOLERANCE * max(each.number("deadlines") for each in (row, self.chosen))
        if row.number("missed") > self.chosen.number("missed") + allowed:
            return Reason.DEADLINES, self._differs(row, "missed")
        is_slower = cost is not None and cost.mean > math.exp(COST_TOLERANCE / PRODUCTION_WEIGHT)
        if _is_surely_dearer(cost):
            return Reason.TIMES, True
        if _shown(row.number("lost_share")) > _shown(self.chosen.number("lost_share")):
            is_sure = self._differs(row, "lost_work_s")
            if is_sure or not is_slower:
                return Reason.WORK_LOST, is_sure
        return (Reason.TIMES if is_slower else Reason.NOTHING), False

    def _times(self, row: CandidateResult, other: CandidateResult) -> tuple[Ratio | None, Ratio | None]:
        """Times of the production jobs, and of the others, to those under another candidate."""
        names = row.candidate.name, other.candidate.name
        return (self._ratio(self.found.log_ratios(*names, True)), self._ratio(self.found.log_ratios(*names, False)))

    def _ratio(self, log_ratios: ArrayLike) -> Ratio | None:
        return ratio_of(log_ratios, self.comparisons)

    def _differs(self, row: CandidateResult, column: str) -> bool:
        """Whether the difference of a figure of all jobs, paired by seed, is sure."""
        differences = self.found.differences(row.candidate.name, self.chosen.candidate.name, column)
        interval = _interval(differences, self.comparisons)
        return interval is not None and not interval[0] <= 0 <= interval[1]


def ratio_of(log_ratios: ArrayLike, comparisons: int = 1) -> Ratio | None:
    """Mean and interval of ratios, from their logarithms, one for each seed; None if there are none."""
    found = known(log_ratios)
    if not len(found):
        return None
    interval = _interval(found, comparisons)
    low, high = (None, None) if interval is None else map(math.exp, interval)
    return Ratio(math.exp(float(found.mean())), low, high)


def _interval(values: ArrayLike, comparisons: int) -> tuple[float, float] | None:
    """The interval of the mean of values, one for each seed; None for fewer than ``LEAST_SEEDS``."""
    found = known(values)
    return mean_interval(found, comparisons) if len(found) >= LEAST_SEEDS else None


# ---- the verdict in words ----

_REASONS = {
    Reason.DEADLINES: "misses {missed} deadlines, not {chosen_missed}",
    Reason.TIMES: "costs more time",
    Reason.WORK_LOST: "may take as long, but loses more work ({lost} against {chosen_lost})",
    Reason.NOTHING: "does the same here",
}


def advice(found: CandidateResults, verdict: Verdict) -> Iterator[str]:
    """All that is said below the tables; under YARN's CapacityScheduler, first what YARN itself can be told.

    Where no candidate may be preferred, only the reasons.
    """
    yield from of_how_many((len(found.rows), found.asked[0]), (verdict.seeds, found.asked[1]), "seeds")
    if verdict.reasons_against_any:
        yield from verdict.reasons_against_any
        return
    settable = [row for row in found.rows if row.candidate.properties is not None]
    in_yarn = judge(found, verdict.seeds, settable) if settable else None
    if in_yarn is not None:
        yield from yarn_sentences(in_yarn)
        yield "With any mechanism:"
    yield from sentences(verdict)


def sentences(verdict: Verdict) -> Iterator[str]:
    """What to choose, if anything, and what the numbers say of each mechanism."""
    chosen, rivals = verdict.chosen, verdict.rivals
    if verdict.is_preferred:
        alike = [rival for rival in rivals if not rival.is_sure]
        others = f" {_listed(alike)} may do as well." if alike else ""
        yield f"Choose {_with_orders(chosen)}.{others}"
    else:
        yield f"No preference: {_why_not(verdict)}."
        if chosen.candidate.mechanism != WAIT:
            yield f"  By the means alone, the rule would take {_with_orders(chosen)}."
    for rival in rivals:
        yield f"  {called(rival.outcome)} {_against(rival, chosen)}."
    alike_policies = [one.outcome.candidate.policies for one in verdict.policies if not one.is_sure]
    if alike_policies:
        yield f"  {chosen.candidate.mechanism} may do as well with {' or with '.join(alike_policies)}."
    for one in verdict.policies:
        if one.is_sure:
            yield f"  {called(one.outcome)} {_against(one, chosen)}."
    if len(rivals) > 1 and verdict.seeds >= LEAST_SEEDS:
        yield f"  The intervals are 95% ones, widened (Bonferroni) so that all {len(rivals)} comparisons hold together."
    if any(not one.is_sure and one.reason is Reason.TIMES for one in rivals):
        yield f"  More seeds would give more certainty; these are {verdict.seeds} (--seeds)."


def _why_not(verdict: Verdict) -> str:
    if verdict.seeds < LEAST_SEEDS:
        return f"nothing is sure with fewer than {LEAST_SEEDS} seeds (--seeds)"
    if verdict.chosen.candidate.mechanism == WAIT:
        return "no mechanism is surely better than to wait, and not every one is surely worse"
    return "no mechanism is surely better than to wait, which is no preemption at all"


def yarn_sentences(verdict: Verdict) -> Iterator[str]:
    """What to set in YARN itself; ``verdict`` is among the candidates that it can do."""
    properties = verdict.chosen.candidate.properties
    if not verdict.is_preferred:
        yield "With YARN as it is: no preference; no setting of its preemption is surely better than none."
    elif verdict.chosen.candidate.mechanism == WAIT:
        yield "With YARN as it is: leave its preemption off."
    elif not properties:
        yield "With YARN as it is: leave its preemption as it is configured."
    else:
        yield f"With YARN as it is: {verdict.chosen.candidate.policies}; in its files"
        for setting in properties:
            yield f"    {setting}"


def called(outcome: CandidateResult) -> str:
    """A candidate's name in a sentence."""
    one = outcome.candidate
    return one.mechanism if one.policies == NO_POLICIES else f"{one.mechanism} ({one.policies})"


def _with_orders(outcome: CandidateResult) -> str:
    """The same where it is named first, with the orders spelled out."""
    one = outcome.candidate
    return one.mechanism if one.policies == NO_POLICIES else f"{one.mechanism}: {', '.join(spelled_out(one.policies))}"


def _listed(rivals: Sequence[Rival]) -> str:
    return " or ".join(called(rival.outcome) for rival in rivals)


def _against(rival: Rival, chosen: CandidateResult) -> str:
    why = _REASONS[rival.reason].format(
        missed=rival.outcome.text("missed", "d"),
        chosen_missed=chosen.text("missed", "d"),
        lost=rival.outcome.text("lost_share", ".1%"),
        chosen_lost=chosen.text("lost_share", ".1%"),
    )
    sure = "" if rival.reason is Reason.NOTHING else ": sure" if rival.is_sure else ": not sure"
    return why + _difference(rival) + sure


def _difference(rival: Rival) -> str:
    parts = []
    if rival.production is not None:
        parts.append(f"production {rival.production.in_words()}")
    if rival.others is not None:
        parts.append(f"others {rival.others.in_words()}")
    return ": " + ", ".join(parts) if parts else ""

"""The verdict of ``natjam advise`` in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.advise.candidates import NO_POLICIES, WAIT
from analysis.advise.outcomes import CandidateResult, CandidateResults
from analysis.advise.verdict import LEAST_SEEDS, Reason, Rival, Verdict, judge

_REASONS = {
    Reason.DEADLINES: "misses {missed} deadlines, not {chosen_missed}",
    Reason.TIMES: "costs more time",
    Reason.WORK_LOST: "may take as long, but loses more work ({lost} against {chosen_lost})",
    Reason.NOTHING: "does the same here",
}


def advice(found: CandidateResults, verdict: Verdict) -> Iterator[str]:
    """All that is said below the tables; under YARN's CapacityScheduler, first what YARN itself can be told."""
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
        others = f"; {_listed(alike)} may do as well" if alike else ""
        yield f"Choose {called(chosen)}{others}."
    else:
        yield f"No preference: {_why_not(verdict)}."
        if chosen.candidate.mechanism != WAIT:
            yield f"  By the means alone, the rule would take {called(chosen)}."
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
        yield f"With YARN as it is: {verdict.chosen.candidate.policies}; in yarn-site.xml"
        for setting in properties:
            yield f"    {setting}"


def called(outcome: CandidateResult) -> str:
    """A candidate's name in a sentence."""
    one = outcome.candidate
    return one.mechanism if one.policies == NO_POLICIES else f"{one.mechanism} ({one.policies})"


def _listed(rivals: Sequence[Rival]) -> str:
    return " or ".join(called(rival.outcome) for rival in rivals)


def _against(rival: Rival, chosen: CandidateResult) -> str:
    why = _REASONS[rival.reason].format(
        missed=rival.outcome.missed,
        chosen_missed=chosen.missed,
        lost=f"{rival.outcome.lost_share:.1%}",
        chosen_lost=f"{chosen.lost_share:.1%}",
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

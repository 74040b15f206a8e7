"""Decisions in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice

from emulator.policies.kubernetes.cycle import Decision
from emulator.policies.kubernetes.filters import Filter, FitError
from emulator.policies.kubernetes.gangs import GangDecision, GangOutcome, Unit
from emulator.policies.kubernetes.placement import Placement, Score
from emulator.policies.kubernetes.preemption import Candidate, Preemption, Verdict
from emulator.policies.resources import amount_text

_FILTERS = {
    Filter.UNSCHEDULABLE: "it is cordoned",
    Filter.TAINT: "the pod does not tolerate its taint {what}",
    Filter.SELECTOR: "it has no label {what}, which the pod's node selector wants",
    Filter.NODE_AFFINITY: "the pod's node affinity wants {what}",
    Filter.PORTS: "its port {what} is taken",
    Filter.VOLUMES: "a volume of the pod cannot be reached from it",
    Filter.SPREAD: "its {what} would have too many of the pods that the pod is spread among",
    Filter.AFFINITY: "a required affinity wants the pod with others of the same {what}",
    Filter.ANTI_AFFINITY: "a required anti-affinity keeps the pod from pods of the same {what}",
}
_VERDICTS = {
    Verdict.PREEMPTS: "preempts on {node}, and waits for its victims to go",
    Verdict.NO_CANDIDATE: "finds no node where preemption would help",
    Verdict.NEVER: "does not preempt: its preemptionPolicy is Never",
    Verdict.WAITS: "waits: those whom it preempted before are still going",
}
_PROTECTED = ", against its budget"
_SHOWN_NAMES = 3
_MAX_LINES = 101
"""The most lines of a text: a node has one."""
_GANG_OUTCOMES = {
    GangOutcome.FITS: "starts",
    GangOutcome.PREEMPTS: "preempts",
    GangOutcome.TOO_FEW: "waits: fewer of its pods are there than have to start together",
    GangOutcome.NEVER: "does not fit, and does not preempt: its preemptionPolicy is Never",
    GangOutcome.NO_LOWER: "does not fit, and nobody is of lower priority",
    GangOutcome.NO_FIT: "does not fit, even with all of lower priority gone",
}


def why(decision: Decision | GangDecision) -> Iterator[str]:
    """What a cycle did with its pod, node by node."""
    if isinstance(decision, GangDecision):
        yield from why_gang(decision)
    elif decision.preemption is None:
        yield from why_placement(decision.placement)
    else:
        yield from why_preemption(decision.preemption)


def text_of(decision: Decision | GangDecision) -> str:
    """The same in one text, as a journal keeps it."""
    lines = why(decision)
    shown = [*islice(lines, _MAX_LINES)]
    if isinstance(decision, Decision) and decision.preemption is None:  # of many nodes no line is made to be counted
        rest = 1 + len(decision.placement.scores) + len(decision.placement.fit_errors) - len(shown)
    else:
        rest = sum(1 for _ in lines)
    return "\n".join([*shown, *([f"and {rest} more nodes"] if rest else [])])


def why_gang(decision: GangDecision) -> Iterator[str]:
    """What becomes of a gang: where its pods go, or who goes for it."""
    gang = decision.gang
    count = f"{len(gang.pods)} pods, {gang.min_count} of them together"
    yield f"{gang.name} (priority {gang.priority}, {count}) {_GANG_OUTCOMES[decision.outcome]}"
    for name, node in decision.bound.items():
        yield f"{name} goes to {node}"
    for name, node in decision.nominated.items():
        yield f"{name} fits on {node}, and waits for the others"
    for unit in decision.victims:
        yield f"{_unit_text(unit)}{_PROTECTED * (unit in decision.violating)}) would go"
    for unit in decision.spared:
        yield f"{_unit_text(unit)}) may stay"


def _unit_text(unit: Unit) -> str:
    return f"{', '.join(unit.names)} (priority {unit.priority}"


def _by_reason(fit_errors: Iterable[tuple[str, FitError, str]]) -> Iterator[str]:
    """Nodes where a pod does not fit, those with one reason in one line, most first; each with what else is to say."""
    groups: dict[tuple[Filter, bool, str, str], dict[str, FitError]] = {}
    for node, error, more in fit_errors:
        groups.setdefault((error.filter, error.is_hard, error.what, more), {})[node] = error
    for (kind, is_hard, what, more), nodes in sorted(groups.items(), key=lambda each: -len(each[1])):
        name, error = next(iter(nodes.items()))
        if len(nodes) == 1:
            yield f"{name}: {why_fit_error(error)}{more}"
            continue
        names = ", ".join(islice(nodes, _SHOWN_NAMES)) + ", ..." * (len(nodes) > _SHOWN_NAMES)
        short = f"{amount_text(what, error.asked)} asked, {'it has less in all' if is_hard else 'less is left'}"
        reason = short if kind is Filter.RESOURCES else why_fit_error(error)
        yield f"{len(nodes):,} nodes: {reason}{more} ({names})"


def why_fit_error(error: FitError) -> str:
    """Why a pod does not fit on a node."""
    if error.filter is not Filter.RESOURCES:
        return _FILTERS[error.filter].format(what=error.what)
    asked, room = amount_text(error.what, error.asked), amount_text(error.what, error.room)
    return f"{asked} asked, it has {room} in all" if error.is_hard else f"{asked} asked, {room} left"


def why_score(score: Score) -> str:
    """A score with its parts."""
    return (
        f"score {score.total}: {score.least_allocated} for what is left, {score.balanced} for balance, "
        f"{score.taints} for taints"
    )


def why_placement(placement: Placement, best: int | None = None) -> Iterator[str]:
    """Where a pod goes, node by node; with ``best``, so many with the highest scores, and the others by reason."""
    pod = placement.pod
    where = "fits on no node" if placement.node is None else f"goes to {placement.node}"
    nominated = ", where it has made room" if placement.was_nominated else ""
    yield f"{pod.name} (priority {pod.priority}) {where}{nominated}"
    fit_errors = ((node, error, "") for node, error in placement.fit_errors.items())
    if best is None:
        yield from (f"{node}: {why_score(score)}" for node, score in placement.scores.items())
        yield from (f"{node}: {why_fit_error(error)}" for node, error, _ in fit_errors)
        return
    scores = sorted(placement.scores.items(), key=lambda each: (each[0] != placement.node, -each[1].total))
    yield from (f"{node}: {why_score(score)}" for node, score in scores[:best])
    if more := scores[best:]:
        yield f"{len(more):,} more nodes: scores from {more[-1][1].total} to {more[0][1].total}"
    yield from _by_reason(fit_errors)


def why_preemption(preemption: Preemption, best: int | None = None) -> Iterator[str]:
    """Whom a pod preempts, and for every other node why not there; with ``best``, so many of the best candidates, and
    the others by reason."""
    pod = preemption.pod
    yield f"{pod.name} (priority {pod.priority}) {_VERDICTS[preemption.verdict].format(node=preemption.node)}"
    ranked = sorted(preemption.candidates, key=lambda each: (each.node != preemption.node, best and each.rank()))
    for candidate in ranked[:best]:
        yield f"{candidate.node}: {_why_candidate(candidate)}{_why_not(preemption, candidate)}"
    if best is not None:
        counts = Counter(_why_not(preemption, each) for each in ranked[best:])
        yield from (f"{count:,} more nodes where others would go{reason}" for reason, count in counts.most_common())
    fit_errors = (
        (node, error, _why_no_candidate(preemption, node, error)) for node, error in preemption.fit_errors.items()
    )
    if best is None:
        yield from (f"{node}: {why_fit_error(error)}{more}" for node, error, more in fit_errors)
    else:
        yield from _by_reason(fit_errors)
    if preemption.cleared:
        yield f"no longer waiting for {preemption.node}: {', '.join(preemption.cleared)}"


def _why_no_candidate(preemption: Preemption, node: str, error: FitError) -> str:
    if preemption.verdict in (Verdict.NEVER, Verdict.WAITS):
        return ""
    if error.is_hard:
        return "; nobody's leaving helps"
    if node in preemption.untried:
        return "; nobody there is of lower priority"
    return " even with all of lower priority gone"


def _why_candidate(candidate: Candidate) -> str:
    victims = ", ".join(
        f"{each.pod.name} (priority {each.pod.priority}{_PROTECTED * (each.pod.name in candidate.violating)})"
        for each in candidate.victims
    )
    spared = f"; {', '.join(candidate.spared)} may stay" if candidate.spared else ""
    return f"{victims} would go{spared}"


def _why_not(preemption: Preemption, candidate: Candidate) -> str:
    if candidate.node == preemption.node:
        return "; taken"
    criterion = preemption.lost_by(candidate.node)
    if criterion is None:
        return f"; as good as {preemption.node}"
    return f"; {preemption.node} is better: {criterion.value}"

"""Decisions in words."""

from __future__ import annotations

from collections.abc import Iterator

from emulator.policies.kueue.cycle import Decision, Outcome
from emulator.policies.kueue.model import Assignment, Mode, Reason, Tried, Victim
from emulator.policies.resources import amount_text

_MODES = {
    Mode.NO_FIT: "does not fit, even with nothing else admitted that it may preempt",
    Mode.NO_CANDIDATES: "needs preemption, and whom it may preempt is not enough",
    Mode.PREEMPT: "needs preemption in its own queue",
    Mode.RECLAIM: "needs preemption in other queues",
    Mode.FIT: "fits",
}
_OUTCOMES = {
    Outcome.ADMITTED: "is admitted",
    Outcome.PREEMPTS: "preempts, and waits for its victims to go",
    Outcome.NO_ROOM: "does not fit",
    Outcome.NO_VICTIMS: "finds no victims",
    Outcome.VICTIMS_TAKEN: "waits: another preemptor of this cycle has its victims",
    Outcome.ROOM_TAKEN: "waits: those before it in this cycle took the room",
    Outcome.EXCLUDED: "waits: its queue does not admit workloads of its namespace (namespaceSelector)",
}
_REASONS = {
    Reason.IN_CLUSTER_QUEUE: "it is in the same queue",
    Reason.RECLAMATION: "its queue borrows what the preemptor's side lends",
    Reason.WHILE_BORROWING: "its priority is low enough for a preemptor that borrows",
    Reason.FAIR_SHARING: "its side's share is not below the preemptor's",
}


def why_tried(tried: Tried) -> str:
    """One flavor, with the amounts that decided."""
    if tried.why_excluded:
        return f"{tried.podset} in {tried.flavor}: {tried.why_excluded}"
    height = "" if tried.borrow == 0 else f", borrowing at height {tried.borrow} of the cohorts"
    asked = f"{amount_text(tried.resource, tried.asked)} asked, {amount_text(tried.resource, tried.room)} left"
    return f"{tried.podset} in {tried.flavor}: {_MODES[tried.mode]} ({asked}{height})"


def why_victim(victim: Victim) -> str:
    """Why a victim may be taken."""
    shares = ""
    if victim.shares is not None:
        own, other = victim.shares
        shares = f": {other / 1000:.3f} against {own / 1000:.3f}"
    return (
        f"{victim.name} (queue {victim.queue}, priority {victim.priority}) goes: "
        f"{_REASONS[victim.reason]}{shares} [{victim.reason.value}]"
    )


def why(decision: Decision) -> Iterator[str]:
    """A decision, line by line: what, its victims, and the flavors that were tried for it."""
    workload = decision.workload
    until_freed = decision.aside and decision.outcome is not Outcome.EXCLUDED
    aside = ", and is set aside until quota is freed" if until_freed else ""
    yield f"{workload.name} (queue {workload.queue}, priority {workload.priority}) {_OUTCOMES[decision.outcome]}{aside}"
    yield from map(why_victim, decision.victims)
    yield from why_assignment(decision.assignment)


def why_assignment(assignment: Assignment) -> Iterator[str]:
    """The flavors that were tried, in order."""
    yield from map(why_tried, assignment.tried)

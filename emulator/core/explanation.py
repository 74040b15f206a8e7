"""Explaining evictions: the candidates that a rule chose from, for the journal (``emulator.core.effects``).

The cost is low.  It writes the views that the policy got: those of the victims, and at most ``CANDIDATES_SHOWN`` of the
next candidates.  Only if there are more jobs than that does it sort them once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nsmallest
from itertools import groupby, islice
from operator import attrgetter
from typing import Any, NamedTuple

from emulator.core.effects import Effect, ExplainJobEviction, ExplainTaskEviction
from emulator.policies.policy import Policy
from emulator.policies.views import JobView, MechanismDecision, TaskView

CANDIDATES_SHOWN = 16
LAST_LAUNCHED = "last-launched"
"""The rule for taking a container from a job's own reduces for a map whose output is missing."""


class JobChoice(NamedTuple):
    """One container to take from ``victim``, one of the ``jobs`` of ``queue``."""

    requester: str
    queue: str
    victim: str
    now_ns: int
    jobs: tuple[JobView, ...]
    short: str = ""
    """What the requester lacks, in words, and where; empty: a container, on any node."""


def explain_jobs(policy: Policy[Any], choices: Iterable[JobChoice]) -> list[Effect]:
    """One explanation for each run of choices with the same requester, queue and lack; ``policy`` chose, and its score,
    if it has one, is a job's."""
    return [
        _explain_jobs(policy, requester, list(group))
        for (requester, _, _), group in groupby(choices, key=attrgetter("requester", "queue", "short"))
    ]


def _explain_jobs(policy: Policy[Any], requester: str, choices: list[JobChoice]) -> ExplainJobEviction:
    first = choices[0]
    shown = {job.name: job for job in _next_in_line(policy, first)}
    for choice in choices:
        if choice.victim not in shown:
            shown[choice.victim] = next(job for job in choice.jobs if job.name == choice.victim)
    victims = tuple(choice.victim for choice in choices)
    left_out = max(0, len(first.jobs) - len(shown))
    return ExplainJobEviction(requester, policy.name, victims, tuple(shown.values()), left_out, first.short)


def _next_in_line(policy: Policy[Any], choice: JobChoice) -> Sequence[JobView]:
    score = policy.score
    if len(choice.jobs) <= CANDIDATES_SHOWN or score is None:
        return choice.jobs[:CANDIDATES_SHOWN]
    return nsmallest(CANDIDATES_SHOWN, choice.jobs, key=lambda job: score.key(job, choice.now_ns))


def explain_tasks(
    rule: str,
    job: str,
    tasks: Sequence[TaskView],
    order: Sequence[str],
    victims: int,
    mechanisms: tuple[MechanismDecision, ...] = (),
    short: str = "",
) -> ExplainTaskEviction:
    """``order`` is the rule's order of the containers of ``tasks``; the first ``victims`` were taken, each by its entry
    in ``mechanisms``; ``short``: why anything was."""
    by_container: dict[str, TaskView] = {task.container: task for task in tasks}
    shown = tuple(by_container[container] for container in islice(order, victims + CANDIDATES_SHOWN))
    return ExplainTaskEviction(job, rule, victims, shown, len(tasks) - len(shown), mechanisms, short)

"""Explaining evictions: the candidates a rule chose from, for the journal (``emulator.core.effects``).

It costs what is written down: the views that the policy was given, as they are, and at most ``CANDIDATES_SHOWN`` of
them beside the victims, the next in line.  Only where there are more jobs than that are they looked through once again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nsmallest
from itertools import groupby, islice
from operator import itemgetter
from typing import NamedTuple

from emulator.core.effects import Effect, ExplainJobEviction, ExplainTaskEviction
from emulator.policies.policy import JobEviction, Policy
from emulator.policies.views import JobView, MechanismDecision, TaskView

CANDIDATES_SHOWN = 16
LAST_LAUNCHED = "last-launched"
"""The rule by which a job takes a container from its own reduces for a map whose output is missing."""


class JobChoice(NamedTuple):
    """One container to be had from ``victim``, a job of ``queue`` and one of ``jobs``."""

    requester: str
    queue: str
    victim: str
    now_ns: int
    jobs: tuple[JobView, ...]


def explain_jobs(policy: Policy[JobEviction], choices: Iterable[JobChoice]) -> list[Effect]:
    """One explanation for all choices that follow each other for one requester and from one queue."""
    return [
        _explain_jobs(policy, requester, list(group))
        for (requester, _), group in groupby(choices, key=itemgetter(0, 1))
    ]


def _explain_jobs(policy: Policy[JobEviction], requester: str, choices: list[JobChoice]) -> ExplainJobEviction:
    first = choices[0]
    shown = {job.name: job for job in _next_in_line(policy, first)}
    for choice in choices:
        if choice.victim not in shown:
            shown[choice.victim] = next(job for job in choice.jobs if job.name == choice.victim)
    victims = tuple(choice.victim for choice in choices)
    left_out = max(0, len(first.jobs) - len(shown))
    return ExplainJobEviction(requester, policy.name, victims, tuple(shown.values()), left_out)


def _next_in_line(policy: Policy[JobEviction], choice: JobChoice) -> Sequence[JobView]:
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
) -> ExplainTaskEviction:
    """``order`` is what the rule has made of the containers of ``tasks``; the first ``victims`` of it were taken, by
    those ``mechanisms``."""
    by_container: dict[str, TaskView] = {task.container: task for task in tasks}
    shown = tuple(by_container[container] for container in islice(order, victims + CANDIDATES_SHOWN))
    return ExplainTaskEviction(job, rule, victims, shown, len(tasks) - len(shown), mechanisms)

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
from emulator.policies.scores import JOB_SCORES
from emulator.policies.views import JobEvictionView, JobView, TaskEvictionView, TaskView

CANDIDATES_SHOWN = 16
LAST_LAUNCHED = "last-launched"
"""The rule by which a job takes a container from its own reduces for a map whose output is missing."""


class JobChoice(NamedTuple):
    """One container to be had from ``victim``, a job of ``queue``."""

    requester: str
    queue: str
    victim: str
    view: JobEvictionView


def explain_jobs(rule: str, choices: Iterable[JobChoice]) -> list[Effect]:
    """One explanation for all choices that follow each other for one requester and from one queue."""
    return [
        _explain_jobs(rule, requester, list(group)) for (requester, _), group in groupby(choices, key=itemgetter(0, 1))
    ]


def _explain_jobs(rule: str, requester: str, choices: list[JobChoice]) -> ExplainJobEviction:
    first = choices[0].view
    shown = {job.name: job for job in _next_in_line(rule, first)}
    for choice in choices:
        if choice.victim not in shown:
            shown[choice.victim] = next(job for job in choice.view.jobs if job.name == choice.victim)
    victims = tuple(choice.victim for choice in choices)
    return ExplainJobEviction(requester, rule, victims, tuple(shown.values()), max(0, len(first.jobs) - len(shown)))


def _next_in_line(rule: str, view: JobEvictionView) -> Sequence[JobView]:
    score = JOB_SCORES.get(rule)
    if len(view.jobs) <= CANDIDATES_SHOWN or score is None:
        return view.jobs[:CANDIDATES_SHOWN]
    return nsmallest(CANDIDATES_SHOWN, view.jobs, key=lambda job: score.key(job, view.now_ns))


def explain_tasks(rule: str, view: TaskEvictionView, order: Sequence[str], victims: int) -> ExplainTaskEviction:
    """``order`` is what the rule has made of the containers of ``view``; the first ``victims`` of it were taken."""
    by_container: dict[str, TaskView] = {task.container: task for task in view.tasks}
    shown = tuple(by_container[container] for container in islice(order, victims + CANDIDATES_SHOWN))
    return ExplainTaskEviction(view.job, rule, victims, shown, len(view.tasks) - len(shown))

"""The evictions that a journal explains, and the candidates of each with the number that the rule compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from emulator.core.application_master.job_progress import WHOLE_PPM
from emulator.core.effects import ExplainJobEviction, ExplainTaskEviction
from emulator.core.explanation import LAST_LAUNCHED
from emulator.core.messages import RESOURCE_MANAGER
from emulator.policies.job_selection import laxity_ns
from emulator.policies.policy import Policy
from emulator.policies.views import JobView, MechanismDecision, TaskView
from emulator.vocabulary import Frozen, Kind


class Chooser(StrEnum):
    """Who chooses victims."""

    PREEMPTOR = "preemptor"
    """Jobs; all others choose tasks."""
    RELEASER = "releaser"
    """Tasks of a job."""
    RESOURCE_MANAGER = "resource-manager"
    """A task to kill, because a container was not given back in time."""
    APPLICATION_MASTER = "application-master"
    """One of its own tasks, to make room for a map."""


class Decision(Frozen):
    """One choice of victims."""

    t_ns: int
    actor: str
    """Address of the machine that chose."""
    why: ExplainJobEviction | ExplainTaskEviction
    policy: Policy[Any] | None
    """The policy that chose; None: not known here, so that the number it compares is not known either."""

    @property
    def by(self) -> Chooser:
        """Who chose."""
        if isinstance(self.why, ExplainJobEviction):
            return Chooser.PREEMPTOR
        if self.actor == RESOURCE_MANAGER:
            return Chooser.RESOURCE_MANAGER
        return Chooser.APPLICATION_MASTER if self.why.rule == LAST_LAUNCHED else Chooser.RELEASER

    def candidates(self) -> Iterator[Candidate]:
        """The recorded candidates, the next victim first."""
        if isinstance(self.why, ExplainJobEviction):
            return _jobs(self, self.why)
        return _tasks(self, self.why)


class Candidate(Frozen):
    """One job or task that could have been the victim; None: does not apply, or was not known to the chooser."""

    place: int
    """Among the recorded candidates, from 1, in the order of the rule if it has one."""
    chosen: int
    """Containers taken from it by this decision."""
    job: str
    score_name: str | None
    """Name of the number that the rule compared; a time if the name ends in ``_ns``."""
    score: int | None
    progress: float | None
    """Share done."""
    remaining_ns: int | None
    kind: Kind | None = None
    task: int | None = None
    container: str | None = None
    node: str | None = None
    keys_done: int | None = None
    keys_total: int | None = None
    started_ns: int | None = None
    """When it was last launched or resumed; if the ResourceManager chose, when it got its container."""
    containers: int | None = None
    """Containers held by the job, without those already requested back."""
    reclaimable: int | None = None
    priority: int | None = None
    deadline_ns: int | None = None
    laxity_ns: int | None = None
    mechanism: MechanismDecision | None = None
    """The mechanism for a victim, and the numbers that decided it."""


def _jobs(decision: Decision, why: ExplainJobEviction) -> Iterator[Candidate]:
    now_ns, chosen = decision.t_ns, Counter(why.victims)
    score = decision.policy.score if decision.policy else None
    jobs: list[JobView] = list(why.candidates)
    if score is not None:
        jobs.sort(key=lambda job: (score.key(job, now_ns), not chosen[job.name]))
    for place, job in enumerate(jobs, start=1):
        yield Candidate(
            place=place,
            chosen=chosen[job.name],
            job=job.name,
            score_name=score.name if score else None,
            score=score.value(job, now_ns) if score else None,
            progress=None if job.progress_ppm is None else job.progress_ppm / WHOLE_PPM,
            remaining_ns=job.remaining_ns,
            containers=job.containers,
            reclaimable=job.reclaimable,
            priority=job.facts.priority,
            deadline_ns=job.facts.deadline_ns,
            laxity_ns=laxity_ns(job, now_ns),
        )


def _tasks(decision: Decision, why: ExplainTaskEviction) -> Iterator[Candidate]:
    for place, task in enumerate(why.candidates, start=1):
        name, value = _task_score(decision, task, place)
        yield Candidate(
            place=place,
            chosen=int(place <= why.victims),
            job=why.job,
            score_name=name,
            score=value,
            progress=None if task.keys_done is None or not task.keys_total else task.keys_done / task.keys_total,
            remaining_ns=task.remaining_ns,
            kind=task.kind,
            task=task.task,
            container=task.container,
            node=task.node,
            keys_done=task.keys_done,
            keys_total=task.keys_total,
            started_ns=task.started_ns,
            mechanism=why.mechanisms[place - 1] if place <= len(why.mechanisms) else None,
        )


def _task_score(decision: Decision, task: TaskView, place: int) -> tuple[str | None, int | None]:
    policy = decision.policy
    if decision.why.rule == LAST_LAUNCHED or (policy and policy.score and task.keys_total is None):
        return "started_ns", task.started_ns  # the container held longest is taken to have the least time left
    if policy and policy.score:
        return policy.score.name, policy.score.value(task, decision.t_ns)
    return ("drawn_place", place) if policy and policy.draws else (None, None)

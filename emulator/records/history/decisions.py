"""The evictions that a journal explains, and the candidates of each with the number that the rule compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any, TypeAlias

from emulator.core.effects import TRANSACTIONAL, ExplainJobEviction, ExplainScheduler, ExplainTaskEviction
from emulator.core.explanation import LAST_LAUNCHED
from emulator.core.messages import RESOURCE_MANAGER
from emulator.files.times import ns_to_seconds
from emulator.policies.job_selection import laxity_ns
from emulator.policies.policy import Policy
from emulator.policies.resources import WHOLE_PPM
from emulator.policies.views import JobView, TaskView
from emulator.records.history.attempt_names import AttemptNames
from emulator.records.history.columns import Mark
from emulator.vocabulary import Frozen, Mechanism

Explained: TypeAlias = ExplainJobEviction | ExplainTaskEviction | ExplainScheduler
"""What a journal explains."""


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
    SCHEDULER = "scheduler"
    """A container, by a scheduler that says who gets what; or the node of a new one."""


class Decision(Frozen):
    """One choice of victims."""

    number: int
    """Among all of its run, by time and actor, from 1."""
    t_ns: int
    actor: str
    """Address of the machine that chose."""
    why: Explained
    policy: Policy[Any] | None
    """The policy that chose; None: not known here, so that the number it compares is not known either."""

    @property
    def by(self) -> Chooser:
        """Who chose."""
        if isinstance(self.why, ExplainJobEviction):
            return Chooser.PREEMPTOR
        if isinstance(self.why, ExplainScheduler):
            return Chooser.SCHEDULER
        if self.actor == RESOURCE_MANAGER:
            return Chooser.RESOURCE_MANAGER
        return Chooser.APPLICATION_MASTER if self.why.rule == LAST_LAUNCHED else Chooser.RELEASER

    def candidates(self, attempts: AttemptNames) -> Iterator[Candidate]:
        """The recorded candidates, the next victim first; ``attempts``: of the whole run."""
        why = self.why
        requester = None if isinstance(why, ExplainTaskEviction) else why.requester
        requester = "the transactional workload" if requester == TRANSACTIONAL else requester
        left_out = 0 if isinstance(why, ExplainScheduler) else why.left_out
        choice = Choice(self.number, self.t_ns, self.by, why.rule, requester, left_out)
        if isinstance(why, ExplainScheduler):
            return iter([_named(choice, why, attempts)])
        if isinstance(why, ExplainJobEviction):
            return _jobs(choice, self, why)
        return _tasks(choice, self, why, attempts)


class Choice(Frozen):
    """What all candidates of one choice share."""

    decision: int
    """Number of the choice in its run, from 1; its rows are consecutive."""
    t_ns: int
    """When the choice was made."""
    by: Chooser
    """Who chose: ``preemptor`` (jobs), ``releaser`` (tasks of a job), ``resource-manager`` (a task to kill, because a
    container was not given back in time), ``application-master`` (one of its own tasks, for a map whose output is
    missing), ``scheduler`` (a container by its name, or the node of a new one: kube-scheduler, Kueue, Slurm, or a
    process outside)."""
    rule: str
    """Name of the policy that chose."""
    requester: str | None
    """The job that wanted containers.  None: tasks of one job were chosen, or a container was given."""
    left_out: int
    """Candidates that were not kept: at most 16 besides the victims are."""


class Candidate(Frozen, kw_only=True):
    """One candidate of a choice of victims; no value: it does not apply, or was not known to the chooser."""

    choice: Choice
    """The choice."""
    attempt: str | None = None
    """A task: its attempt."""
    job: str
    """The job, or the job of the task."""
    kind: str | None = None
    """A task: the name of its group."""
    task: int | None = None
    """A task: its number."""
    container: str | None = None
    """A task: its container."""
    node: str | None = None
    """A task: the node of its container."""
    place: int
    """Among the recorded candidates, from 1, in the order of the rule if it has one."""
    chosen: int
    """Containers taken from it by this choice; 0: it was passed over."""
    score_name: str | None
    """Name of the number that the rule compared: ``containers`` (for *pr*, the weight of the draw), ``deadline_s``,
    ``laxity_s``, ``priority``, ``remaining_s``, ``drawn_place`` (*random*) or ``started_s`` (if nothing better was
    known).  None for the user's own rules."""
    score: Annotated[float | None, Mark.SIGNED]
    """That number."""
    containers: int | None = None
    """A job: containers held, without those already requested back."""
    reclaimable: int | None = None
    """A job: containers that may be taken, without those already requested back."""
    priority: Annotated[int | None, Mark.SIGNED] = None
    """A job: its priority."""
    deadline_ns: int | None = None
    """A job: its deadline."""
    laxity_ns: Annotated[int | None, Mark.SIGNED] = None
    """A job: how long it could stand still and still meet its deadline."""
    progress: float | None
    """Share done, 0 to 1."""
    keys_done: int | None = None
    """A task: keys done."""
    keys_total: int | None = None
    """A task: all its keys."""
    remaining_ns: int | None
    """Estimated work left."""
    started_ns: int | None = None
    """A task: when it was last launched or resumed; if the ResourceManager chose, when it got its container."""
    saved_ns: int | None = None
    """A task: when it last saved by itself; a kill loses what it has done since."""
    mechanism: Mechanism | None = None
    """A victim task: what happens to it."""
    mechanism_numbers: str | None = None
    """A victim task: the numbers that decided the mechanism."""
    why: str | None = None
    """What a ``scheduler`` said of its choice, the first line in short.  Of a choice of jobs where containers have
    several sizes: what the requester lacked on which node.  Of a round of YARN's preemption policy: what the queue was
    entitled to, and how much the round took of it."""


def _jobs(choice: Choice, decision: Decision, why: ExplainJobEviction) -> Iterator[Candidate]:
    now_ns, chosen = decision.t_ns, Counter(why.victims)
    score = decision.policy.score if decision.policy else None
    jobs: list[JobView] = list(why.candidates)
    if score is not None:
        jobs.sort(key=lambda job: (score.key(job, now_ns), not chosen[job.name]))
    for place, job in enumerate(jobs, start=1):
        name, value = _in_seconds(score.name, score.value(job, now_ns)) if score else (None, None)
        yield Candidate(
            choice=choice,
            job=job.name,
            place=place,
            chosen=chosen[job.name],
            score_name=name,
            score=value,
            progress=None if job.progress_ppm is None else job.progress_ppm / WHOLE_PPM,
            remaining_ns=job.remaining_ns,
            containers=job.containers,
            reclaimable=job.reclaimable,
            priority=job.facts.priority,
            deadline_ns=job.facts.deadline_ns,
            laxity_ns=laxity_ns(job, now_ns),
            why=why.short or None,
        )


def _tasks(choice: Choice, decision: Decision, why: ExplainTaskEviction, attempts: AttemptNames) -> Iterator[Candidate]:
    attempt_of = attempts.of(why.job)
    for place, task in enumerate(why.candidates, start=1):
        name, value = _in_seconds(*_task_score(decision, task, place))
        chosen = why.mechanisms[place - 1] if place <= len(why.mechanisms) else None
        yield Candidate(
            choice=choice,
            attempt=attempt_of.get(task.container),
            job=why.job,
            place=place,
            chosen=int(place <= why.victims),
            score_name=name,
            score=value,
            progress=None if task.keys_done is None or not task.keys_total else task.keys_done / task.keys_total,
            remaining_ns=task.remaining_ns,
            kind=task.group,
            task=task.task,
            container=task.container,
            node=task.node,
            keys_done=task.keys_done,
            keys_total=task.keys_total,
            started_ns=task.started_ns,
            saved_ns=task.saved_ns,
            mechanism=None if chosen is None else chosen.mechanism,
            mechanism_numbers=None if chosen is None else " ".join(f"{what}={much}" for what, much in chosen.numbers),
            why=why.short or None,
        )


def _named(choice: Choice, why: ExplainScheduler, attempts: AttemptNames) -> Candidate:
    return Candidate(
        choice=choice,
        attempt=attempts.of(why.job).get(why.container),
        job=why.job,
        kind=why.group,
        container=why.container,
        node=why.node,
        place=1,
        chosen=int(why.is_taken),
        score_name=None,
        score=None,
        progress=None,
        remaining_ns=None,
        why=why.why,
    )


def _task_score(decision: Decision, task: TaskView, place: int) -> tuple[str | None, int | None]:
    policy = decision.policy
    if decision.why.rule == LAST_LAUNCHED or (policy and policy.score and task.keys_total is None):
        return "started_ns", task.started_ns  # the container held longest is taken to have the least time left
    if policy and policy.score:
        return policy.score.name, policy.score.value(task, decision.t_ns)
    return ("drawn_place", place) if policy and policy.draws else (None, None)


def _in_seconds(name: str | None, value: int | None) -> tuple[str | None, float | None]:
    """A score as tables have it: a time, whose name ends in ``_ns``, in seconds."""
    if name is None or not name.endswith("_ns"):
        return name, value
    return f"{name.removesuffix('_ns')}_s", ns_to_seconds(value)

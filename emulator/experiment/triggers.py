"""Triggers, and jobs submitted at some progress of other jobs: their checks and their marks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from emulator.core.application_master.task import task_named
from emulator.core.messages import TaskOrder
from emulator.core.settings import Trigger
from emulator.experiment.groups import groups_of, waits_for_itself
from emulator.experiment.model import Experiment, Scheduler, TriggerEntry, Workload, located_jobs
from emulator.files.problems import Problem, suggestion
from emulator.files.yaml_values import Location
from emulator.vocabulary import JobFacts, Order
from workloads.schema import JobEntry, Progress


def make_triggers(scheduler: Scheduler) -> tuple[Trigger, ...]:
    """The triggers in the form that the state machines use."""
    return tuple(map(_trigger, scheduler.triggers))


def _trigger(entry: TriggerEntry) -> Trigger:
    job, task = task_named(entry.task)
    return Trigger(entry.when.job, entry.when.progress_ppm, job, TaskOrder(task, Order(entry.do)))


def marks_of(experiment: Experiment) -> dict[str, tuple[int, ...]]:
    """By job: the progress that triggers and other jobs wait for, in millionths of its work, ascending."""
    marks: dict[str, set[int]] = {}
    for when in _waited_for(experiment.scheduler.triggers, experiment.workload.jobs or ()):
        marks.setdefault(when.job, set()).add(when.progress_ppm)
    return {job: tuple(sorted(of_job)) for job, of_job in marks.items()}


def _waited_for(triggers: Iterable[TriggerEntry], jobs: Iterable[JobEntry]) -> Iterator[Progress]:
    yield from (trigger.when for trigger in triggers)
    yield from (job.submit_when for job in jobs if job.submit_when is not None)


def trigger_problems(scheduler: Scheduler | None, workload: Workload, engine: str) -> Iterator[Problem]:
    """Triggers and submissions that wait for something that does not exist, or for each other."""
    jobs = {job.name: job for job in workload.jobs or ()}
    waits_for = {name: job.submit_when.job for name, job in jobs.items() if job.submit_when is not None}
    for of_job, job in located_jobs(workload):
        where: Location = (*of_job, "submit_when")
        if job.submit_when is None:
            continue
        if job.submit_s:
            yield where, f"submit_s {job.submit_s:g} also sets the time; remove one of the two"
        if engine == "fluid":
            yield where, "the fluid engine cannot wait for a job's progress; give submit_s"
        if job.submit_when.job not in jobs:
            yield (*where, "job"), _no_job(job.submit_when.job, jobs)
        elif waits_for_itself(job.name, waits_for):
            yield (*where, "job"), f"'{job.name}' waits for itself, through other jobs; give one of them submit_s"
    for index, trigger in enumerate(scheduler.triggers if scheduler is not None else ()):
        where = ("scheduler", "triggers", index)
        if engine == "fluid":
            yield where, "the fluid engine has no tasks; remove it"
        if trigger.when.job not in jobs:
            yield (*where, "when", "job"), _no_job(trigger.when.job, jobs)
        yield from _task_problems((*where, "task"), trigger.task, jobs)


def _task_problems(where: Location, name: str, jobs: dict[str, JobEntry]) -> Iterator[Problem]:
    try:
        job, task = task_named(name)
    except ValueError as error:
        yield where, str(error)
        return
    if job not in jobs:
        yield where, _no_job(job, jobs)
        return
    facts = JobFacts(job, "", groups_of(jobs[job]))
    problem = facts.lacks(task.group, task.number)
    if problem is not None:
        yield where, problem


def _no_job(name: str, jobs: dict[str, JobEntry]) -> str:
    return f"there is no job '{name}'{suggestion(name, jobs)}"

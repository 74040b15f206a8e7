"""Victim jobs: which job must give a container, by the job eviction policy (natjam, section 3.2).

Theory of operation
-------------------
A job can give what it holds in tasks that may be victims, net of what it was asked for before: otherwise one of two
equal jobs would lose everything.  The ResourceManager sees no progress of tasks, so it chooses a job; the job's
ApplicationMaster chooses the task (``emulator.core.application_master.releaser``).  A task eviction that ranks tasks
across jobs chooses here, among the tasks of all victim jobs.

A gang gives single tasks as long as its minimum is left, then all that it has: one choice, which counts as as many
containers as are lacking.  Once it has been asked for one of those, it is not chosen again.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from emulator.core.decisions import choose_job
from emulator.core.effects import Effect
from emulator.core.explanation import JobChoice, explain_jobs
from emulator.core.machine import keyed_random
from emulator.core.resource_manager.allocation import Contract
from emulator.core.resource_manager.cluster_state import ClusterState
from emulator.core.resource_manager.preemptor import Preemptor
from emulator.core.resource_manager.victim_tasks import VictimTasks
from emulator.core.settings import Settings
from emulator.policies.views import ClusterView, JobView


class VictimJobs:
    """Part of an allocation that takes back by contract; see the module's theory of operation."""

    def __init__(self, settings: Settings, state: ClusterState, preemptor: Preemptor) -> None:
        self._seed = settings.seed
        self._policy = settings.scheduler.job_eviction
        self._preemptor = preemptor
        self._decisions = 0
        self._choices: list[JobChoice] = []
        """Choices made since the last ``explain``."""
        across_jobs = settings.scheduler.task_eviction.across_jobs
        self.tasks = VictimTasks(settings, state) if across_jobs else None
        """Chooses where tasks are ranked across jobs; None: they are not."""

    def among(self, jobs: Iterable[JobView]) -> dict[str, JobView]:
        """Those of ``jobs`` with a task to give, without the tasks already asked back."""
        asked = self._preemptor.asked()
        views = (net_of(view, asked[view.name]) if view.name in asked else view for view in jobs if view.reclaimable)
        return {
            view.name: view for view in views if view.reclaimable > 0 and not (view.name in asked and _is_going(view))
        }

    def choose(
        self, requester: str, among: tuple[JobView, ...], jobs: dict[str, JobView], view: ClusterView, lacking: int
    ) -> list[Contract]:
        """Contracts with one of the jobs ``among``: one, or as many as are ``lacking`` and a gang that goes whole has.
        Updates ``jobs``, all jobs that have a container to give."""
        if self.tasks is None or (contract := self.tasks.choose(requester, among, view)) is None:
            contract = Contract(requester, self._choose_job(requester, among, view))
        victim, count = jobs[contract.victim], 1
        if victim.goes_whole:
            count = min(lacking, victim.reclaimable)
            self._choices += self._choices[-1:] * (count - 1) if contract.container is None else []
        jobs[victim.name] = net_of(victim, count)
        if victim.goes_whole or not jobs[victim.name].reclaimable:
            del jobs[victim.name]
        return [contract, *(Contract(requester, victim.name) for _ in range(count - 1))]

    def _choose_job(self, requester: str, among: tuple[JobView, ...], view: ClusterView) -> str:
        self._decisions += 1
        random = keyed_random(self._seed, "rm", "job-eviction", self._decisions)
        victim = choose_job(self._policy, view, among, random)
        self._choices.append(JobChoice(requester, among[0].facts.queue, victim, view.now_ns, among))
        return victim

    def explain(self) -> list[Effect]:
        """Explanations of the victims chosen since the last call."""
        explained = [] if self.tasks is None else self.tasks.explain()
        if not self._choices:
            return explained
        choices, self._choices = self._choices, []
        return [*explained, *explain_jobs(self._policy, choices)]


def net_of(view: JobView, asked: int) -> JobView:
    """The job as the eviction must see it: without the containers already asked back."""
    members = max(0, view.members - asked)
    return replace(view, containers=view.containers - asked, reclaimable=view.reclaimable - asked, members=members)


def _is_going(view: JobView) -> bool:
    """Whether what was asked of it leaves less than its minimum, so that it gives all."""
    return view.facts.gang is not None and view.members < view.facts.gang

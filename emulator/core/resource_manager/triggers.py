"""Triggers: orders for single tasks when a job reaches a progress (os-assisted-preemption, section III-B).

Theory of operation
-------------------
This is the paper's dummy scheduler, which preempts by a static list.  A *mark* is a share of a job's work that a
trigger, or the submission of another job, waits for.  The job's ApplicationMaster counts the marks it has passed and
reports the count in its heartbeats; when the job ends, all marks are passed.  When a mark is passed, the client is told
and may submit a job.  The orders of the triggers that wait for the mark go to the ApplicationMasters of their tasks,
with their next answer.  Orders of a user during a run take the same way.
"""

from __future__ import annotations

from emulator.core.effects import Effect, Send
from emulator.core.messages import CLIENT, ProgressReached, TaskOrder
from emulator.core.resource_manager.cluster_state import ClusterState
from emulator.core.settings import Settings


class Triggers:
    """The triggers of the ResourceManager (see the module's theory of operation)."""

    def __init__(self, settings: Settings, state: ClusterState) -> None:
        self._marks = settings.marks
        self._triggers = settings.scheduler.triggers
        self._state = state
        self._passed: dict[str, int] = {}
        self._early: dict[str, list[TaskOrder]] = {}
        """Orders for jobs that have not been submitted yet."""

    def passed(self, job: str, marks: int | None = None) -> list[Effect]:
        """``job`` has passed this many of its marks; None: it has ended, so all are passed."""
        all_marks = self._marks.get(job, ())
        before, now = self._passed.get(job, 0), len(all_marks) if marks is None else marks
        if now <= before:
            return []
        self._passed[job] = now
        effects: list[Effect] = []
        for mark_ppm in all_marks[before:now]:
            effects.append(Send(CLIENT, ProgressReached(job, mark_ppm)))
            for trigger in self._triggers:
                if (trigger.job, trigger.progress_ppm) == (job, mark_ppm):
                    self.order(trigger.task_job, trigger.order)
        return effects

    def again(self) -> list[Effect]:
        """Tell the client all passed marks again: it may have missed the last ones."""
        return [
            Send(CLIENT, ProgressReached(job, mark_ppm))
            for job, passed in self._passed.items()
            for mark_ppm in self._marks.get(job, ())[:passed]
        ]

    def order(self, job: str, order: TaskOrder) -> None:
        """Pass an order to the ApplicationMaster of ``job``; before its submission it is kept, after its end it has no
        effect."""
        application = self._state.applications.get(job)
        if application is None:
            self._early.setdefault(job, []).append(order)
            return
        application.news.order(order)

    def submitted(self, job: str) -> None:
        """``job`` was submitted."""
        for order in self._early.pop(job, ()):
            self.order(job, order)

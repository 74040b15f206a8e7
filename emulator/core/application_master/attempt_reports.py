"""How NodeManagers' reports about containers change attempts and tasks.

Theory of operation
-------------------
A report carries its container's whole state and a rising revision; a report that is not newer than the last is ignored.
A report settles the command that it answers and moves the attempt along Fig. 2 of natjam.  If the attempt has ended, it
decides what follows: its task is done, another attempt follows, or the job has failed.
"""

from __future__ import annotations

from emulator.core.application_master.job_tasks import JobTasks
from emulator.core.application_master.speculation import Rivals
from emulator.core.application_master.task import (
    AT_WORK,
    VICTIM,
    AttemptEvent,
    AttemptState,
    Task,
    TaskAttempt,
    TaskEvent,
    TaskState,
)
from emulator.core.effects import Effect
from emulator.core.mechanisms import TRAITS
from emulator.core.messages import ContainerReport, ContainerState, Outcome
from emulator.core.saved import Saved
from emulator.core.settings import Settings

_GOES_ON = frozenset({ContainerState.RUNNING, ContainerState.COMMITTING})


class AttemptReports:
    """Part of one ApplicationMaster; see the module's theory of operation."""

    def __init__(self, tasks: JobTasks, rivals: Rivals, settings: Settings) -> None:
        self._tasks = tasks
        self._rivals = rivals
        self._protocol = settings.protocol
        self._heeds_refusals = settings.scheduler.mechanism.heeds_refusals

    def take(self, report: ContainerReport, now_ns: int) -> list[Effect]:
        """Take a report of one of the job's containers."""
        tasks, attempt = self._tasks, self._tasks.live.get(report.container)
        if attempt is not None and report.revision <= attempt.revision:
            return []  # an old report: it must not settle a command sent since
        tasks.commands.settle(report)
        if attempt is None:
            return []
        attempt.revision = report.revision
        if report.saved is not None and report.outcome is not Outcome.CHECKPOINTED:
            self._saved_by_itself(attempt, report.saved, now_ns)
        if report.state is ContainerState.LAUNCHING:
            return []
        if not attempt.was_launched and report.outcome is not Outcome.LAUNCH_FAILED:
            attempt.take(AttemptEvent.LAUNCH, now_ns)
            tasks.of(attempt).take(TaskEvent.LAUNCHED)
        has_gone_on = report.state in _GOES_ON or report.outcome is Outcome.SUCCEEDED
        if attempt.state is AttemptState.RESUMING and has_gone_on:
            attempt.take(AttemptEvent.RESUME, now_ns)
        if report.state is ContainerState.DONE:
            return self._ended(attempt, report, now_ns)
        if report.state is ContainerState.SUSPENDED:
            return self._stopped(attempt, now_ns)
        if report.state is ContainerState.COMMITTING and attempt.state in AT_WORK:
            attempt.take(AttemptEvent.COMMIT)  # a victim that commits frees its container too: the debt is paid
            tasks.withdraw_suspend(attempt)
        if report.refusals > attempt.refusals:
            attempt.refusals = report.refusals
            self._refused(attempt, now_ns)
        return []

    def _saved_by_itself(self, attempt: TaskAttempt, saved: Saved, now_ns: int) -> None:
        """What it has done until then is not lost, however it ends."""
        task = self._tasks.of(attempt)
        if saved != task.saved:
            attempt.saved_by_itself_ns = now_ns
            task.accept(saved, attempt.saved)

    def _refused(self, attempt: TaskAttempt, now_ns: int) -> None:
        if attempt.state is not AttemptState.SUSPEND_PENDING:
            return
        gets_another = self._heeds_refusals and not TRAITS[attempt.mechanism].ends_process
        # Do not choose the same victim again at once: another node may have room.
        is_spared = not gets_another or attempt.task in self._tasks.held
        attempt.take(AttemptEvent.REFUSED, now_ns + self._protocol.retry_ns if is_spared else attempt.spared_until_ns)
        self._tasks.withdraw_suspend(attempt)
        self._owe_another(attempt)

    def _owe_another(self, victim: TaskAttempt) -> None:
        """A victim's container has not become free: if it was to pay a debt, another victim must."""
        self._tasks.releaser.debt += victim.pays_debt

    def _stopped(self, attempt: TaskAttempt, now_ns: int) -> list[Effect]:
        if attempt.state is AttemptState.SUSPEND_PENDING:
            attempt.take(AttemptEvent.SAVED, now_ns)
            self._tasks.of(attempt).suspended_ns.append(now_ns)
            return self._ask_to_resume(attempt, now_ns)
        if attempt.state is AttemptState.RESUMING:
            attempt.take(AttemptEvent.RESUME_FAILED)
            return self._ask_to_resume(attempt, now_ns)
        return []

    def _ask_to_resume(self, attempt: TaskAttempt, now_ns: int) -> list[Effect]:
        """An attempt was stopped and asks to resume.  If two attempts at a task are stopped, only the one with more
        keys done may resume; the other is killed."""
        tasks = self._tasks
        tasks.lost_to_gang()
        if tasks.of(attempt).state is TaskState.SUCCEEDED:
            return []  # another attempt has succeeded: this one will be killed
        if attempt.task in tasks.held:
            return []
        other = tasks.asks.to_resume(attempt.task)
        further = attempt
        effects: list[Effect] = []
        if other is not None and other is not attempt:
            further = max(other, attempt, key=lambda stopped: stopped.estimate.keys_done)
            effects = [self._rivals.kill(attempt if further is other else other, now_ns)]
        tasks.asks.add(further)
        self._rivals.withdraw_waiting(attempt)
        return effects

    # ---- ends ----

    def _ended(self, attempt: TaskAttempt, report: ContainerReport, now_ns: int) -> list[Effect]:
        tasks = self._tasks
        del tasks.live[report.container]
        if tasks.asks.to_resume(attempt.task) is attempt:
            tasks.asks.withdraw_resume(attempt.task)
        was_victim = attempt.state in VICTIM
        tasks.withdraw_suspend(attempt)
        task = tasks.of(attempt)
        if task.state is TaskState.SUCCEEDED:
            attempt.take(AttemptEvent.KILL)  # another attempt has succeeded: the outcome of this one does not count
        elif report.outcome is Outcome.SUCCEEDED:
            return self._succeeded(task, attempt, report, now_ns)
        elif report.outcome is Outcome.CHECKPOINTED and attempt.state is AttemptState.SUSPEND_PENDING:
            attempt.take(AttemptEvent.SAVED, now_ns)
            task.suspended_ns.append(now_ns)
            if report.saved is not None:
                task.accept(report.saved, attempt.saved)
            self._retry(task, now_ns)
        elif report.outcome in (Outcome.KILLED, Outcome.LOST):
            attempt.take(AttemptEvent.KILL)
            self._retry(task, now_ns)
            if report.outcome is Outcome.LOST and was_victim:
                self._owe_another(attempt)  # the node is gone
        else:
            self._failed(task, attempt, report, now_ns)
        return []

    def _failed(self, task: Task, attempt: TaskAttempt, report: ContainerReport, now_ns: int) -> None:
        attempt.take(AttemptEvent.FAIL)
        task.failures += 1
        self._tasks.blacklist.failed(report.node)
        if task.failures < self._protocol.task_attempts_max:
            self._retry(task, now_ns)
            return
        task.take(TaskEvent.FAIL)
        self._tasks.failure = f"{attempt.name} failed {task.failures} times, at last: {report.reason}"

    def _retry(self, task: Task, now_ns: int) -> None:
        """An attempt has ended, or given way for good: start another, unless a speculative rival is still running."""
        tasks = self._tasks
        tasks.lost_to_gang()
        if not task.keys_total:
            tasks.map_news_ns = now_ns
        has_rival = task.speculative and any(tasks.has_container(attempt) for attempt in task.attempts)
        self._rivals.withdraw_waiting(task.attempt)
        another = task.take(TaskEvent.RETRY, now_ns, has_rival)
        if another is not None:
            tasks.request(another)

    def _succeeded(self, task: Task, attempt: TaskAttempt, report: ContainerReport, now_ns: int) -> list[Effect]:
        tasks = self._tasks
        attempt.take(AttemptEvent.SUCCEED)
        task.take(TaskEvent.SUCCEED, report.node)
        tasks.groups.count(task, 1)
        tasks.request_groups_if_due()
        if task.keys_total:
            return self._rivals.beaten_by(attempt, now_ns)
        return self._maps_complete(now_ns) if tasks.groups.maps_are_done else []

    def _maps_complete(self, now_ns: int) -> list[Effect]:
        outputs = self._tasks.outputs
        outputs.complete(tuple(task.output_node or "" for task in self._tasks.maps))
        nodes = [attempt.node for attempt in self._tasks.live_walkers if attempt.node is not None]
        return [effect for node in nodes for effect in outputs.tell(node, now_ns)]

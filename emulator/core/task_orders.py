"""Orders about single tasks of a job, from triggers or from a user (os-assisted-preemption, section III-B).

Theory of operation
-------------------
A task that is to be suspended is *held* until it is to be resumed or killed: whenever an attempt at it runs, it is made
a victim, which is stopped (SIGTSTP) and does not ask for a container.  A node that has no room for it refuses, and is
asked again.  A killed task begins anew as soon as it is given a container.  Like a suspension, a kill goes with the
task's own next heartbeat.  An order about a task that has ended does nothing.
"""

from __future__ import annotations

from emulator.core.effects import Effect
from emulator.core.job_tasks import JobTasks
from emulator.core.messages import KillContainer, TaskId, TaskOrder
from emulator.core.task import TaskState
from emulator.core.task_attempt import AttemptEvent, AttemptState, TaskAttempt
from emulator.vocabulary import Kind, Mechanism, Order


class TaskOrders:
    """Part of one ApplicationMaster; see the module's theory of operation."""

    def __init__(self, tasks: JobTasks) -> None:
        self._tasks = tasks
        self._whys: dict[str, str] = {}
        """Of containers that are to be killed at their tasks' heartbeats."""

    @property
    def owes(self) -> bool:
        """Whether a task is to be suspended that is not."""
        return any(
            attempt.state is not AttemptState.SUSPENDED
            for task in self._tasks.held
            for attempt in self._open_attempts(task)
        )

    def take(self, ordered: TaskOrder, now_ns: int) -> list[Effect]:
        """Take an order.  A suspension begins with ``victims``."""
        tasks, attempts = self._tasks, self._open_attempts(ordered.task)
        if ordered.order is Order.SUSPEND:
            tasks.held[ordered.task] = None
            for attempt in attempts:
                tasks.asks.withdraw_stopped(attempt)
            return []
        meant = ordered.container
        if meant is None:
            tasks.held.pop(ordered.task, None)
        mine = [a for a in attempts if tasks.has_container(a) and meant in (None, a.container)]
        if ordered.order is Order.KILL:
            self._whys.update((attempt.container or "", ordered.why) for attempt in mine)
            return [self._tasks.at_heartbeat("kill", attempt, now_ns) for attempt in mine]
        for attempt in mine:
            if attempt.state is AttemptState.SUSPENDED:
                tasks.asks.add(attempt)
        return []

    def victims(self, now_ns: int) -> list[TaskAttempt]:
        """Attempts at held tasks that run; they are victims from now on."""
        running = [attempt for task in self._tasks.held for attempt in self._open_attempts(task)]
        chosen = self._tasks.releaser.candidates(running, now_ns)
        for attempt in chosen:
            attempt.move(AttemptEvent.CHOOSE)
            attempt.mechanism = Mechanism.SUSPEND
        return chosen

    def _open_attempts(self, task: TaskId) -> list[TaskAttempt]:
        of_kind = self._tasks.maps if task.kind is Kind.MAP else self._tasks.reduces
        if task.number >= len(of_kind) or of_kind[task.number].state in (TaskState.SUCCEEDED, TaskState.FAILED):
            return []
        return of_kind[task.number].open_attempts if of_kind[task.number].attempts else []

    def kill(self, attempt: TaskAttempt, now_ns: int) -> Effect:
        """Its heartbeat has come."""
        container, node = attempt.place
        kill = KillContainer(container, self._tasks.job, self._whys.pop(container, ""))
        return self._tasks.commands.send(container, node, kill, now_ns)

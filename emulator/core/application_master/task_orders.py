"""Orders about single tasks of a job, from triggers or from a user (os-assisted-preemption, section III-B).

Theory of operation
-------------------
A task ordered to suspend is *held* until it is ordered to resume, or killed.  Whenever an attempt at it runs, the
attempt becomes a victim: it is stopped (SIGTSTP) and does not ask for a container.  If its node has no room and
refuses, it is asked again.  A killed task starts again as soon as it gets a container.  A kill, like a suspension,
happens at the task's own next heartbeat.  An order about a task that has ended has no effect.
"""

from __future__ import annotations

from emulator.core.application_master.job_tasks import JobTasks
from emulator.core.application_master.task import AttemptEvent, AttemptState, TaskAttempt, TaskState
from emulator.core.effects import Effect
from emulator.core.mechanisms import HELD_BY
from emulator.core.messages import KillContainer, TaskOrder
from emulator.vocabulary import Order, TaskId


class TaskOrders:
    """Part of one ApplicationMaster; see the module's theory of operation."""

    def __init__(self, tasks: JobTasks) -> None:
        self._tasks = tasks
        self._whys: dict[str, str] = {}
        """Reasons, by container, for kills that wait for their tasks' heartbeats."""

    @property
    def owes(self) -> bool:
        """Whether a task is held that is not suspended yet."""
        return bool(self._tasks.held) and any(
            attempt.state is not AttemptState.SUSPENDED
            for task in self._tasks.held
            for attempt in self._open_attempts(task)
        )

    def take(self, ordered: TaskOrder, now_ns: int) -> list[Effect]:
        """Handle an order.  A suspension starts when ``victims`` is called."""
        tasks, meant_task = self._tasks, self._tasks.meant(ordered.task)
        attempts = self._open_attempts(meant_task)
        if ordered.order is Order.SUSPEND:
            tasks.held[meant_task] = None
            for attempt in attempts:
                tasks.asks.withdraw_stopped(attempt)
            return []
        meant = ordered.container
        if meant is None:
            tasks.held.pop(meant_task, None)
        mine = [a for a in attempts if tasks.has_container(a) and meant in (None, a.container)]
        if ordered.order is Order.KILL:
            self._whys.update((attempt.container or "", ordered.why) for attempt in mine)
            return [self._tasks.at_heartbeat("kill", attempt, now_ns) for attempt in mine]
        for attempt in mine:
            if attempt.state is AttemptState.SUSPENDED:
                tasks.asks.add(attempt)
        return []

    def victims(self, now_ns: int) -> list[TaskAttempt]:
        """Running attempts at held tasks; they become victims."""
        held = [attempt for task in self._tasks.held for attempt in self._open_attempts(task)]
        running = [attempt for attempt in held if not attempt.is_being_restored]
        chosen = self._tasks.releaser.candidates(running, now_ns)
        for attempt in chosen:
            attempt.take(AttemptEvent.CHOOSE, HELD_BY)
        return chosen

    def _open_attempts(self, task: TaskId) -> list[TaskAttempt]:
        of_group = self._tasks.groups.tasks.get(task.group, ())
        if task.number >= len(of_group) or of_group[task.number].state in (TaskState.SUCCEEDED, TaskState.FAILED):
            return []
        return of_group[task.number].open_attempts if of_group[task.number].attempts else []

    def kill(self, attempt: TaskAttempt, now_ns: int) -> Effect:
        """Kill an attempt whose heartbeat has come."""
        container, node = attempt.place
        kill = KillContainer(container, self._tasks.job, self._whys.pop(container, ""))
        return self._tasks.commands.send(container, node, kill, now_ns)

"""Speculative execution: a second attempt beside a straggler (natjam, section 3.2; Hadoop's, after LATE).

Theory of operation
-------------------
An attempt is a straggler if its progress rate is below the mean of the job's by a margin, after it has run for some
time.  The rates of attempts are compared (``emulator.core.application_master.task``).  Rates are keys a second, so
a long task does not count as slow.  Time spent suspended is left out, so an evicted task does not count as slow either.
 Attempts that have ended count in the mean; when only stragglers are left, they still count as slow.

The second attempt starts from nothing and waits for a container like any other.  It is made only when nothing else of
the job waits; few at a time, those with the most time left first (LATE).  The first of the two to succeed wins and the
other is killed.  Either may be evicted.  If both were, the task resumes from the checkpoint, or with the stopped
process, that is further ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from emulator.core.application_master.job_tasks import JobTasks
from emulator.core.application_master.task import AttemptEvent, AttemptState, Task, TaskAttempt, TaskEvent, TaskState
from emulator.core.effects import Effect
from emulator.core.messages import KillContainer
from emulator.core.settings import SpeculationSettings
from emulator.policies.resources import WHOLE_PPM

BEATEN = "another attempt at the task is ahead"
"""Why a rival was killed."""
_NEVER_NS = 1 << 62


class SpeculativeAttempts:
    """Second attempts at the tasks of one job; see the module's theory of operation."""

    def __init__(self, tasks: JobTasks, settings: SpeculationSettings | None) -> None:
        """``settings``: None if no task gets a second attempt."""
        self._tasks = tasks
        self._settings = settings

    def speculate(self, now_ns: int) -> None:
        """Start second attempts for stragglers, unless other attempts already wait for a container."""
        tasks = self._tasks
        if self._settings is None or not tasks.asks.empty:
            return
        for task in stragglers(self._settings, tasks.walkers, tasks.live_reduces, now_ns):
            tasks.request(task.take(TaskEvent.SPECULATE))

    def avoiding(self, node: str) -> Callable[[TaskAttempt], bool] | None:
        """A test for attempts that suit a container on ``node``: those without a rival there, as it is slow; None:
        all."""
        if self._settings is None:
            return None
        return lambda attempt: all(rival.node != node for rival in self._of(attempt))

    def beaten_by(self, winner: TaskAttempt, now_ns: int) -> list[Effect]:
        """``winner`` has succeeded first: drop and kill the other attempts at its task."""
        task = self._tasks.of(winner)
        if not task.speculative:
            return []
        self.withdraw_waiting(winner)
        task.speculative = False
        self._tasks.asks.withdraw_resume(winner.task)
        return [self.kill(rival, now_ns) for rival in self._of(winner)]

    def kill(self, rival: TaskAttempt, now_ns: int) -> Effect:
        """Kill an attempt because another one at its task is ahead."""
        container, node = rival.place
        self._tasks.withdraw_suspend(rival)
        rival.spared_until_ns = _NEVER_NS
        return self._tasks.commands.send(container, node, KillContainer(container, self._tasks.job, BEATEN), now_ns)

    def withdraw_waiting(self, attempt: TaskAttempt) -> None:
        """Drop a second attempt that still waits when the first one wins or gives way."""
        if not self._tasks.of(attempt).speculative:
            return
        for rival in self._tasks.asks.withdraw_new(attempt.task):
            rival.take(AttemptEvent.KILL)
            self._tasks.of(rival).speculative = False

    def _of(self, attempt: TaskAttempt) -> list[TaskAttempt]:
        """Other attempts at the same task that have a container."""
        others = self._tasks.of(attempt).attempts
        return [other for other in others if other is not attempt and self._tasks.has_container(other)]


def stragglers(
    settings: SpeculationSettings, tasks: Sequence[Task], live: Collection[TaskAttempt], now_ns: int
) -> list[Task]:
    """The tasks that get a second attempt now, those with the most time left first.

    ``tasks`` are the job's tasks that walk keys; ``live``: attempts at them that have a container.
    """
    speculating = sum(task.speculative for task in tasks)
    room = max(1, len(live) * settings.at_most_ppm // WHOLE_PPM) - speculating
    if room <= 0:
        return []
    rates = [rate for task in tasks for attempt in task.attempts if (rate := attempt.estimate.rate)]
    by_id = {(task.group.name, task.number): task for task in tasks}
    slow: list[tuple[int, int]] = []
    for attempt in live:
        task, rate = by_id[attempt.task], attempt.estimate.rate
        if attempt.state is not AttemptState.RUNNING or not rate:
            continue
        if task.state is not TaskState.RUNNING or task.speculative:
            continue
        # rate < (1 - margin) x mean, in whole numbers
        lags = rate * len(rates) * WHOLE_PPM < sum(rates) * (WHOLE_PPM - settings.margin_ppm)
        left_ns = attempt.estimate.remaining_ns(task.keys_total, now_ns)
        if lags and left_ns and now_ns - attempt.running_since_ns >= settings.after_ns:
            slow.append((-left_ns, task.index))
    return [tasks[index] for _, index in sorted(slow)[:room]]

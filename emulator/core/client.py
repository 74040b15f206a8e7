"""The client: submits the jobs of a workload, each at its time or when another job has reached a given progress, and
waits for their end."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from emulator.core.effects import AllFinished, Effect, Send
from emulator.core.job import JobSpec
from emulator.core.machine import StateMachine, Timers
from emulator.core.messages import (
    CLIENT,
    RESOURCE_MANAGER,
    JobFinished,
    JobState,
    ProgressReached,
    Start,
    SubmitJob,
    TimerFired,
)


class Client(StateMachine):
    """One client for the whole workload; ``states`` fills as jobs end."""

    def __init__(self, jobs: tuple[JobSpec, ...]) -> None:
        super().__init__(CLIENT)
        self.states: dict[str, JobState] = {}
        by_time = [job for job in jobs if job.submit_when is None]
        self._unsubmitted = deque(sorted(by_time, key=lambda job: job.submit_ns))
        self._awaiting = [job for job in jobs if job.submit_when is not None]
        """Jobs to submit when another job has reached a given progress."""
        self._submitted: dict[str, JobSpec] = {}
        """Submitted jobs not known to have ended."""
        self._unfinished = {job.name for job in jobs}
        self._timers = Timers()

    def _start(self, message: Start, now_ns: int) -> list[Effect]:
        again = self._submit([*self._submitted.values()])
        return [*again, *self._submit_due(now_ns), *([AllFinished()] if not self._unfinished else [])]

    def _timer(self, message: TimerFired, now_ns: int) -> list[Effect]:
        return self._submit_due(now_ns) if self._timers.take(message) else []

    def _submit_due(self, now_ns: int) -> list[Effect]:
        due: list[JobSpec] = []
        while self._unsubmitted and self._unsubmitted[0].submit_ns <= now_ns:
            due.append(self._unsubmitted.popleft())
        effects = self._submit(due)
        if self._unsubmitted:
            effects.append(self._timers.set("submit", self._unsubmitted[0].submit_ns))
        return effects

    def _progress_reached(self, message: ProgressReached, now_ns: int) -> list[Effect]:
        reached = (message.job, message.progress_ppm)
        due = [job for job in self._awaiting if job.submit_when == reached]
        self._awaiting = [job for job in self._awaiting if job.submit_when != reached]
        return self._submit(due)

    def _submit(self, jobs: Sequence[JobSpec]) -> list[Effect]:
        self._submitted |= {job.name: job for job in jobs}
        is_all = not (self._unsubmitted or self._awaiting)
        return [Send(RESOURCE_MANAGER, SubmitJob(job.facts, is_last=is_all and job is jobs[-1])) for job in jobs]

    def _job_finished(self, message: JobFinished, now_ns: int) -> list[Effect]:
        if message.job not in self._unfinished:
            return []
        self._unfinished.discard(message.job)
        self._submitted.pop(message.job, None)
        self.states[message.job] = message.state
        return [] if self._unfinished else [AllFinished()]

    def validate_state(self) -> None:
        """Every job that has ended was submitted."""
        assert not self.states.keys() & {job.name for job in (*self._unsubmitted, *self._awaiting)}

    handlers = {  # noqa: RUF012
        Start: _start,
        TimerFired: _timer,
        ProgressReached: _progress_reached,
        JobFinished: _job_finished,
    }

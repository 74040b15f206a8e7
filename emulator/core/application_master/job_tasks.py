"""What an ApplicationMaster knows of its job: the tasks, and which attempts have a container or wait for one.

The parts of the ApplicationMaster share it: ``attempt_reports``, ``map_reruns``, ``speculation``.
"""

from __future__ import annotations

from collections.abc import Sequence

from emulator.core.application_master.asks import Asks
from emulator.core.application_master.map_outputs import MapOutputLedger
from emulator.core.application_master.releaser import Releaser
from emulator.core.application_master.resuming import Resuming
from emulator.core.application_master.task import Task, TaskEvent, TaskState
from emulator.core.application_master.task_attempt import ENDED, AttemptEvent, AttemptState, TaskAttempt
from emulator.core.blacklist import Blacklist
from emulator.core.delivery import CommandLedger
from emulator.core.effects import SetTimer
from emulator.core.job import JobSpec
from emulator.core.machine import Phase, Timers
from emulator.core.mechanisms import TRAITS, applied_to
from emulator.core.messages import SuspendContainer, TaskId
from emulator.core.settings import Settings
from emulator.vocabulary import Kind


class JobTasks:
    """Part of one ApplicationMaster; see the module's docstring."""

    def __init__(self, spec: JobSpec, settings: Settings) -> None:
        self.job = spec.name
        held_by = spec.facts.held_by
        self.maps = [Task(spec.name, Kind.MAP, i, 0, held_by(i)) for i in range(len(spec.map_ns))]
        self.reduces = [Task(spec.name, Kind.REDUCE, i, keys, held_by(i)) for i, keys in enumerate(spec.reduce_keys)]
        self.maps_done = 0
        self.reduces_done = 0
        self.failure = ""
        """Why the job has failed: the error of its failed task."""
        self.held: dict[TaskId, None] = {}
        """Tasks that stay suspended until they are ordered to resume
        (``emulator.core.application_master.task_orders``)."""
        self.live: dict[str, TaskAttempt] = {}
        """Attempts that have a container, by container."""
        self.map_news_ns = 0
        """When a map last got a container, last needed another one, or room was last made for one."""
        self.releaser = Releaser(spec.facts, settings)
        self.blacklist = Blacklist(settings.protocol.node_blacklist_failures, len(settings.nodes))
        resuming = Resuming(settings.scheduler.resume_order, self.releaser, spec.reduce_keys)
        self.asks = Asks(spec.name, resuming, self.blacklist)
        self.commands = CommandLedger(settings.protocol.retry_ns)
        self.outputs = MapOutputLedger(spec.name, settings.protocol.retry_ns)
        self.timers = Timers()
        self._slow_start_ppm = settings.protocol.slow_start_ppm
        self._seed = settings.seed
        self._task_heartbeat_ns = settings.protocol.task_heartbeat_ns
        self._reduces_asked = False
        self._at_a_task = 1 if settings.protocol.speculation is None else 2
        self._mechanisms = settings.scheduler.mechanism.among

    def of(self, attempt: TaskAttempt) -> Task:
        """The task of an attempt."""
        return (self.maps if attempt.kind is Kind.MAP else self.reduces)[attempt.task.number]

    @property
    def done(self) -> bool:
        """Whether the job is done: all its reduces, or all its maps if it has no reduces."""
        if self.reduces:
            return self.reduces_done == len(self.reduces)
        return self.maps_done == len(self.maps)

    @property
    def live_reduces(self) -> list[TaskAttempt]:
        """Attempts at reduces that have a container."""
        return [attempt for attempt in self.live.values() if attempt.kind is Kind.REDUCE]

    def has_container(self, attempt: TaskAttempt) -> bool:
        """Whether the attempt has a container."""
        return self.live.get(attempt.container or "") is attempt

    def request(self, attempt: TaskAttempt) -> None:
        """Let a new attempt ask for a container."""
        attempt.move(AttemptEvent.REQUEST)
        self.asks.add(attempt)

    def request_all(self, tasks: Sequence[Task]) -> None:
        """Let the first attempts of these tasks ask for containers."""
        for task in tasks:
            task.move(TaskEvent.SCHEDULE)
            self.request(task.new_attempt())

    def request_reduces_if_due(self) -> None:
        """Slow-start: request the reduces when this share of the maps is done."""
        if not self._reduces_asked and self.maps_done * 1_000_000 >= len(self.maps) * self._slow_start_ppm:
            self._reduces_asked = True
            self.request_all(self.reduces)

    def at_heartbeat(self, verb: str, attempt: TaskAttempt, now_ns: int) -> SetTimer:
        """Set a timer to do something to an attempt at its own next heartbeat (natjam, step 6)."""
        heartbeat = Phase(self._seed, attempt.name, "task heartbeat", self._task_heartbeat_ns)
        return self.timers.set(f"{verb} {attempt.container}", heartbeat.after(now_ns))

    def withdraw_suspend(self, attempt: TaskAttempt) -> None:
        """The attempt need not be asked to suspend any more."""
        if attempt.container is not None:
            self.timers.forget(f"ask {attempt.container}")
            self.commands.withdraw(attempt.container, SuspendContainer)

    def validate(self) -> None:
        """Each task has one unfinished attempt, with speculation two; counters agree with states; no attempt with a
        container has ended.  Raises AssertionError."""
        for task in (*self.maps, *self.reduces):
            open_attempts = [a for a in task.attempts if a.state not in ENDED]
            if any(TRAITS[applied_to(mechanism, task.kind)].ends_process for mechanism in self._mechanisms):
                open_attempts = [a for a in open_attempts if a.state is not AttemptState.SUSPENDED]
            assert len(open_attempts) <= self._at_a_task, f"{self.job}: {task.kind.value} {task.index} runs twice"
        assert self.maps_done == sum(task.state is TaskState.SUCCEEDED for task in self.maps)
        assert self.reduces_done == sum(task.state is TaskState.SUCCEEDED for task in self.reduces)
        for container, attempt in self.live.items():
            assert attempt.container == container, attempt.name
            assert attempt.state not in ENDED, attempt.name
        for attempt in self.asks:
            assert self.of(attempt).state is not TaskState.SUCCEEDED, attempt.name
        assert self.releaser.debt >= 0

"""What an ApplicationMaster knows of its job: the tasks, and which attempts have a container or wait for one.

The parts of the ApplicationMaster share it: ``attempt_reports``, ``map_reruns``, ``speculation``.
"""

from __future__ import annotations

from emulator.core.application_master.asks import Asks
from emulator.core.application_master.gang import Gang
from emulator.core.application_master.groups import Groups
from emulator.core.application_master.map_outputs import MapOutputLedger
from emulator.core.application_master.releaser import Releaser
from emulator.core.application_master.resuming import Resuming
from emulator.core.application_master.task import (
    ENDED,
    AttemptEvent,
    AttemptState,
    Task,
    TaskAttempt,
    TaskEvent,
    TaskState,
)
from emulator.core.blacklist import Blacklist
from emulator.core.delivery import CommandLedger
from emulator.core.effects import SetTimer
from emulator.core.job import JobSpec
from emulator.core.machine import Phase, Timers
from emulator.core.mechanisms import TRAITS, applied_to
from emulator.core.messages import SuspendContainer
from emulator.core.settings import Settings
from emulator.vocabulary import TaskId


class JobTasks:
    """Part of one ApplicationMaster; see the module's docstring."""

    def __init__(self, spec: JobSpec, settings: Settings) -> None:
        self.job = spec.name
        self._facts = spec.facts
        self.groups = Groups(spec, settings.protocol.slow_start_ppm)
        self.maps, self.walkers = self.groups.maps, self.groups.walkers
        self.failure = ""
        """Why the job has failed: the error of its failed task."""
        self.held: dict[TaskId, None] = {}
        """Tasks that stay suspended until they are ordered to resume
        (``emulator.core.application_master.task_orders``)."""
        self.live: dict[str, TaskAttempt] = {}
        """Attempts that have a container, by container."""
        self.map_news_ns = 0
        """When a map last got a container, last needed another one, or room was last made for one."""
        self.releaser = Releaser(spec.facts, settings, self.live)
        requests = {group.request for group in spec.facts.groups}
        self.blacklist = Blacklist(settings.protocol.node_blacklist_failures, settings.nodes, requests)
        resuming = Resuming(settings.scheduler.resume_order, self.releaser)
        self.asks = Asks(spec.facts, resuming, self.blacklist)
        self.gang = None if spec.facts.gang is None else Gang(spec.facts.gang)
        """None: each task starts by itself."""
        self.commands = CommandLedger(settings.protocol.retry_ns)
        self.outputs = MapOutputLedger(spec.name, settings.protocol.retry_ns)
        self.timers = Timers()
        self._seed = settings.seed
        self._task_heartbeat_ns = settings.protocol.task_heartbeat_ns
        self._at_once = settings.protocol.at_once
        self._at_a_task = 1 if settings.protocol.speculation is None else 2
        self._mechanisms = settings.scheduler.mechanism.among

    def of(self, attempt: TaskAttempt) -> Task:
        """The task of an attempt."""
        return self.groups.tasks[attempt.task.group][attempt.task.number]

    @property
    def live_walkers(self) -> list[TaskAttempt]:
        """Attempts that walk keys and have a container."""
        return [attempt for attempt in self.live.values() if attempt.keys_total]

    def meant(self, task: TaskId) -> TaskId:
        """The task that an order means: see ``JobFacts.meant``."""
        return TaskId(self._facts.meant(task.group), task.number)

    @property
    def needed(self) -> int:
        """Tasks of its gang that must run at a time; 0: it has none."""
        return 0 if self.gang is None else self.gang.needs(self.groups.unfinished)

    @property
    def at_once(self) -> int | None:
        """Fewest containers that are of use to it now; 0: each one is; None: none is."""
        if self.gang is None:
            return 0
        if self.gang.disbands:
            return None
        return 0 if self.gang.is_in(self.live) else self.needed

    def has_container(self, attempt: TaskAttempt) -> bool:
        """Whether the attempt has a container."""
        return self.live.get(attempt.container or "") is attempt

    def lost_to_gang(self) -> None:
        """A task has lost its container, or must give it back: look whether its gang is still large enough."""
        if self.gang is not None:
            self.gang.has_lost = True

    def request(self, attempt: TaskAttempt) -> None:
        """Let a new attempt ask for a container."""
        attempt.take(AttemptEvent.REQUEST)
        self.asks.add(attempt)

    def request_groups_if_due(self) -> None:
        """Let the first attempts at the tasks of groups that may start ask for containers."""
        for task in self.groups.start():
            self.request(task.take(TaskEvent.SCHEDULE))

    def at_heartbeat(self, verb: str, attempt: TaskAttempt, now_ns: int) -> SetTimer:
        """Set a timer to do something to an attempt at its own next heartbeat (natjam, step 6), or at once."""
        heartbeat = Phase(self._seed, attempt.name, "task heartbeat", self._task_heartbeat_ns)
        return self.timers.set(f"{verb} {attempt.container}", now_ns if self._at_once else heartbeat.after(now_ns))

    def withdraw_suspend(self, attempt: TaskAttempt) -> None:
        """The attempt need not be asked to suspend any more."""
        if attempt.container is not None:
            self.timers.forget(f"ask {attempt.container}")
            self.commands.withdraw(attempt.container, SuspendContainer)

    def validate(self) -> None:
        """Each task has one unfinished attempt, with speculation two; counters agree with states; no attempt with a
        container has ended.  Raises AssertionError."""
        for task in (*self.maps, *self.walkers):
            open_attempts = [a for a in task.attempts if a.state not in ENDED]
            if any(TRAITS[applied_to(mechanism, task.group.work)].ends_process for mechanism in self._mechanisms):
                open_attempts = [a for a in open_attempts if a.state is not AttemptState.SUSPENDED]
            assert len(open_attempts) <= self._at_a_task, f"{task} runs twice"
        groups = self.groups
        assert groups.maps_done == sum(task.state is TaskState.SUCCEEDED for task in self.maps)
        assert groups.walkers_done == sum(task.state is TaskState.SUCCEEDED for task in self.walkers)
        for container, attempt in self.live.items():
            assert attempt.container == container, attempt.name
            assert attempt.state not in ENDED, attempt.name
        for attempt in self.asks:
            assert self.of(attempt).state is not TaskState.SUCCEEDED, attempt.name
        assert self.releaser.debt >= 0
        if self.gang is not None and not (self.failure or self.groups.done):
            self._validate_gang(self.gang)

    def _validate_gang(self, gang: Gang) -> None:
        assert gang.disbands or not gang.has_lost or not gang.is_in(self.live), f"{self.job}: half a gang stays"
        assert not (gang.disbands and gang.being_launched(self.live)), f"{self.job}: a task starts in a gang that ends"

"""What an ApplicationMaster knows of its job: the tasks, and which attempts have a container or wait for one.

Theory of operation
-------------------
A group's containers are requested all at once, as soon as enough tasks of the group that it starts after have
succeeded; those of a job with a gang, when it starts.  The job is done when all tasks that walk keys are; a job without
any, when its maps are.

A job with a gang has a minimum: so many of its tasks, or all that are not done if they are fewer, start at once.  As
long as none of its tasks has a container, its ask says so (``Ask.at_once``); what is beyond the minimum, it gets one
by one.  All its tasks ask from the start, reduces too.

Tasks that end by themselves leave a smaller gang, which goes on.  But if one is lost to it (it crashed, its node is
gone, it is asked back or was ordered to stop) and too few are left, the gang *disbands*: all its tasks are evicted by
the job's mechanism.  One that cannot be saved or stopped, because the mechanism waits or the node has no room, is
killed; so is one that is being launched.  Until the last has left its container the job asks for nothing, and gives
back at once what it gets.  Then it asks for all again, so that its tasks resume together.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from emulator.core.application_master.asks import Asks, Blacklist
from emulator.core.application_master.map_outputs import MapOutputLedger
from emulator.core.application_master.releaser import Releaser
from emulator.core.application_master.task import (
    ENDED,
    VICTIM,
    AttemptEvent,
    AttemptState,
    Task,
    TaskAttempt,
    TaskEvent,
    TaskState,
)
from emulator.core.delivery import CommandLedger
from emulator.core.effects import SetTimer
from emulator.core.job import JobSpec
from emulator.core.machine import Phase, Timers
from emulator.core.messages import SuspendContainer
from emulator.core.settings import Settings
from emulator.policies.mechanism import TRAITS, applied_to
from emulator.policies.resources import WHOLE_PPM
from emulator.vocabulary import TaskGroup, TaskId, Work

_LEFT = VICTIM | {AttemptState.SUSPENDED}


class Groups:
    """The groups of a job: their tasks, how many have succeeded, and which groups may start (slow start)."""

    def __init__(self, spec: JobSpec, slow_start_ppm: int) -> None:
        self.tasks = {group.name: _tasks_of(spec, group) for group in spec.facts.groups}
        """By the name of their group, in the order of the groups."""
        tasks = list(chain.from_iterable(self.tasks.values()))
        self.maps = [task for task in tasks if task.group.work is Work.SHUFFLE]
        """Tasks that write output for the shuffle."""
        self.walkers = [task for task in tasks if task.group.work is Work.KEYS]
        """Tasks that walk keys."""
        self.maps_done = 0
        self.walkers_done = 0
        self._succeeded = dict.fromkeys(self.tasks, 0)
        self._slow_start_ppm = slow_start_ppm
        self._not_started = list(spec.facts.groups)
        self._at_once = spec.facts.gang is not None

    @property
    def done(self) -> bool:
        """Whether the job is done."""
        return self.walkers_done == len(self.walkers) if self.walkers else self.maps_are_done

    @property
    def unfinished(self) -> int:
        """Tasks that have not succeeded."""
        return len(self.maps) + len(self.walkers) - self.maps_done - self.walkers_done

    @property
    def maps_are_done(self) -> bool:
        """Whether the output of every map is there."""
        return self.maps_done == len(self.maps)

    def count(self, task: Task, change: int) -> None:
        """A task has succeeded (1), or its output is lost (-1)."""
        self._succeeded[task.group.name] += change
        if task.keys_total:
            self.walkers_done += change
        else:
            self.maps_done += change

    def start(self) -> list[Task]:
        """The tasks of the groups that may start now; each group starts once."""
        starting = [group for group in self._not_started if self._may_start(group)]
        for group in starting:
            self._not_started.remove(group)
        return [task for group in starting for task in self.tasks[group.name]]

    def _may_start(self, group: TaskGroup) -> bool:
        after = group.starts_after
        if after is None or self._at_once:
            return True
        share_ppm = self._slow_start_ppm if after.share_ppm is None else after.share_ppm
        return self._succeeded[after.group] * WHOLE_PPM >= len(self.tasks[after.group]) * share_ppm


def _tasks_of(spec: JobSpec, group: TaskGroup) -> list[Task]:
    first, held_by = spec.facts.index_of(group.name, 0), spec.facts.held_by
    keys = spec.reduce_keys[first : first + group.count] if group.work is Work.KEYS else (0,) * group.count
    return [
        Task(spec.name, group, number, first + number, keys[number], held_by(group.name, number))
        for number in range(group.count)
    ]


class Gang:
    """The gang of a job: tasks that get capacity at once, and give it back all together."""

    def __init__(self, minimum: int) -> None:
        self.disbands = False
        """Whether its tasks are being evicted."""
        self.has_lost = False
        """Whether a task was lost to it, or is to be given back, since this was last looked at."""
        self.was_in = False
        """Whether a task had a container when this was last looked at."""
        self._minimum = minimum

    def needs(self, unfinished: int) -> int:
        """Tasks that must run at a time, if so many are not done."""
        return min(self._minimum, unfinished)

    @staticmethod
    def is_in(live: Mapping[str, TaskAttempt]) -> bool:
        """Whether a task has a container; a stopped process has none."""
        return any(attempt.state is not AttemptState.SUSPENDED for attempt in live.values())

    @staticmethod
    def retained(live: Mapping[str, TaskAttempt]) -> int:
        """Number of tasks that have a container and are to keep it."""
        return len({attempt.task for attempt in live.values() if attempt.state not in _LEFT})

    @staticmethod
    def to_evict(live: Mapping[str, TaskAttempt]) -> list[TaskAttempt]:
        """Tasks that can be evicted now; the others will come to this state, or end."""
        return [a for a in live.values() if a.state is AttemptState.RUNNING or a.is_being_restored]

    @staticmethod
    def being_launched(live: Mapping[str, TaskAttempt]) -> list[TaskAttempt]:
        """Tasks that have done nothing yet."""
        return [a for a in live.values() if a.state is AttemptState.ASSIGNED and not a.is_being_restored]


class JobTasks:
    """The parts of one ApplicationMaster share it."""

    def __init__(self, spec: JobSpec, settings: Settings) -> None:
        self.job = spec.name
        self.groups = Groups(spec, settings.protocol.slow_start_ppm)
        self.maps, self.walkers = self.groups.maps, self.groups.walkers
        self.failure = ""
        """Why the job has failed: the error of its failed task."""
        self.held: dict[TaskId, None] = {}
        """Tasks that stay suspended until they are ordered to resume."""
        self.live: dict[str, TaskAttempt] = {}
        """Attempts that have a container, by container."""
        self.map_news_ns = 0
        """When a map last got a container, last needed another one, or room was last made for one."""
        self.releaser = Releaser(spec.facts, settings, self.live)
        requests = {group.request for group in spec.facts.groups}
        self.blacklist = Blacklist(settings.protocol.node_blacklist_failures, settings.nodes, requests)
        self.asks = Asks(spec.facts, settings.scheduler.resume_order, self.releaser, self.blacklist)
        self.gang = None if spec.facts.gang is None else Gang(spec.facts.gang)
        """None: each task starts by itself."""
        self.commands = CommandLedger(settings.protocol.retry_ns)
        self.outputs = MapOutputLedger(spec.name, settings.protocol.retry_ns)
        self.timers = Timers()
        self._seed = settings.seed
        self._task_heartbeat_ns = settings.protocol.task_heartbeat_ns
        self._at_once = settings.protocol.has_immediate_updates
        self._at_a_task = 1 if settings.protocol.speculation is None else 2
        self._mechanisms = settings.scheduler.mechanism.among

    def of(self, attempt: TaskAttempt) -> Task:
        """The task of an attempt."""
        return self.groups.tasks[attempt.task.group][attempt.task.number]

    @property
    def live_reduces(self) -> list[TaskAttempt]:
        """Attempts that walk keys and have a container."""
        return [attempt for attempt in self.live.values() if attempt.keys_total]

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
        assert self.releaser.open_contracts >= 0
        if self.gang is not None and not (self.failure or self.groups.done):
            self._validate_gang(self.gang)

    def _validate_gang(self, gang: Gang) -> None:
        assert gang.disbands or not gang.has_lost or not gang.is_in(self.live), f"{self.job}: half a gang stays"
        assert not (gang.disbands and gang.being_launched(self.live)), f"{self.job}: a task starts in a gang that ends"

"""Tasks and the attempts at them: natjam's Fig. 2, with failure states.

Theory of operation
-------------------
An attempt asks for a container (``UNASSIGNED``), gets one (``ASSIGNED``), is launched (``RUNNING``), walks its keys,
commits and succeeds.  Natjam adds ``SUSPEND_PENDING`` (the task was asked to suspend, S1) and ``SUSPENDED`` (its
checkpoint is saved, S2).  Before that, a victim is ``CHOSEN`` until its own heartbeat comes, or until its end if it is
killed.  One that is still being restored may be chosen too: its restore is broken off, but it may be launched first.

Under *checkpoint*, SUSPENDED is terminal and a new attempt resumes from NEW.  R1: every heartbeat asks for a container
and names the old node.  R2: the checkpoint is sent with the launch.  C1 joins the partial outputs at commit.  Under
*suspend*, the attempt, its container and its partial file stay.  The arc SUSPENDED -> RESUMING -> RUNNING exists only
there, and on that node only.  A program may end as it is resumed (``sleep``, whose time is over): then its node reports
that it was not resumed, and its end, so SUSPENDED has an arc to SUCCEEDED.

A task is the sequence of attempts at it, one after the other (natjam, section 3.2).  Its state machine is YARN's, with
a small change by Natjam: when an attempt was suspended, the task makes a new attempt to resume it, which is scheduled
by that attempt's own transitions.  After a crash it also makes a new attempt, from the last accepted checkpoint, until
``attempts_max`` have failed; kills and lost nodes do not count.  A map that has succeeded runs again if its node is
lost while reduces still need its output.

Under speculative execution a task that walks keys may have two attempts at a time.  The first to succeed wins.  Another
attempt follows only when both have ended or given way; it starts from the checkpoint that is further ahead.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from emulator.core.job import JobSpec
from emulator.core.machine import Arc, Stateful, Symbol
from emulator.core.messages import AllocatedContainer, ResumeContainer, StartContainer, SuspendContainer
from emulator.vocabulary import MAP, REDUCE, Frozen, Mechanism, Saved, TaskGroup, TaskId, Work


class AttemptState(Symbol):
    """States of Fig. 2, and the ways in which an attempt may end."""

    NEW = "New"
    UNASSIGNED = "Unassigned"
    ASSIGNED = "Assigned"
    RUNNING = "Running"
    CHOSEN = "Chosen"
    SUSPEND_PENDING = "Suspend-Pending"
    SUSPENDED = "Suspended"
    RESUMING = "Resuming"
    COMMIT_PENDING = "Commit-Pending"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    KILLED = "Killed"


class AttemptEvent(Symbol):
    """Arcs of Fig. 2: S1, S2, R1, R2 and C1 are Natjam's."""

    REQUEST = "container requested (R1)"
    ASSIGN = "container assigned (R2)"
    LAUNCH = "launched"
    CHOOSE = "chosen as a victim"
    SUSPEND = "asked to suspend (S1)"
    SAVED = "checkpoint saved (S2)"
    REFUSED = "suspend refused"
    RESUME = "resumed on its node"
    RESUME_FAILED = "not resumed"
    COMMIT = "keys done"
    SUCCEED = "committed (C1)"
    FAIL = "failed"
    KILL = "killed"


ENDED = frozenset({AttemptState.SUCCEEDED, AttemptState.FAILED, AttemptState.KILLED})
AT_WORK = frozenset({AttemptState.RUNNING, AttemptState.CHOSEN, AttemptState.SUSPEND_PENDING})
"""It is walking its keys."""
VICTIM = frozenset({AttemptState.CHOSEN, AttemptState.SUSPEND_PENDING})
"""It must give its container back, and has not done so yet."""


TIME_CONSTANT_NS = 60_000_000_000
_SCALE = 10**18  # rates are in keys per 10^18 ns: keys of one second have a rate of 10^9
_SHORT = {MAP: "m", REDUCE: "r"}


def attempt_name(job: str, group: str, task: int, number: int) -> str:
    """Name of an attempt in journals and tables: ``research-XL/r003.1``, or ``train/workers-003.1``."""
    return f"{task_name(job, group, task)}.{number}"


def task_name(job: str, group: str, task: int) -> str:
    """Name of a task: ``research-XL/r003``, or ``train/workers-003``."""
    return f"{job}/{_SHORT.get(group, f'{group}-')}{task:03d}"


def task_named(name: str) -> tuple[str, TaskId]:
    """The job and the task of a name such as ``research-XL/r003`` (or ``/r3``, ``/reduce-3``), or ``train/workers-3``.
    Raises ValueError."""
    job, _, task = name.rpartition("/")
    short = {"m": MAP, "r": REDUCE}.get(task[:1])
    group, _, number = (short, "", task[1:]) if short and task[1:].isdecimal() else task.rpartition("-")
    if not job or len(group) < 2 or not number.isdecimal() or not number.isascii() or len(number) > 6:
        raise ValueError(
            f"'{name}' is no task; write JOB/m0 for the first map of a job, JOB/r0 for its first reduce,"
            " JOB/GROUP-0 for the first task of another group"
        )
    return job, TaskId(group, int(number))


class RateEstimate(Frozen):
    """The smoothed rate of progress of one attempt, and its last reading (natjam, section 3.2, Releaser).

    Hadoop's default estimator smooths the rate of progress between task heartbeats with a time constant of 60 s and
    extrapolates.  This does the same in whole numbers, because no float may decide an order.  The weight of a new
    reading over ``dt`` is ``dt / (dt + time constant)``, the implicit form of ``1 - exp(-dt / time constant)``; at one
    reading a second they differ by less than 1%.  The first reading counts in full.
    """

    at_ns: int | None = None
    """Time of the reading (when its last key ended); None before the first one since launch or resume."""
    keys_done: int = 0
    rate: int | None = None
    """Keys per 10^18 emulated nanoseconds; None before two readings."""

    def unanchored(self) -> RateEstimate:
        """The same rate without the reading: time spent suspended must not count as slow progress."""
        return RateEstimate(None, self.keys_done, self.rate)

    def with_reading(self, at_ns: int, keys_done: int) -> RateEstimate:
        """The estimate after one more reading; an older reading, or one with fewer keys, changes nothing."""
        if self.at_ns is None:
            return RateEstimate(at_ns, keys_done, self.rate)
        elapsed_ns = at_ns - self.at_ns
        if elapsed_ns <= 0 or keys_done < self.keys_done:
            return self
        seen = (keys_done - self.keys_done) * _SCALE // elapsed_ns
        if self.rate is None:
            if seen == 0:
                return self  # no key yet: count from the start
            return RateEstimate(at_ns, keys_done, seen)
        rate = self.rate + (seen - self.rate) * elapsed_ns // (elapsed_ns + TIME_CONSTANT_NS)
        return RateEstimate(at_ns, keys_done, rate)

    def remaining_ns(self, keys_total: int, now_ns: int) -> int | None:
        """Time left at ``now_ns`` to the end of ``keys_total`` keys; None if no rate is known."""
        if not self.rate:
            return None
        left_ns = (keys_total - self.keys_done) * _SCALE // self.rate
        return left_ns if self.at_ns is None else max(0, left_ns - (now_ns - self.at_ns))


@dataclass(slots=True)
class TaskAttempt(Stateful):
    """One attempt at a task."""

    name: str
    task: TaskId
    keys_total: int = 0
    """0: it walks no keys."""
    memory_bytes: int | None = None
    """Memory that it uses; None: unknown."""
    saved: Saved | None = None
    """The saved state it resumes from; None: it starts from nothing."""
    suspended_ns: int | None = None
    """When its task (under *suspend*, the attempt itself) was suspended; decides the order of resuming."""
    state: AttemptState = AttemptState.NEW
    container: str | None = None
    node: str | None = None
    was_launched: bool = False
    running_since_ns: int = 0
    mechanism: Mechanism = Mechanism.WAIT
    """The mechanism chosen when it last became a victim."""
    fulfils_contract: bool = False
    """Whether its job chose it, to give a number of containers; not if it was named, or ordered to stop."""
    asked_ns: int = -1
    """When it was last asked to suspend; higher each time, because its node tells one from an earlier one by it."""
    spared_until_ns: int = 0
    """It must not be chosen before this time, because its node has just refused."""
    revision: int = 0
    refusals: int = 0
    estimate: RateEstimate = field(default_factory=RateEstimate)
    saved_by_itself_ns: int | None = None
    """When it was heard to have last saved by itself; None: it has not."""

    def __str__(self) -> str:
        return self.name

    @property
    def group(self) -> str:
        """Name of its task's group."""
        return self.task.group

    @property
    def work(self) -> Work:
        """What its process does."""
        return Work.KEYS if self.keys_total else Work.SHUFFLE

    @property
    def is_being_restored(self) -> bool:
        """Whether it has a container, and its process is still being made from what was saved."""
        return self.state is AttemptState.ASSIGNED and self.saved is not None

    @property
    def place(self) -> tuple[str, str]:
        """Its container and node; raises ValueError if it has none."""
        if self.container is None or self.node is None:
            raise ValueError(f"{self.name} has no container in {self.state.value}")
        return self.container, self.node

    def _start(self, allocation: AllocatedContainer, job: JobSpec) -> StartContainer:
        self.container, self.node = allocation.container, allocation.node
        return StartContainer(
            container=allocation.container,
            job=job.name,
            group=self.group,
            task=self.task.number,
            attempt=self.name,
            ready_ns=allocation.ready_ns,
            saved=self.saved,
            start_measured=job.starts_measured,
            memory_bytes=self.memory_bytes,
            registration=allocation.registration,
            work=self.work,
            request=job.facts.group(self.group).request,
            beside=allocation.beside,
        )

    def _launched(self, now_ns: int) -> None:
        self.was_launched, self.running_since_ns = True, now_ns

    def _chosen(self, mechanism: Mechanism, fulfils_contract: bool = False) -> None:
        self.mechanism, self.fulfils_contract = mechanism, fulfils_contract

    def _asked(self, now_ns: int) -> SuspendContainer:
        container, _ = self.place
        self.asked_ns = max(now_ns, self.asked_ns + 1)
        return SuspendContainer(container, self.mechanism, self.asked_ns)

    def _refused(self, spared_until_ns: int) -> None:
        self.spared_until_ns = spared_until_ns

    def _suspended(self, now_ns: int) -> None:
        self.suspended_ns = now_ns

    def _resume(self, allocation: AllocatedContainer, job: JobSpec) -> ResumeContainer:
        return ResumeContainer(allocation.container, allocation.ready_ns)

    def _resumed(self, now_ns: int) -> None:
        self.running_since_ns = now_ns
        self.estimate = self.estimate.unanchored()

    arcs: ClassVar = {
        (AttemptState.NEW, AttemptEvent.REQUEST): Arc(AttemptState.UNASSIGNED),
        (AttemptState.UNASSIGNED, AttemptEvent.ASSIGN): Arc(AttemptState.ASSIGNED, _start),
        (AttemptState.UNASSIGNED, AttemptEvent.KILL): Arc(AttemptState.KILLED),
        (AttemptState.ASSIGNED, AttemptEvent.LAUNCH): Arc(AttemptState.RUNNING, _launched),
        (AttemptState.ASSIGNED, AttemptEvent.CHOOSE): Arc(AttemptState.CHOSEN, _chosen),
        (AttemptState.ASSIGNED, AttemptEvent.FAIL): Arc(AttemptState.FAILED),
        (AttemptState.ASSIGNED, AttemptEvent.KILL): Arc(AttemptState.KILLED),
        (AttemptState.RUNNING, AttemptEvent.CHOOSE): Arc(AttemptState.CHOSEN, _chosen),
        (AttemptState.RUNNING, AttemptEvent.COMMIT): Arc(AttemptState.COMMIT_PENDING),
        (AttemptState.RUNNING, AttemptEvent.SUCCEED): Arc(AttemptState.SUCCEEDED),
        (AttemptState.RUNNING, AttemptEvent.FAIL): Arc(AttemptState.FAILED),
        (AttemptState.RUNNING, AttemptEvent.KILL): Arc(AttemptState.KILLED),
        (AttemptState.CHOSEN, AttemptEvent.LAUNCH): Arc(AttemptState.CHOSEN, _launched),
        (AttemptState.CHOSEN, AttemptEvent.SUSPEND): Arc(AttemptState.SUSPEND_PENDING, _asked),
        (AttemptState.CHOSEN, AttemptEvent.COMMIT): Arc(AttemptState.COMMIT_PENDING),
        (AttemptState.CHOSEN, AttemptEvent.SUCCEED): Arc(AttemptState.SUCCEEDED),
        (AttemptState.CHOSEN, AttemptEvent.FAIL): Arc(AttemptState.FAILED),
        (AttemptState.CHOSEN, AttemptEvent.KILL): Arc(AttemptState.KILLED),
        (AttemptState.SUSPEND_PENDING, AttemptEvent.LAUNCH): Arc(AttemptState.SUSPEND_PENDING, _launched),
        (AttemptState.SUSPEND_PENDING, AttemptEvent.SAVED): Arc(AttemptState.SUSPENDED, _suspended),
        (AttemptState.SUSPEND_PENDING, AttemptEvent.REFUSED): Arc(AttemptState.RUNNING, _refused),
        (AttemptState.SUSPEND_PENDING, AttemptEvent.COMMIT): Arc(AttemptState.COMMIT_PENDING),
        (AttemptState.SUSPEND_PENDING, AttemptEvent.SUCCEED): Arc(AttemptState.SUCCEEDED),
        (AttemptState.SUSPEND_PENDING, AttemptEvent.FAIL): Arc(AttemptState.FAILED),
        (AttemptState.SUSPEND_PENDING, AttemptEvent.KILL): Arc(AttemptState.KILLED),
        (AttemptState.SUSPENDED, AttemptEvent.ASSIGN): Arc(AttemptState.RESUMING, _resume),
        (AttemptState.SUSPENDED, AttemptEvent.SUCCEED): Arc(AttemptState.SUCCEEDED),
        (AttemptState.SUSPENDED, AttemptEvent.FAIL): Arc(AttemptState.FAILED),
        (AttemptState.SUSPENDED, AttemptEvent.KILL): Arc(AttemptState.KILLED),
        (AttemptState.RESUMING, AttemptEvent.RESUME): Arc(AttemptState.RUNNING, _resumed),
        (AttemptState.RESUMING, AttemptEvent.RESUME_FAILED): Arc(AttemptState.SUSPENDED),
        (AttemptState.RESUMING, AttemptEvent.FAIL): Arc(AttemptState.FAILED),
        (AttemptState.RESUMING, AttemptEvent.KILL): Arc(AttemptState.KILLED),
        (AttemptState.COMMIT_PENDING, AttemptEvent.SUCCEED): Arc(AttemptState.SUCCEEDED),
        (AttemptState.COMMIT_PENDING, AttemptEvent.FAIL): Arc(AttemptState.FAILED),
        (AttemptState.COMMIT_PENDING, AttemptEvent.KILL): Arc(AttemptState.KILLED),
    }


class TaskState(Symbol):
    """YARN's task states."""

    NEW = "New"
    SCHEDULED = "Scheduled"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class TaskEvent(Symbol):
    """Events that change a task's state."""

    SCHEDULE = "schedule"
    LAUNCHED = "attempt launched"
    RETRY = "attempt ended, another follows"
    SUCCEED = "attempt succeeded"
    FAIL = "too many attempts failed"
    OUTPUT_LOST = "output lost"
    SPECULATE = "second attempt beside a slow one"


@dataclass(slots=True)
class Task(Stateful):
    """One task of a job."""

    job: str
    group: TaskGroup
    number: int
    """Among the tasks of its group, from 0."""
    index: int
    """Among all tasks of the job that do the same work (``JobFacts.index_of``)."""
    keys_total: int = 0
    """0: it walks no keys."""
    memory_bytes: int | None = None
    """Emulated memory that each attempt uses from start to end; None: unknown.  Its container's memory
    (``JobFacts.memory_bytes``) is the upper bound."""
    state: TaskState = TaskState.NEW
    attempts: list[TaskAttempt] = field(default_factory=list)
    failures: int = 0
    saved: Saved | None = None
    """The last accepted saved state; it is authoritative and has nothing of a crashed attempt's partial output."""
    suspended_ns: list[int] = field(default_factory=list)
    """When attempts at it were suspended, the latest last."""
    output_node: str | None = None
    speculative: bool = False
    """Whether it has two attempts at a time."""

    def __str__(self) -> str:
        return f"{self.job}/{self.group.name}{self.number}"

    @property
    def attempt(self) -> TaskAttempt:
        """The newest attempt."""
        return self.attempts[-1]

    @property
    def open_attempts(self) -> list[TaskAttempt]:
        """Attempts that have not ended, suspended ones included; if all have ended, the newest."""
        if len(self.attempts) > 1:
            return [attempt for attempt in self.attempts if attempt.state not in ENDED] or self.attempts[-1:]
        return self.attempts[:]

    def suspended(self, now_ns: int) -> None:
        """An attempt at it was suspended."""
        self.suspended_ns.append(now_ns)

    def accept(self, saved: Saved, resumed_from: Saved | None) -> None:
        """Keep the state that an attempt has saved, unless the state kept came from a rival further ahead.

        The state of an attempt that resumed from the kept state is taken even if it has fewer keys: then part of the
        kept state was lost.
        """
        if self.saved is None or saved.keys_done >= self.saved.keys_done or resumed_from == self.saved:
            self.saved = saved

    def new_attempt(self, suspended_ns: int | None = None) -> TaskAttempt:
        """Make the next attempt; it resumes from the last accepted state, if there is one."""
        attempt = self._another(self.saved, suspended_ns)
        if self.saved is not None:
            # The rate belongs to the task: an attempt that resumes starts with the rate measured before.
            attempt.estimate = self._suspended_attempt(self.saved).estimate.unanchored()
        return attempt

    def _retry(self, now_ns: int, has_rival: bool, failed: bool) -> TaskAttempt | None:
        self.failures += failed
        self.speculative = False
        return None if has_rival else self.new_attempt(now_ns if self.saved else None)

    def _fail(self) -> None:
        self.failures += 1

    def _speculate(self) -> TaskAttempt:
        self.speculative = True
        return self._another(None, None)

    def _succeeded(self, node: str) -> None:
        self.output_node = node

    def _run_again(self) -> TaskAttempt:
        self.output_node = None
        return self.new_attempt()

    arcs: ClassVar = {
        (TaskState.NEW, TaskEvent.SCHEDULE): Arc(TaskState.SCHEDULED, new_attempt),
        (TaskState.SCHEDULED, TaskEvent.LAUNCHED): Arc(TaskState.RUNNING),
        (TaskState.SCHEDULED, TaskEvent.RETRY): Arc(TaskState.SCHEDULED, _retry),
        (TaskState.SCHEDULED, TaskEvent.FAIL): Arc(TaskState.FAILED, _fail),
        (TaskState.RUNNING, TaskEvent.LAUNCHED): Arc(TaskState.RUNNING),
        (TaskState.RUNNING, TaskEvent.RETRY): Arc(TaskState.RUNNING, _retry),
        (TaskState.RUNNING, TaskEvent.SPECULATE): Arc(TaskState.RUNNING, _speculate),
        (TaskState.RUNNING, TaskEvent.SUCCEED): Arc(TaskState.SUCCEEDED, _succeeded),
        (TaskState.RUNNING, TaskEvent.FAIL): Arc(TaskState.FAILED, _fail),
        (TaskState.SUCCEEDED, TaskEvent.OUTPUT_LOST): Arc(TaskState.SCHEDULED, _run_again),
        (TaskState.SUCCEEDED, TaskEvent.LAUNCHED): Arc(TaskState.SUCCEEDED),
    }

    def _another(self, saved: Saved | None, suspended_ns: int | None) -> TaskAttempt:
        name = attempt_name(self.job, self.group.name, self.number, len(self.attempts))
        attempt = TaskAttempt(
            name, TaskId(self.group.name, self.number), self.keys_total, self.memory_bytes, saved, suspended_ns
        )
        self.attempts.append(attempt)
        return attempt

    def _suspended_attempt(self, saved: Saved) -> TaskAttempt:
        """The newest attempt that reached the saved state: the one that saved it, or one that resumed from it."""
        saved_in = saved.past_containers[-1]
        before = reversed(self.attempts[:-1])
        return next(a for a in before if a.container == saved_in or a.saved == saved)

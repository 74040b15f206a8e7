"""A task: the sequence of attempts at it, one after the other (natjam, section 3.2).

Theory of operation
-------------------
The task state machine is YARN's, with a small change by Natjam: when an attempt was suspended, the task makes a new
attempt to resume it, which is scheduled by that attempt's own transitions.  After a crash it also makes a new attempt,
from the last accepted checkpoint, until ``attempts_max`` have failed; kills and lost nodes do not count.  A map that
has succeeded runs again if its node is lost while reduces still need its output.

Under speculative execution a task that walks keys may have two attempts at a time.  The first to succeed wins.  Another
attempt follows only when both have ended or given way; it starts from the checkpoint that is further ahead.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from emulator.core.application_master.task_attempt import ENDED, TaskAttempt, attempt_name
from emulator.core.machine import Symbol, TransitionTable
from emulator.core.saved import Saved
from emulator.vocabulary import TaskGroup, TaskId


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


_S, _E = TaskState, TaskEvent
TASK_TABLE: TransitionTable[TaskState, TaskEvent] = TransitionTable(
    "task",
    {
        (_S.NEW, _E.SCHEDULE): _S.SCHEDULED,
        (_S.SCHEDULED, _E.LAUNCHED): _S.RUNNING,
        (_S.SCHEDULED, _E.RETRY): _S.SCHEDULED,
        (_S.SCHEDULED, _E.FAIL): _S.FAILED,
        (_S.RUNNING, _E.LAUNCHED): _S.RUNNING,
        (_S.RUNNING, _E.RETRY): _S.RUNNING,
        (_S.RUNNING, _E.SPECULATE): _S.RUNNING,
        (_S.RUNNING, _E.SUCCEED): _S.SUCCEEDED,
        (_S.RUNNING, _E.FAIL): _S.FAILED,
        (_S.SUCCEEDED, _E.OUTPUT_LOST): _S.SCHEDULED,
        (_S.SUCCEEDED, _E.LAUNCHED): _S.SUCCEEDED,
    },
)


@dataclass(slots=True)
class Task:
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

    def move(self, event: TaskEvent) -> None:
        """Take an arc of the table; raises IllegalTransition, without changing anything, if there is no such arc."""
        self.state = TASK_TABLE.next(self.state, event, self)

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

    def rival_attempt(self) -> TaskAttempt:
        """Make a second attempt, which starts from nothing."""
        self.move(TaskEvent.SPECULATE)
        self.speculative = True
        return self._another(None, None)

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

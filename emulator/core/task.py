"""A task: the sequence of attempts at one map or reduce (natjam, section 3.2).

Theory of operation
-------------------
The task state machine is YARN's.  Natjam changes it minorly: when an attempt has been suspended the task makes a new
attempt to resume it, which is scheduled when that attempt's own transitions say so.  A crash makes a new attempt too,
from the last accepted checkpoint, until ``attempts_max`` have failed; kills and lost nodes do not count.  A map that
has succeeded is run again when its node is lost while reduces still need its output.

Under speculative execution a reduce may have two attempts at a time: another follows only when both have ended or given
way, from the checkpoint that has come further, and the one that succeeds first wins.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from emulator.core.machine import TransitionTable
from emulator.core.messages import TaskId
from emulator.core.saved import Saved
from emulator.core.task_attempt import ENDED, TaskAttempt, attempt_name
from emulator.vocabulary import Kind


class TaskState(Enum):
    """YARN's task states."""

    NEW = "New"
    SCHEDULED = "Scheduled"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class TaskEvent(Enum):
    """What happens to a task."""

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
    """One map or reduce of a job."""

    job: str
    kind: Kind
    index: int
    keys_total: int = 0
    memory_bytes: int | None = None
    """What each attempt at it holds from its start to its end, emulated; None: nothing is known of that.  It is part of
    its container's memory (``JobFacts.memory_bytes``), which bounds it."""
    state: TaskState = TaskState.NEW
    attempts: list[TaskAttempt] = field(default_factory=list)
    failures: int = 0
    saved: Saved | None = None
    """What was last accepted: authoritative; a crashed attempt's partial output is not in it."""
    suspended_ns: list[int] = field(default_factory=list)
    """When attempts at it were suspended, the last one last."""
    output_node: str | None = None
    speculative: bool = False
    """Whether two attempts are at it."""

    def move(self, event: TaskEvent) -> None:
        """Take an arc of the table; raise IllegalTransition, with nothing changed, when there is none."""
        self.state = TASK_TABLE.next(self.state, event, f"{self.job}/{self.kind.value}{self.index}")

    @property
    def attempt(self) -> TaskAttempt:
        """The newest attempt."""
        return self.attempts[-1]

    @property
    def open_attempts(self) -> list[TaskAttempt]:
        """Those that have not ended, or the newest where all have; suspended ones are among them."""
        return [attempt for attempt in self.attempts if attempt.state not in ENDED] or self.attempts[-1:]

    def accept(self, saved: Saved, resumed_from: Saved | None) -> None:
        """Keep what an attempt has saved; that of a rival which has come further stays.

        An attempt that has resumed from what was last accepted knows better, also where it has come less far: part of
        that was lost.
        """
        if self.saved is None or saved.keys_done >= self.saved.keys_done or resumed_from == self.saved:
            self.saved = saved

    def new_attempt(self, suspended_ns: int | None = None) -> TaskAttempt:
        """Make the next attempt; it resumes from what was last accepted, if anything was."""
        attempt = self._another(self.saved, suspended_ns)
        if self.saved is not None:
            # The rate of a task is its own, whichever attempt showed it: a resumed one is not unknown.
            attempt.estimate = self._suspended_attempt(self.saved).estimate.unanchored()
        return attempt

    def rival_attempt(self) -> TaskAttempt:
        """Make a second attempt, which starts afresh."""
        self.move(TaskEvent.SPECULATE)
        self.speculative = True
        return self._another(None, None)

    def _another(self, saved: Saved | None, suspended_ns: int | None) -> TaskAttempt:
        name = attempt_name(self.job, self.kind, self.index, len(self.attempts))
        attempt = TaskAttempt(
            name, TaskId(self.kind, self.index), self.keys_total, self.memory_bytes, saved, suspended_ns
        )
        self.attempts.append(attempt)
        return attempt

    def _suspended_attempt(self, saved: Saved) -> TaskAttempt:
        """The newest attempt that came as far as what was saved: who saved it, or one that resumed from it."""
        saved_in = saved.past_containers[-1]
        before = reversed(self.attempts[:-1])
        return next(a for a in before if a.container == saved_in or a.saved == saved)

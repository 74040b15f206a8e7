"""A task: the sequence of attempts at one map or reduce (natjam, section 3.2).

Theory of operation
-------------------
The task state machine is YARN's.  Natjam changes it minorly: when an attempt has been suspended the task makes a new
attempt to resume it, which is scheduled when that attempt's own transitions say so.  A crash makes a new attempt too,
from the last accepted checkpoint, until ``attempts_max`` have failed; kills and lost nodes do not count.  A map that
has succeeded is run again when its node is lost while reduces still need its output.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from emulator.core.machine import TransitionTable
from emulator.core.messages import Kind, TaskCheckpoint
from emulator.core.task_attempt import TaskAttempt, attempt_name


class TaskState(Enum):
    """YARN's task states."""

    NEW = "New"
    SCHEDULED = "Scheduled"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    KILLED = "Killed"


class TaskEvent(Enum):
    """What happens to a task."""

    SCHEDULE = "schedule"
    LAUNCHED = "attempt launched"
    RETRY = "attempt ended, another follows"
    SUCCEED = "attempt succeeded"
    FAIL = "too many attempts failed"
    KILL = "kill"
    OUTPUT_LOST = "output lost"


_S, _E = TaskState, TaskEvent
TASK_TABLE: TransitionTable[TaskState, TaskEvent] = TransitionTable(
    "task",
    {
        (_S.NEW, _E.SCHEDULE): _S.SCHEDULED,
        (_S.NEW, _E.KILL): _S.KILLED,
        (_S.SCHEDULED, _E.LAUNCHED): _S.RUNNING,
        (_S.SCHEDULED, _E.RETRY): _S.SCHEDULED,
        (_S.SCHEDULED, _E.FAIL): _S.FAILED,
        (_S.SCHEDULED, _E.KILL): _S.KILLED,
        (_S.RUNNING, _E.LAUNCHED): _S.RUNNING,
        (_S.RUNNING, _E.RETRY): _S.RUNNING,
        (_S.RUNNING, _E.SUCCEED): _S.SUCCEEDED,
        (_S.RUNNING, _E.FAIL): _S.FAILED,
        (_S.RUNNING, _E.KILL): _S.KILLED,
        (_S.SUCCEEDED, _E.OUTPUT_LOST): _S.SCHEDULED,
    },
)


@dataclass(slots=True)
class Task:
    """One map or reduce of a job."""

    job: str
    kind: Kind
    index: int
    keys_total: int = 0
    state: TaskState = TaskState.NEW
    attempts: list[TaskAttempt] = field(default_factory=list)
    failures: int = 0
    checkpoint: TaskCheckpoint | None = None
    """The last accepted one: authoritative; a crashed attempt's partial output is not in it."""
    output_node: str | None = None

    def move(self, event: TaskEvent) -> None:
        """Take an arc of the table; raise IllegalTransition, with nothing changed, when there is none."""
        self.state = TASK_TABLE.next(self.state, event, f"{self.job}/{self.kind.value}{self.index}")

    @property
    def attempt(self) -> TaskAttempt:
        """The newest attempt."""
        return self.attempts[-1]

    def new_attempt(self, suspended_ns: int | None = None) -> TaskAttempt:
        """Make the next attempt; it resumes from the last accepted checkpoint, if there is one."""
        name = attempt_name(self.job, self.kind, self.index, len(self.attempts))
        before = self.attempts[-1] if self.attempts else None
        attempt = TaskAttempt(name, self.kind, self.index, checkpoint=self.checkpoint, suspended_ns=suspended_ns)
        if before is not None and self.checkpoint is not None:
            # The rate of a task is its own, whichever attempt showed it: a resumed one is not unknown.
            attempt.estimate = before.estimate.unanchored()
        self.attempts.append(attempt)
        return attempt

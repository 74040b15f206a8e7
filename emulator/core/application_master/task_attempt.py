"""The task attempt: natjam's Fig. 2, with failure states.

Theory of operation
-------------------
An attempt asks for a container (``UNASSIGNED``), gets one (``ASSIGNED``), is launched (``RUNNING``), walks its keys,
commits and succeeds.  Natjam adds ``SUSPEND_PENDING`` (the task was asked to suspend, S1) and ``SUSPENDED`` (its
checkpoint is saved, S2).  Before that, a victim is ``CHOSEN`` until its own heartbeat comes, or until its end if it is
killed.  One that is still being restored may be chosen too: its restore is broken off.

Under *checkpoint*, SUSPENDED is terminal and a new attempt resumes from NEW.  R1: every heartbeat asks for a container
and names the old node.  R2: the checkpoint is sent with the launch.  C1 joins the partial outputs at commit.  Under
*suspend*, the attempt, its container and its partial file stay.  The arc SUSPENDED -> RESUMING -> RUNNING exists only
there, and on that node only.  A program may end as it is resumed (``sleep``, whose time is over): then its node reports
that it was not resumed, and its end, so SUSPENDED has an arc to SUCCEEDED.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from emulator.core.application_master.estimator import RateEstimate
from emulator.core.machine import Symbol, TransitionTable
from emulator.core.saved import Saved
from emulator.vocabulary import MAP, REDUCE, Mechanism, TaskId, Work


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


_S, _E = AttemptState, AttemptEvent
ATTEMPT_TABLE: TransitionTable[AttemptState, AttemptEvent] = TransitionTable(
    "attempt",
    {
        (_S.NEW, _E.REQUEST): _S.UNASSIGNED,
        (_S.UNASSIGNED, _E.ASSIGN): _S.ASSIGNED,
        (_S.UNASSIGNED, _E.KILL): _S.KILLED,
        (_S.ASSIGNED, _E.LAUNCH): _S.RUNNING,
        (_S.ASSIGNED, _E.CHOOSE): _S.CHOSEN,
        (_S.ASSIGNED, _E.FAIL): _S.FAILED,
        (_S.ASSIGNED, _E.KILL): _S.KILLED,
        (_S.RUNNING, _E.CHOOSE): _S.CHOSEN,
        (_S.RUNNING, _E.COMMIT): _S.COMMIT_PENDING,
        (_S.RUNNING, _E.SUCCEED): _S.SUCCEEDED,
        (_S.RUNNING, _E.FAIL): _S.FAILED,
        (_S.RUNNING, _E.KILL): _S.KILLED,
        (_S.CHOSEN, _E.SUSPEND): _S.SUSPEND_PENDING,
        (_S.CHOSEN, _E.COMMIT): _S.COMMIT_PENDING,
        (_S.CHOSEN, _E.SUCCEED): _S.SUCCEEDED,
        (_S.CHOSEN, _E.FAIL): _S.FAILED,
        (_S.CHOSEN, _E.KILL): _S.KILLED,
        (_S.SUSPEND_PENDING, _E.SAVED): _S.SUSPENDED,
        (_S.SUSPEND_PENDING, _E.REFUSED): _S.RUNNING,
        (_S.SUSPEND_PENDING, _E.COMMIT): _S.COMMIT_PENDING,
        (_S.SUSPEND_PENDING, _E.SUCCEED): _S.SUCCEEDED,
        (_S.SUSPEND_PENDING, _E.FAIL): _S.FAILED,
        (_S.SUSPEND_PENDING, _E.KILL): _S.KILLED,
        (_S.SUSPENDED, _E.ASSIGN): _S.RESUMING,
        (_S.SUSPENDED, _E.SUCCEED): _S.SUCCEEDED,
        (_S.SUSPENDED, _E.FAIL): _S.FAILED,
        (_S.SUSPENDED, _E.KILL): _S.KILLED,
        (_S.RESUMING, _E.RESUME): _S.RUNNING,
        (_S.RESUMING, _E.RESUME_FAILED): _S.SUSPENDED,
        (_S.RESUMING, _E.FAIL): _S.FAILED,
        (_S.RESUMING, _E.KILL): _S.KILLED,
        (_S.COMMIT_PENDING, _E.SUCCEED): _S.SUCCEEDED,
        (_S.COMMIT_PENDING, _E.FAIL): _S.FAILED,
        (_S.COMMIT_PENDING, _E.KILL): _S.KILLED,
    },
)

ENDED = frozenset({AttemptState.SUCCEEDED, AttemptState.FAILED, AttemptState.KILLED})
AT_WORK = frozenset({AttemptState.RUNNING, AttemptState.CHOSEN, AttemptState.SUSPEND_PENDING})
"""It is walking its keys."""
VICTIM = frozenset({AttemptState.CHOSEN, AttemptState.SUSPEND_PENDING})
"""It must give its container back, and has not done so yet."""


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


@dataclass(slots=True)
class TaskAttempt:
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
    pays_debt: bool = False
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

    def move(self, event: AttemptEvent) -> None:
        """Take an arc of Fig. 2; raises IllegalTransition, without changing anything, if there is no such arc."""
        self.state = ATTEMPT_TABLE.next(self.state, event, self.name)

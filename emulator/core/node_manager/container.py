"""A container at its NodeManager: its states, and what is reported about it.

Theory of operation
-------------------
A container is launched, runs, and is DONE when its process has ended.  In between are the states of the mechanisms, and
COMMITTING, in which its process refuses to stop.  Messages of the process and of the kernel may cross.  In KILLING or
COMMITTING, an answer to an earlier request changes nothing (the arcs to the same state).

A kill with a grace sends SIGTERM first.  Until the grace is over, the container is KILLING and its process may go on:
if it ends well meanwhile, its task has succeeded.  Only a process that runs has a grace: one that is being launched, or
is stopped, is killed at once.  So is one in its grace, by a kill without any.
"""

from __future__ import annotations

from dataclasses import dataclass

from emulator.core.completions import Exited
from emulator.core.machine import Symbol, TransitionTable
from emulator.core.messages import ContainerReport, ContainerState, Outcome, StartContainer
from emulator.core.saved import Saved
from emulator.core.settings import OverheadSettings
from emulator.vocabulary import Work


class ContainerEvent(Symbol):
    """What can happen to a container."""

    LAUNCHED = "launched"
    LAUNCH_FAILED = "launch failed"
    SUSPEND = "suspend"
    SUSPENDED = "suspended"
    SUSPEND_FAILED = "suspend failed"
    RESUME = "resume"
    RESUMED = "resumed"
    RESUME_FAILED = "resume failed"
    CHECKPOINT = "checkpoint"
    CHECKPOINTED = "checkpointed"
    CHECKPOINT_FAILED = "checkpoint failed"
    COMMIT = "committing"
    KILL = "kill"
    EXITED = "exited"


_S, _E = ContainerState, ContainerEvent
CONTAINER_TABLE: TransitionTable[ContainerState, ContainerEvent] = TransitionTable(
    "container",
    {
        (_S.LAUNCHING, _E.LAUNCHED): _S.RUNNING,
        (_S.LAUNCHING, _E.LAUNCH_FAILED): _S.DONE,
        (_S.LAUNCHING, _E.KILL): _S.KILLING,
        (_S.LAUNCHING, _E.EXITED): _S.DONE,
        (_S.RUNNING, _E.SUSPEND): _S.SUSPENDING,
        (_S.RUNNING, _E.CHECKPOINT): _S.CHECKPOINTING,
        (_S.RUNNING, _E.COMMIT): _S.COMMITTING,
        (_S.RUNNING, _E.KILL): _S.KILLING,
        (_S.RUNNING, _E.EXITED): _S.DONE,
        (_S.SUSPENDING, _E.SUSPENDED): _S.SUSPENDED,
        (_S.SUSPENDING, _E.SUSPEND_FAILED): _S.RUNNING,
        (_S.SUSPENDING, _E.COMMIT): _S.COMMITTING,
        (_S.SUSPENDING, _E.KILL): _S.KILLING,
        (_S.SUSPENDING, _E.EXITED): _S.DONE,
        (_S.SUSPENDED, _E.RESUME): _S.RESUMING,
        (_S.SUSPENDED, _E.KILL): _S.KILLING,
        (_S.SUSPENDED, _E.EXITED): _S.DONE,
        (_S.RESUMING, _E.RESUMED): _S.RUNNING,
        (_S.RESUMING, _E.RESUME_FAILED): _S.SUSPENDED,
        (_S.RESUMING, _E.KILL): _S.KILLING,
        (_S.RESUMING, _E.EXITED): _S.DONE,
        (_S.CHECKPOINTING, _E.CHECKPOINTED): _S.CHECKPOINTED,
        (_S.CHECKPOINTING, _E.CHECKPOINT_FAILED): _S.RUNNING,
        (_S.CHECKPOINTING, _E.COMMIT): _S.COMMITTING,
        (_S.CHECKPOINTING, _E.KILL): _S.KILLING,
        (_S.CHECKPOINTING, _E.EXITED): _S.DONE,
        (_S.CHECKPOINTED, _E.KILL): _S.KILLING,
        (_S.CHECKPOINTED, _E.EXITED): _S.DONE,
        (_S.COMMITTING, _E.SUSPEND_FAILED): _S.COMMITTING,
        (_S.COMMITTING, _E.CHECKPOINT_FAILED): _S.COMMITTING,
        (_S.COMMITTING, _E.RESUMED): _S.COMMITTING,
        (_S.COMMITTING, _E.RESUME_FAILED): _S.COMMITTING,
        (_S.COMMITTING, _E.KILL): _S.KILLING,
        (_S.COMMITTING, _E.EXITED): _S.DONE,
        (_S.KILLING, _E.LAUNCHED): _S.KILLING,
        (_S.KILLING, _E.LAUNCH_FAILED): _S.DONE,
        (_S.KILLING, _E.SUSPENDED): _S.KILLING,
        (_S.KILLING, _E.SUSPEND_FAILED): _S.KILLING,
        (_S.KILLING, _E.RESUMED): _S.KILLING,
        (_S.KILLING, _E.RESUME_FAILED): _S.KILLING,
        (_S.KILLING, _E.CHECKPOINTED): _S.KILLING,
        (_S.KILLING, _E.CHECKPOINT_FAILED): _S.KILLING,
        (_S.KILLING, _E.COMMIT): _S.KILLING,
        (_S.KILLING, _E.EXITED): _S.DONE,
        (_S.DONE, _E.EXITED): _S.DONE,
    },
)


@dataclass(slots=True)
class Container:
    """What a NodeManager keeps of one container."""

    id: str
    job: str
    group: str
    ready_ns: int
    memory_bytes: int | None = None
    """Memory that its task uses, if known."""
    work: Work = Work.KEYS
    state: ContainerState = ContainerState.LAUNCHING
    revision: int = 1
    refusals: int = 0
    saved: Saved | None = None
    """What the mechanism has saved."""
    saved_by_itself: Saved | None = None
    outcome: Outcome | None = None
    reason: str = ""
    first_key_ns: int | None = None
    input_ready_ns: int | None = None
    suspend_asked_ns: int | None = None
    keys_done: int = 0
    job_knows: bool = False
    """See ``ContainerReport``."""
    slot_free_ns: int | None = None
    """When the ResourceManager may know that the slot is free; None while it is in use."""
    stays_ns: int = 0
    """How long it stays taken after its end, if it is killed."""
    in_grace: bool = False
    """Whether it is to end, and was not sent SIGKILL yet."""

    @property
    def has_grace(self) -> bool:
        """Whether SIGTERM is of use: its process runs."""
        return self.state in (ContainerState.RUNNING, ContainerState.COMMITTING)

    def ended(self, exited: Exited) -> bool:
        """Its process has ended; returns whether that changes anything (a failed launch was reported before)."""
        was_to_end = self.state is ContainerState.KILLING
        if not self.move(ContainerEvent.EXITED):
            return False
        self.keys_done = exited.keys_done
        if exited.code == 0:
            self.outcome = Outcome.SUCCEEDED
        elif self.saved is not None:
            self.outcome = Outcome.CHECKPOINTED
        elif was_to_end:
            self.outcome = Outcome.KILLED
        else:
            self.outcome, self.reason = Outcome.CRASHED, exited.reason
        return True

    def move(self, event: ContainerEvent) -> bool:
        """Take an arc of the table; returns whether the state has changed.  Raises IllegalTransition, without changing
        anything, if there is no such arc."""
        before, self.state = self.state, CONTAINER_TABLE.next(self.state, event, self.id)
        has_moved = self.state is not before
        self.revision += has_moved
        return has_moved

    def stays_after_kill_ns(self, profile: OverheadSettings) -> int:
        """How long it stays taken once it has been killed: as ordered, or until what it has written is removed."""
        wrote = self.work is not Work.MASTER and self.first_key_ns is not None
        return max(self.stays_ns, profile.cleanup_ns if wrote else 0)

    def report(self, node: str) -> ContainerReport:
        """Its whole state, as sent from ``node``."""
        return ContainerReport(
            container=self.id,
            job=self.job,
            group=self.group,
            node=node,
            revision=self.revision,
            state=self.state,
            refusals=self.refusals,
            saved=self.saved or self.saved_by_itself,
            outcome=self.outcome,
            reason=self.reason,
            ready_ns=self.ready_ns,
            first_key_ns=self.first_key_ns,
            input_ready_ns=self.input_ready_ns,
            suspend_asked_ns=self.suspend_asked_ns,
            keys_done=self.keys_done,
            memory_bytes=self.memory_bytes,
            job_knows=self.job_knows,
        )


def first_key_at_ns(start: StartContainer, profile: OverheadSettings, now_ns: int) -> int:
    """The earliest time for its first key under the profile; 0: as soon as possible."""
    is_master = start.work is Work.MASTER
    launch_ns = profile.application_start_ns if is_master else profile.launch_ns + start.beside * profile.launch_more_ns
    schedule_ns = profile.schedule_ns
    if start.saved is not None:
        schedule_ns = profile.resume_ns
    elif start.start_measured:
        schedule_ns = launch_ns = 0
    return max(start.ready_ns + schedule_ns if schedule_ns else 0, now_ns + launch_ns if launch_ns else 0)

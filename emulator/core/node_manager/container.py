"""A container at its NodeManager: its states, and what is reported about it.

Theory of operation
-------------------
A container is launched, runs, and is DONE when its process has ended.  In between are the states of the mechanisms, and
COMMITTING, in which its process refuses to stop.  Its events are the operations that are ordered for it, and the
completions of them and of its process.  Messages of the process and of the kernel may cross.  In KILLING or COMMITTING,
an answer to an earlier request changes nothing (the arcs to the same state).

A kill with a grace sends SIGTERM first.  Until the grace is over, the container is KILLING and its process may go on:
if it ends well meanwhile, its task has succeeded.  Only a process that runs has a grace: one that is being launched, or
is stopped, is killed at once.  So is one in its grace, by a kill without any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from emulator.core.completions import (
    Checkpointed,
    CheckpointFailed,
    Committing,
    Exited,
    FirstKey,
    Launched,
    LaunchFailed,
    Resumed,
    ResumeFailed,
    Suspended,
    SuspendFailed,
)
from emulator.core.effects import Checkpoint, Dump, Effect, Kill, Resume, Suspend, Terminate
from emulator.core.machine import Arc, IllegalTransition, Stateful
from emulator.core.messages import (
    ContainerReport,
    ContainerState,
    KillContainer,
    Outcome,
    ResumeContainer,
    StartContainer,
)
from emulator.core.settings import OverheadSettings
from emulator.vocabulary import Saved, Work

_S = ContainerState
StateCompletion: TypeAlias = (
    Launched
    | LaunchFailed
    | (Suspended | SuspendFailed)
    | (Resumed | ResumeFailed)
    | (Checkpointed | CheckpointFailed)
    | (Committing | Exited)
)
"""The completions that have arcs."""


@dataclass(slots=True)
class Container(Stateful):
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
    release_delay_ns: int = 0
    """How long it stays taken after its end, if it is killed."""
    in_grace: bool = False
    """Whether it is to end, and was not sent SIGKILL yet."""

    def __str__(self) -> str:
        return self.id

    @classmethod
    def killed_before_start(cls, kill: KillContainer, now_ns: int) -> Container:
        """What is kept of a container that a kill names and that has not started; it never will."""
        return cls(
            *(kill.container, kill.job, "", now_ns),
            state=_S.DONE,
            outcome=Outcome.KILLED,
            reason=kill.why,
            release_delay_ns=kill.stays_ns,
        )

    def handle(self, event: StateCompletion | KillContainer | ResumeContainer | Effect, now_ns: int) -> list[Effect]:
        """Take the arc of an event; returns the operations that begin.  A changed state has a higher revision.  Raises
        IllegalTransition, without changing anything, if there is no such arc."""
        before = self.state
        effects: list[Effect] | None = self.take(type(event), event, now_ns)
        self.revision += self.state is not before
        return effects or []

    def is_stop_requested(self, asked_ns: int) -> bool:
        """Its job asks it to stop or to save itself; returns whether that is new, and it may."""
        if self.state is not _S.RUNNING or (self.suspend_asked_ns is not None and asked_ns <= self.suspend_asked_ns):
            return False  # answered before: since then it has resumed or refused
        self.suspend_asked_ns = asked_ns
        return True

    def refused(self, reason: str) -> None:
        """It cannot stop or go on, and stays as it was."""
        self.refusals += 1
        self.reason = reason

    def begins_keys(self, first_key: FirstKey) -> None:
        """Its process has its input and begins its first key.  Raises IllegalTransition if it has ended."""
        if self.state is _S.DONE:
            raise IllegalTransition(f"container {self} has ended and says that it begins its first key")
        self.first_key_ns, self.input_ready_ns = first_key.at_ns, first_key.input_ready_ns

    def _not_launched(self, failed: LaunchFailed, now_ns: int) -> None:
        self.outcome, self.reason = Outcome.LAUNCH_FAILED, failed.reason

    def _not_launched_in_time(self, failed: LaunchFailed, now_ns: int) -> None:
        self.outcome, self.reason = Outcome.KILLED, failed.reason

    def _operate(self, order: Effect, now_ns: int) -> list[Effect]:
        return [order]

    def _stopped(self, suspended: Suspended, now_ns: int) -> None:
        self.keys_done = suspended.keys_done

    def _failed(self, failed: SuspendFailed | CheckpointFailed | ResumeFailed, now_ns: int) -> None:
        self.refused(failed.reason)

    def _reported_with_its_end(self, failed: SuspendFailed | CheckpointFailed | ResumeFailed, now_ns: int) -> None:
        self.reason = failed.reason

    def _resume(self, order: ResumeContainer, now_ns: int) -> list[Effect]:
        self.ready_ns, self.slot_free_ns = order.ready_ns, None
        return [Resume(self.id)]

    def _resumes(self, message: Resumed | Committing, now_ns: int) -> None:
        if self.first_key_ns is not None:  # it is among its keys and has its input
            self.first_key_ns, self.input_ready_ns = now_ns, None

    def _saved(self, checkpointed: Checkpointed, now_ns: int) -> None:
        self.saved = checkpointed.saved

    def _kill(self, kill: KillContainer, now_ns: int) -> list[Effect]:
        self.reason, self.release_delay_ns = kill.why, kill.stays_ns
        return [Kill(self.id)]

    def _terminate(self, kill: KillContainer, now_ns: int) -> list[Effect]:
        effects = self._kill(kill, now_ns)
        self.in_grace = kill.grace_ns > 0
        return [Terminate(self.id)] if self.in_grace else effects

    def _kill_in_grace(self, kill: KillContainer, now_ns: int) -> list[Effect]:
        is_due = self.in_grace and not kill.grace_ns
        self.in_grace = self.in_grace and not is_due
        return [Kill(self.id)] if is_due else []

    def _crashed(self, exited: Exited, now_ns: int) -> None:
        self._ended(exited, Outcome.CRASHED, exited.reason)

    def _killed(self, exited: Exited, now_ns: int) -> None:
        self._ended(exited, Outcome.KILLED, self.reason)

    def _ended(self, exited: Exited, otherwise: Outcome, reason: str) -> None:
        self.keys_done = exited.keys_done
        if exited.code == 0:
            self.outcome = Outcome.SUCCEEDED
        elif self.saved is not None:
            self.outcome = Outcome.CHECKPOINTED
        else:
            self.outcome, self.reason = otherwise, reason

    def release_delay_after_kill_ns(self, profile: OverheadSettings) -> int:
        """How long it stays taken once it has been killed: as ordered, or until what it has written is removed."""
        wrote = self.work is not Work.MASTER and self.first_key_ns is not None
        return max(self.release_delay_ns, profile.cleanup_ns if wrote else 0)

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

    arcs: ClassVar = {
        (_S.LAUNCHING, Launched): Arc(_S.RUNNING),
        (_S.LAUNCHING, LaunchFailed): Arc(_S.DONE, _not_launched),
        (_S.LAUNCHING, KillContainer): Arc(_S.KILLING, _kill),
        (_S.LAUNCHING, Exited): Arc(_S.DONE, _crashed),
        (_S.RUNNING, Suspend): Arc(_S.SUSPENDING, _operate),
        (_S.RUNNING, Checkpoint): Arc(_S.CHECKPOINTING, _operate),
        (_S.RUNNING, Dump): Arc(_S.CHECKPOINTING, _operate),
        (_S.RUNNING, Committing): Arc(_S.COMMITTING),
        (_S.RUNNING, KillContainer): Arc(_S.KILLING, _terminate),
        (_S.RUNNING, Exited): Arc(_S.DONE, _crashed),
        (_S.SUSPENDING, Suspended): Arc(_S.SUSPENDED, _stopped),
        (_S.SUSPENDING, SuspendFailed): Arc(_S.RUNNING, _failed),
        (_S.SUSPENDING, Committing): Arc(_S.COMMITTING),
        (_S.SUSPENDING, KillContainer): Arc(_S.KILLING, _kill),
        (_S.SUSPENDING, Exited): Arc(_S.DONE, _crashed),
        (_S.SUSPENDED, ResumeContainer): Arc(_S.RESUMING, _resume),
        (_S.SUSPENDED, KillContainer): Arc(_S.KILLING, _kill),
        (_S.SUSPENDED, Exited): Arc(_S.DONE, _crashed),
        (_S.RESUMING, Resumed): Arc(_S.RUNNING, _resumes),
        (_S.RESUMING, ResumeFailed): Arc(_S.SUSPENDED, _failed),
        (_S.RESUMING, Committing): Arc(_S.COMMITTING, _resumes),
        (_S.RESUMING, KillContainer): Arc(_S.KILLING, _kill),
        (_S.RESUMING, Exited): Arc(_S.DONE, _crashed),
        (_S.CHECKPOINTING, Checkpointed): Arc(_S.CHECKPOINTED, _saved),
        (_S.CHECKPOINTING, CheckpointFailed): Arc(_S.RUNNING, _failed),
        (_S.CHECKPOINTING, Committing): Arc(_S.COMMITTING),
        (_S.CHECKPOINTING, KillContainer): Arc(_S.KILLING, _kill),
        (_S.CHECKPOINTING, Exited): Arc(_S.DONE, _crashed),
        (_S.CHECKPOINTED, KillContainer): Arc(_S.KILLING, _kill),
        (_S.CHECKPOINTED, Exited): Arc(_S.DONE, _crashed),
        (_S.COMMITTING, SuspendFailed): Arc(_S.COMMITTING, _reported_with_its_end),
        (_S.COMMITTING, CheckpointFailed): Arc(_S.COMMITTING, _reported_with_its_end),
        (_S.COMMITTING, Resumed): Arc(_S.COMMITTING),
        (_S.COMMITTING, ResumeFailed): Arc(_S.COMMITTING, _reported_with_its_end),
        (_S.COMMITTING, KillContainer): Arc(_S.KILLING, _terminate),
        (_S.COMMITTING, Exited): Arc(_S.DONE, _crashed),
        (_S.KILLING, Launched): Arc(_S.KILLING),
        (_S.KILLING, LaunchFailed): Arc(_S.DONE, _not_launched_in_time),
        (_S.KILLING, Suspended): Arc(_S.KILLING),
        (_S.KILLING, SuspendFailed): Arc(_S.KILLING),
        (_S.KILLING, Resumed): Arc(_S.KILLING),
        (_S.KILLING, ResumeFailed): Arc(_S.KILLING),
        (_S.KILLING, Checkpointed): Arc(_S.KILLING, _saved),
        (_S.KILLING, CheckpointFailed): Arc(_S.KILLING),
        (_S.KILLING, Committing): Arc(_S.KILLING),
        (_S.KILLING, KillContainer): Arc(_S.KILLING, _kill_in_grace),
        (_S.KILLING, Exited): Arc(_S.DONE, _killed),
        (_S.DONE, KillContainer): Arc(_S.DONE),
        (_S.DONE, Exited): Arc(_S.DONE),
    }


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

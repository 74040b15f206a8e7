"""Rows of the tables that a journal folds into; times are emulated nanoseconds, None where it never came to that."""

from __future__ import annotations

import msgspec

from emulator.core.completions import RealCost
from emulator.core.messages import JobState, Outcome
from emulator.records.history.decisions import Decision
from emulator.vocabulary import Frozen, Kind


class SuspendedSpan(Frozen):
    """A time for which the process of an attempt was stopped (mechanism *suspend*)."""

    stopped_ns: int
    resumed_ns: int | None
    """None: it was not resumed."""
    asked_ns: int | None
    """When it was asked to stop."""
    freed_ns: int | None
    """When the ResourceManager knew its container free; None where it went on, or was lost, before that."""
    resume_ready_ns: int | None
    """The later of request for a container to go on and container free: start of the resume overhead."""


class AttemptRow(Frozen):
    """One attempt that was given a container: of a task, or an ApplicationMaster's own."""

    job: str
    queue: str
    kind: Kind
    task: int
    attempt: str
    container: str
    node: str
    outcome: Outcome | None
    """None: its end has not been recorded, because the run was over."""
    reason: str
    ready_ns: int
    """The later of request at the ResourceManager and container free: start of the schedule or resume overhead."""
    launched_ns: int | None
    """When its NodeManager knew that the process ran."""
    first_key_ns: int | None
    """A map or an ApplicationMaster: start of its work."""
    input_ready_ns: int | None
    """When the input it had to wait for was there; None where it had not to wait."""
    suspend_asked_ns: int | None
    """When it was last asked to suspend."""
    ended_ns: int | None
    slot_freed_ns: int | None
    """When the ResourceManager last knew its container free: after its end, or after a stop it never left."""
    keys_start: int
    """Keys it did not have to walk: those of the checkpoint it started from."""
    keys_done: int | None
    """Keys done at its end, those of ``keys_start`` included; None where nobody can tell."""
    keys_total: int
    resumed_from: str | None
    """The attempt whose checkpoint it started from."""
    suspended_spans: tuple[SuspendedSpan, ...]
    busy_ns: int
    """For how long its process was there and not stopped."""
    active_ns: int
    """From its first key (a map: start of work) to its end, stopped times left out; 0 for an ApplicationMaster."""
    useful_ns: int
    """Active time that counts: it succeeded, or saved a checkpoint."""
    lost_ns: int
    """Active time that was for nothing: it was killed, crashed or lost with its node, back to the checkpoint it
    started from; or it was a map whose output was lost and made again."""
    swapped_bytes: int = 0
    """Emulated bytes of its memory that its stops sent to swap: what was there when it went on, or was given up."""
    overhead_ns: int = 0
    """For how long its container was held by the restore that it began with and the dump that it ended with."""


class TaskRow(Frozen):
    """One map or reduce."""

    job: str
    queue: str
    kind: Kind
    task: int
    outcome: Outcome | None
    """Of its last attempt; None: it has none, or that one's end has not been recorded."""
    length_ns: int
    """Active time it takes when nothing disturbs it."""
    keys_total: int
    attempts: int
    suspensions: int
    """Times it was stopped or saved a checkpoint."""
    kills: int
    """Attempts killed to give their container to somebody else; kills because the job was over are none."""
    start_ns: int | None
    """First work of its first attempt."""
    finish_ns: int | None
    """End of its last attempt that succeeded."""
    useful_ns: int
    lost_ns: int


class JobRow(Frozen):
    """One job; counts are sums over its tasks."""

    name: str
    queue: str
    submit_ns: int
    start_ns: int | None
    """First work of its first task."""
    finish_ns: int | None
    """The durable commit as the ApplicationMaster reported it, or the failure."""
    deadline_ns: int | None
    state: JobState
    """``new`` or ``running`` where the journal ends before the job."""
    attempts: int
    suspensions: int
    kills: int
    useful_ns: int
    lost_ns: int
    busy_ns: int = 0
    """For how long the processes of its attempts, ApplicationMasters included, were there and not stopped."""
    overhead_ns: int = 0
    """For how long its containers were held by restores and dumps of process images."""
    reason: str = ""
    """Why it failed; empty where it did not."""

    @property
    def completion_ns(self) -> int | None:
        """From submission to finish."""
        return None if self.finish_ns is None else self.finish_ns - self.submit_ns

    @property
    def margin_ns(self) -> int | None:
        """From finish to deadline; negative: too late."""
        return None if self.finish_ns is None or self.deadline_ns is None else self.deadline_ns - self.finish_ns


class Operation(Frozen):
    """One measured overhead."""

    name: str
    """``schedule``, ``resume``, ``suspend``, ``kill`` or ``application_master_start``."""
    container: str
    begin_ns: int
    end_ns: int
    cost: RealCost | None
    """What the machine itself took for it, None where the driver did not say."""
    swapped_bytes: int = 0
    """Of a resume: emulated bytes of the process's memory that were in swap when it began."""


class ImageRow(Frozen):
    """One process image; it is there until its task has ended, or another has taken its place."""

    container: str
    """That of the process."""
    node: str
    written_bytes: int
    read_bytes: int
    """By the restores from it."""
    written_ns: int
    gone_ns: int | None
    """None: it is still there at the end."""


class History(Frozen):
    """What happened in a run: the one source of its summary and its Parquet files, whichever engine ran it."""

    jobs: list[JobRow]
    """In the order of the workload."""
    tasks: list[TaskRow]
    """By job, maps before reduces, by number."""
    attempts: list[AttemptRow]
    """By job, ApplicationMaster, maps, reduces, by task and then time."""
    operations: list[Operation]
    checkpoint_bytes: int = 0
    """Written by all checkpoints together."""
    swapped_bytes: int = 0
    """Of all attempts."""
    decisions: list[Decision] = msgspec.field(default_factory=list)
    """Choices of victims, by time."""
    images: list[ImageRow] = msgspec.field(default_factory=list)
    """By job and task, in the order in which they were written."""

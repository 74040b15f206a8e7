"""Rows of the tables made from a journal.  Times are emulated nanoseconds; None: this never happened."""

from __future__ import annotations

import msgspec

from emulator.core.completions import RealCost
from emulator.core.messages import JobState, Outcome
from emulator.records.history.decisions import Decision
from emulator.vocabulary import Frozen, Kind


class SuspendedSpan(Frozen):
    """A span in which the process of an attempt was stopped (mechanism *suspend*)."""

    stopped_ns: int
    resumed_ns: int | None
    """None: it was not resumed."""
    asked_ns: int | None
    """When it was asked to stop."""
    freed_ns: int | None
    """When the ResourceManager knew that its container was free; None if it continued, or was lost, before that."""
    resume_ready_ns: int | None
    """The later of the request for a container to resume in and that container being free: start of the overhead."""


class PagingSpan(Frozen):
    """A time in which an attempt wrote its memory or read it back, and pages went to swap or came back for it."""

    began_ns: int
    ended_ns: int
    out_bytes: int
    """Emulated, of others on its node."""
    in_bytes: int
    """Emulated, of its own."""


class AttemptRow(Frozen):
    """One attempt that got a container: of a task, or of an ApplicationMaster."""

    job: str
    queue: str
    kind: Kind
    task: int
    attempt: str
    container: str
    node: str
    outcome: Outcome | None
    """None: the run was over before its end was recorded."""
    reason: str
    ready_ns: int
    """The later of the request at the ResourceManager and the container being free: start of the schedule or resume
    overhead."""
    launched_ns: int | None
    """When its NodeManager knew that the process was running."""
    first_key_ns: int | None
    """For a map or an ApplicationMaster: the start of its work."""
    input_ready_ns: int | None
    """When the input it waited for was ready; None if it did not wait."""
    suspend_asked_ns: int | None
    """When it was last asked to suspend."""
    ended_ns: int | None
    slot_freed_ns: int | None
    """When the ResourceManager last learned that its container was free: after its end, or after a last stop."""
    keys_start: int
    """Keys it could skip: those of the checkpoint it started from."""
    keys_done: int | None
    """Keys done at its end, including ``keys_start``; None if unknown."""
    keys_total: int
    resumed_from: str | None
    """The attempt whose checkpoint it started from."""
    suspended_spans: tuple[SuspendedSpan, ...]
    busy_ns: int
    """How long its process ran without being stopped."""
    active_ns: int
    """From its first key (a map: start of work) to its end, without stopped times; 0 for an ApplicationMaster."""
    useful_ns: int
    """Active time that counts, because it succeeded or saved a checkpoint."""
    lost_ns: int
    """Active time without a result: since the checkpoint it started from, if it was killed, crashed or lost with its
    node; or of a map whose output was lost and made again."""
    swapped_bytes: int = 0
    """Emulated bytes of its memory that its stops sent to swap, as found when it was resumed or ended."""
    paging_spans: tuple[PagingSpan, ...] = ()
    overhead_ns: int = 0
    """How long its container was held by the restore it began with and by the dump it ended with."""


class TaskRow(Frozen):
    """One map or reduce."""

    job: str
    queue: str
    kind: Kind
    task: int
    outcome: Outcome | None
    """Of its last attempt; None: there was none, or its end was not recorded."""
    length_ns: int
    """Active time it takes without disturbance."""
    keys_total: int
    attempts: int
    suspensions: int
    """How often it was stopped or saved a checkpoint."""
    kills: int
    """Attempts killed to give their container to another job; kills because the job was over do not count."""
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
    """``new`` or ``running`` if the journal ends before the job."""
    attempts: int
    suspensions: int
    kills: int
    useful_ns: int
    lost_ns: int
    busy_ns: int = 0
    """How long the processes of its attempts, including ApplicationMasters, ran without being stopped."""
    masters_busy_ns: int = 0
    """Of that, its ApplicationMasters."""
    overhead_ns: int = 0
    """How long its containers were held by restores and dumps of process images."""
    reason: str = ""
    """Why it failed; empty if it did not."""
    weight_ppm: int = 1_000_000
    """Its weight in the weighted mean of response times, in millionths."""

    @property
    def completion_ns(self) -> int | None:
        """From submission to finish."""
        return None if self.finish_ns is None else self.finish_ns - self.submit_ns

    @property
    def margin_ns(self) -> int | None:
        """From finish to deadline; negative if it was late."""
        return None if self.finish_ns is None or self.deadline_ns is None else self.deadline_ns - self.finish_ns


class Operation(Frozen):
    """One measured overhead."""

    name: str
    """``schedule``, ``resume``, ``suspend``, ``kill`` or ``application_master_start``."""
    container: str
    begin_ns: int
    end_ns: int
    cost: RealCost | None
    """The machine's own time for it; None if the driver did not report it."""
    swapped_bytes: int = 0
    """For a resume: emulated bytes of the process's memory that were in swap when it began."""


class ImageRow(Frozen):
    """One process image.  It exists until its task has ended or another image has replaced it."""

    container: str
    """The container of the process."""
    node: str
    written_bytes: int
    read_bytes: int
    """Bytes read by the restores from it."""
    written_ns: int
    gone_ns: int | None
    """None: it still existed at the end."""


class History(Frozen):
    """What happened in a run, under any engine; the only source of its summary and its Parquet files."""

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

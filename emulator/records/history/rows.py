"""The rows of the tables of jobs, tasks and attempts, and how each is made from what is known about its containers.

Times are emulated nanoseconds.  ``columns.py`` says how a class becomes the columns of a table: a new field, or a new
``computed`` value, is a new column everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from emulator.core.job import JobSpec
from emulator.core.messages import JobFinished, JobState, Outcome
from emulator.core.resource_manager.allocation import AS_IT_WAS_TO_END
from emulator.records.history.columns import Mark, computed
from emulator.records.history.containers import (
    LOST_OUTCOMES,
    ContainerStory,
    PagingSpan,
    SuspendedSpan,
)
from emulator.vocabulary import MAP, MASTER, REDUCE, TASKS, Frozen, ProcessImage, TaskGroup, Work


class Amount(Frozen):
    """How much of one resource a container asked for."""

    thousandths: int
    """The amount in thousandths: 1.5 cpu are 1500."""


class AttemptRow(Frozen, kw_only=True):
    """One attempt that got a container: of a task, or of an ApplicationMaster."""

    job: str
    """Name of its job."""
    queue: str
    """Queue of its job."""
    kind: str
    """Name of its task's group: ``map``, ``reduce``, ``tasks`` or one that the job's file names; ``am``: it is the
    ApplicationMaster."""
    task: int
    """Number of its task among the job's tasks of this group, from 0."""
    attempt: Annotated[str, Mark.DISTINCT]
    """Its name: job, task, and which attempt at the task."""
    container: Annotated[str, Mark.DISTINCT]
    """Its container."""
    node: str
    """The node of its container."""
    outcome: Outcome | None
    """How it ended.  None: the run was over before its end was recorded."""
    reason: str
    """Why it ended, if it did not succeed."""
    ready_ns: int
    """The later of the request at the ResourceManager and the container being free: start of the schedule or resume
    overhead."""
    launched_ns: int | None
    """When its NodeManager knew that the process was running.  None: it never was."""
    first_key_ns: int | None
    """First key of a reduce; start of the work of a map or an ApplicationMaster.  None: it was not reached."""
    input_ready_ns: int | None
    """When the input it waited for was ready.  None: it did not wait."""
    suspend_asked_ns: int | None
    """When it was last asked to suspend.  None: never."""
    ended_ns: int | None
    """When it ended.  None: the run was over before that."""
    slot_freed_ns: int | None
    """When the ResourceManager last learned that its container was free: after its end, or after a last stop.  None: it
    did not learn it."""
    keys_start: int
    """Keys it could skip: those of the checkpoint it started from."""
    keys_done: int | None
    """Keys done at its end, including ``keys_start``.  None: unknown."""
    keys_total: int
    """All keys of a reduce; 0 for others."""
    resumed_from: str | None
    """The attempt whose checkpoint it started from.  None: it started from none."""
    suspended_spans: tuple[SuspendedSpan, ...]
    """When its process was stopped."""
    busy_ns: int
    """How long its process ran without being stopped."""
    active_ns: int
    """From its first key (a map: start of work) to its end, without stopped times; 0 for an ApplicationMaster."""
    useful_ns: int
    """Active time that counts, because it succeeded or saved a checkpoint, or until it last saved by itself."""
    lost_ns: int
    """Active time without a result: since it last saved or started, if it was killed, crashed or lost with its node; or
    all of it, if what it had saved, or a map's output, was lost and made again."""
    overhead_ns: int = 0
    """How long its container was held by the restore it began with and by the dump it ended with."""
    swapped_bytes: int = 0
    """Emulated bytes of its memory that its stops sent to swap, as found when it was resumed or ended."""
    paging_spans: tuple[PagingSpan, ...] = ()
    """When it wrote its memory or read it back, and pages went to swap or came back for it."""
    terminated_ns: int | None = None
    """When it was sent SIGTERM, before SIGKILL.  None: it was not."""
    saved_ns: int | None = None
    """When it last saved by itself.  None: it did not; also of a program, whose saves natjam does not see."""
    request: tuple[Amount, ...] = ()
    """What its container asked for, of each resource in the order of ``cluster.node_groups``; empty where all
    containers have one size, and for an ApplicationMaster outside containers."""

    @classmethod
    def of(
        cls, spec: JobSpec, story: ContainerStory, attempt_of: Mapping[str, str], superseded: bool = False
    ) -> AttemptRow:
        """The attempt in this container.

        Args:
            spec: its job.
            story: what is known about its container.
            attempt_of: the attempts in all containers of its job.
            superseded: its work was lost after it had ended: a later attempt did it again.
        """
        start = story.start
        assert start is not None
        saved, walks_keys = start.saved, start.work is Work.KEYS
        past = [container for container in saved.past_containers if container not in story.not_found] if saved else []
        keys_start = saved.keys_done if saved and not story.not_found else story.keys_left
        keys_done = story.keys_done
        if not walks_keys:
            keys_done = 0
        elif keys_done is not None:
            keys_done = max(keys_start, keys_done)  # a process that did not start has counted nothing
        works = start.work is not Work.MASTER
        active_ns = story.running_ns(story.first_key_ns) if works else 0
        counts = story.outcome in (Outcome.SUCCEEDED, Outcome.CHECKPOINTED) or story.reason == AS_IT_WAS_TO_END
        useful = counts and not superseded
        lost = (story.outcome in LOST_OUTCOMES and not counts) or superseded
        kept_ns = story.kept_ns(spec) if lost and walks_keys and not superseded else 0
        return cls(
            job=start.job,
            queue=spec.queue,
            kind=start.group,
            task=start.task,
            attempt=start.attempt,
            container=story.container,
            node=story.node,
            outcome=story.outcome,
            reason=story.reason,
            ready_ns=start.ready_ns,
            launched_ns=story.launched_ns,
            first_key_ns=story.first_key_ns,
            input_ready_ns=story.input_ready_ns,
            suspend_asked_ns=story.suspend_asked_ns,
            ended_ns=story.ended_ns,
            slot_freed_ns=story.slot_freed_ns,
            keys_start=keys_start,
            keys_done=keys_done,
            keys_total=spec.keys_of(spec.facts.group(start.group), start.task),
            resumed_from=attempt_of.get(past[-1]) if past else None,
            suspended_spans=story.suspended_spans,
            busy_ns=story.running_ns(story.launched_ns),
            active_ns=active_ns,
            useful_ns=active_ns if useful else kept_ns,
            lost_ns=active_ns - kept_ns if lost else 0,
            overhead_ns=story.imaging_ns,
            swapped_bytes=story.swapped_bytes,
            paging_spans=story.paging_spans,
            terminated_ns=story.terminated_ns,
            saved_ns=story.saved_ns,
            request=tuple(map(Amount, start.request)),
        )


class TaskRow(Frozen):
    """One task."""

    job: str
    """Name of its job."""
    queue: str
    """Queue of its job."""
    kind: str
    """Name of its group: ``map``, ``reduce``, ``tasks`` or one that the job's file names."""
    task: int
    """Its number among the job's tasks of this group, from 0."""
    outcome: Outcome | None
    """The outcome of its last attempt.  None: there was none, or its end was not recorded."""
    length_ns: int
    """Active time it takes without disturbance."""
    keys_total: int
    """All keys of a reduce; 0 for a map."""
    attempts: int
    """How many there were."""
    suspensions: int
    """How often it was stopped or saved a checkpoint."""
    kills: int
    """Attempts killed to give their container to another job; kills because the job was over do not count."""
    start_ns: int | None
    """First work of its first attempt.  None: it has not begun."""
    finish_ns: int | None
    """End of its last attempt that succeeded.  None: none did."""
    useful_ns: int
    """Sum over its attempts."""
    lost_ns: int
    """Sum over its attempts."""

    @classmethod
    def of(
        cls,
        spec: JobSpec,
        group: TaskGroup,
        task: int,
        attempts: Sequence[AttemptRow],
        stories: Sequence[ContainerStory],
        job_finish_ns: int | None,
    ) -> TaskRow:
        """A task of a job, of its attempts and of what is known about their containers, in the order of time."""
        starts_ns = [row.first_key_ns for row in attempts if row.first_key_ns is not None]
        ends_ns = [row.ended_ns for row in attempts if row.outcome is Outcome.SUCCEEDED and row.ended_ns is not None]
        return cls(
            job=spec.name,
            queue=spec.queue,
            kind=group.name,
            task=task,
            outcome=attempts[-1].outcome if attempts else None,
            length_ns=spec.length_ns(group, task),
            keys_total=spec.keys_of(group, task),
            attempts=len(attempts),
            suspensions=sum(story.suspensions for story in stories),
            kills=sum(story.was_preempted_by_kill(job_finish_ns) for story in stories),
            start_ns=min(starts_ns, default=None),
            finish_ns=max(ends_ns, default=None),
            useful_ns=sum(row.useful_ns for row in attempts),
            lost_ns=sum(row.lost_ns for row in attempts),
        )


class JobRow(Frozen):
    """One job; counts are sums over its tasks."""

    name: Annotated[str, Mark.DISTINCT]
    """Its name."""
    queue: str
    """The queue it was submitted to."""
    submit_ns: int
    """When it was submitted."""
    start_ns: int | None
    """First work of its first task.  None: it has not begun."""
    finish_ns: int | None
    """The durable commit as the ApplicationMaster reported it, or the failure.  None: the run was over before that."""
    deadline_ns: int | None
    """When it should have ended.  None: it has no deadline."""
    state: JobState
    """``new`` or ``running`` if the journal ends before the job."""
    attempts: int
    """How many there were at its tasks."""
    suspensions: int
    """How often its tasks were stopped or saved a checkpoint."""
    kills: int
    """Attempts killed to give their container to another job."""
    useful_ns: Annotated[int, Mark.ONLY_IN_TABLE]
    """Active time that counts, because the attempt succeeded or saved a checkpoint."""
    lost_work_ns: int
    """Active time without a result."""
    overhead_ns: Annotated[int, Mark.ONLY_IN_TABLE] = 0
    """How long its containers were held by restores and dumps of process images."""
    reason: str = ""
    """Why it failed; empty if it did not."""
    busy_ns: Annotated[int, Mark.HIDDEN] = 0
    """How long the processes of its attempts, including ApplicationMasters, ran without being stopped."""
    masters_busy_ns: Annotated[int, Mark.HIDDEN] = 0
    """The part of that which its ApplicationMasters were busy."""
    weight_ppm: Annotated[int, Mark.HIDDEN] = 1_000_000
    """Its weight in the weighted mean of response times, in millionths."""

    @computed(after="finish_ns")
    def completion_ns(self) -> int | None:
        """From submission to finish.  None: it did not finish."""
        return None if self.finish_ns is None else self.finish_ns - self.submit_ns

    @computed(after="deadline_ns")
    def margin_ns(self) -> Annotated[int | None, Mark.SIGNED]:
        """From finish to deadline; negative if it was late.  None: it has no deadline, or did not finish."""
        return None if self.finish_ns is None or self.deadline_ns is None else self.deadline_ns - self.finish_ns

    @classmethod
    def of(
        cls,
        spec: JobSpec,
        tasks: Sequence[TaskRow],
        attempts: Sequence[AttemptRow],
        end: JobFinished | None,
        submitted_ns: int | None,
    ) -> JobRow:
        """A job, of its tasks and all attempts; ``end``: what the client was told; None: nothing, as of submission."""
        starts_ns = [task.start_ns for task in tasks if task.start_ns is not None]
        return cls(
            name=spec.name,
            queue=spec.queue,
            submit_ns=spec.submit_ns if spec.submit_when is None else submitted_ns or 0,
            start_ns=min(starts_ns, default=None),
            finish_ns=end.finish_ns if end else None,
            deadline_ns=spec.facts.deadline_ns,
            state=end.state if end else JobState.NEW if submitted_ns is None else JobState.RUNNING,
            **sums_over(tasks),
            overhead_ns=sum(row.overhead_ns for row in attempts),
            reason=end.reason if end else "",
            busy_ns=sum(row.busy_ns for row in attempts),
            masters_busy_ns=sum(row.busy_ns for row in attempts if row.kind == MASTER),
            weight_ppm=spec.facts.weight_ppm,
        )


def sums_over(tasks: Sequence[TaskRow]) -> dict[str, int]:
    """The fields of a job, or of a group, that are sums over its tasks."""
    return {
        "attempts": sum(task.attempts for task in tasks),
        "suspensions": sum(task.suspensions for task in tasks),
        "kills": sum(task.kills for task in tasks),
        "useful_ns": sum(task.useful_ns for task in tasks),
        "lost_work_ns": sum(task.lost_ns for task in tasks),
    }


class WaitRow(Frozen):
    """A time in which a job could not start, for a reason that its scheduler has named."""

    job: str
    """Name of the job."""
    since_ns: int
    """When it began to wait for that."""
    until_ns: int | None
    """When it did not wait for that any more.  None: the run was over before that."""
    why: str
    """What it waited for, in the scheduler's words, as it was at the beginning."""


class ImageRow(Frozen):
    """One process image.  It exists until its task has ended or another image has replaced it."""

    container: str
    """The container of the process."""
    node: str
    """The node that wrote it."""
    written_bytes: int
    """Bytes written."""
    read_bytes: int
    """Bytes read by the restores from it."""
    written_ns: int
    """When it was whole."""
    gone_ns: int | None
    """None: it still existed at the end."""

    @classmethod
    def of(cls, stories: Sequence[ContainerStory], job_finish_ns: int | None) -> list[ImageRow]:
        """The images of one task; ``stories`` are in the order of time."""
        ends_ns = [story.ended_ns for story in stories if story.outcome is Outcome.SUCCEEDED]
        gone_ns = ends_ns[-1] if ends_ns else job_finish_ns
        rows = []
        for story in reversed(stories):
            image = story.image
            if image is None or story.ended_ns is None:
                continue
            restored = sum(_starts_from(other, story.container) for other in stories if other.launched_ns is not None)
            read_bytes = image.size_bytes * restored
            rows.append(cls(story.container, story.node, image.bytes_written, read_bytes, story.ended_ns, gone_ns))
            if not image.is_incremental:
                gone_ns = story.ended_ns  # earlier images are of no more use
        return rows[::-1]


def _starts_from(story: ContainerStory, container: str) -> bool:
    saved = story.start.saved if story.start is not None else None
    return isinstance(saved, ProcessImage) and saved.past_containers[-1] == container


_USUAL = frozenset({MAP, REDUCE, TASKS})


class GroupRow(Frozen):
    """One group of tasks of a job; counts are sums over its tasks."""

    job: str
    """Name of its job."""
    group: str
    """Its name."""
    tasks: int
    """How many it has."""
    succeeded: int
    """How many of them have succeeded."""
    start_ns: int | None
    """First work of its first task.  None: it has not begun."""
    finish_ns: int | None
    """End of its last task.  None: not all have succeeded."""
    attempts: int
    """How many there were at its tasks."""
    suspensions: int
    """How often its tasks were stopped or saved a checkpoint."""
    kills: int
    """Attempts killed to give their container to another job."""
    useful_ns: int
    """Active time that counts, because the attempt succeeded or saved a checkpoint."""
    lost_work_ns: int
    """Active time without a result."""


def group_rows(spec: JobSpec, tasks: Sequence[TaskRow]) -> Iterator[GroupRow]:
    """The groups of a job that has others than maps, reduces and programs; ``tasks`` are its own."""
    groups = spec.facts.groups
    for group in groups if any(each.name not in _USUAL for each in groups) else ():
        mine = [task for task in tasks if task.kind == group.name]
        starts_ns = [task.start_ns for task in mine if task.start_ns is not None]
        ends_ns = [task.finish_ns for task in mine if task.finish_ns is not None]
        yield GroupRow(
            job=spec.name,
            group=group.name,
            tasks=group.count,
            succeeded=sum(task.outcome is Outcome.SUCCEEDED for task in mine),
            start_ns=min(starts_ns, default=None),
            finish_ns=max(ends_ns, default=None) if len(ends_ns) == len(mine) else None,
            **sums_over(mine),
        )

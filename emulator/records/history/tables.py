"""Makes the rows of jobs, tasks and attempts from what is known about every container."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from emulator.core.job import JobSpec
from emulator.core.messages import JobFinished, JobState, Outcome
from emulator.core.saved import ProcessImage
from emulator.records.history.containers import LOST_OUTCOMES, ContainerStory
from emulator.records.history.rows import AttemptRow, History, ImageRow, JobRow, TaskRow
from emulator.records.journal import JournalError
from emulator.vocabulary import Kind

_KIND_ORDER = {Kind.APPLICATION_MASTER: 0, Kind.MAP: 1, Kind.REDUCE: 2}


@dataclass(slots=True)
class _Counts:
    """Sums over attempts, then over tasks."""

    attempts: int = 0
    suspensions: int = 0
    kills: int = 0
    useful_ns: int = 0
    lost_ns: int = 0
    starts_ns: list[int] = field(default_factory=list)

    def add(self, other: _Counts) -> None:
        self.attempts += other.attempts
        self.suspensions += other.suspensions
        self.kills += other.kills
        self.useful_ns += other.useful_ns
        self.lost_ns += other.lost_ns
        self.starts_ns += other.starts_ns

    @property
    def start_ns(self) -> int | None:
        return min(self.starts_ns, default=None)


def tables_by_job(
    jobs: list[JobSpec],
    stories: dict[str, ContainerStory],
    submitted: Mapping[str, int],
    finished: Mapping[str, JobFinished],
) -> Iterator[History]:
    """The tables of a run, job by job.  Raises JournalError for a job that is not in the workload.

    ``stories``, by container, is emptied on the way: so the memory of a job is free when its rows are made.
    """
    names = {job.name for job in jobs}
    by_job: dict[str, list[ContainerStory]] = {name: [] for name in names}
    attempt_of: dict[str, str] = {}
    while stories:
        _, story = stories.popitem()
        if story.start is None:
            continue  # a kill overtook its start, or the launch was dropped: there was no attempt
        if story.start.job not in names:
            raise JournalError(f"the journal has a job '{story.start.job}' that the workload does not have")
        by_job[story.start.job].append(story)
        attempt_of[story.container] = story.start.attempt
    for spec in jobs:
        mine = sorted(by_job.pop(spec.name), key=_order)
        checkpoint_bytes = sum(story.checkpoint_bytes for story in mine)
        history = History([], [], [], [], checkpoint_bytes, sum(story.swapped_bytes for story in mine))
        _add_job(history, spec, mine, attempt_of, finished.get(spec.name), submitted.get(spec.name))
        del mine
        yield history


def joined(parts: Iterable[History]) -> History:
    """Combines parts of the tables of one run."""
    whole, checkpoint_bytes, swapped_bytes = History([], [], [], []), 0, 0
    for part in parts:
        for rows, more in zip(_lists(whole), _lists(part), strict=True):
            rows.extend(more)
        checkpoint_bytes += part.checkpoint_bytes
        swapped_bytes += part.swapped_bytes
    return msgspec.structs.replace(whole, checkpoint_bytes=checkpoint_bytes, swapped_bytes=swapped_bytes)


def _lists(history: History) -> tuple[list[Any], ...]:
    return history.jobs, history.tasks, history.attempts, history.operations, history.decisions, history.images


def _order(story: ContainerStory) -> tuple[int, int, int, str]:
    start = story.start
    assert start is not None
    return _KIND_ORDER[start.kind], start.task, start.ready_ns, story.container


def _add_job(
    history: History,
    spec: JobSpec,
    stories: list[ContainerStory],
    attempt_of: Mapping[str, str],
    end: JobFinished | None,
    submitted_ns: int | None,
) -> None:
    finish_ns = end.finish_ns if end else None
    by_task: dict[tuple[Kind, int], list[ContainerStory]] = {}
    for story in stories:
        assert story.start is not None
        by_task.setdefault((story.start.kind, story.start.task), []).append(story)
        history.operations.extend(story.operations(finish_ns))
    for story in by_task.pop((Kind.APPLICATION_MASTER, 0), []):
        history.attempts.append(_attempt_row(spec, story, attempt_of, superseded=False))
    total = _Counts()
    lengths = [(Kind.MAP, i, ns, 0) for i, ns in enumerate(spec.map_ns)]
    lengths += [(Kind.REDUCE, i, spec.reduce_ns[i], keys) for i, keys in enumerate(spec.reduce_keys)]
    for kind, task, length_ns, keys_total in lengths:
        mine = by_task.get((kind, task), [])
        rows = _attempt_rows(spec, mine, attempt_of)
        history.attempts.extend(rows)
        history.images.extend(_image_rows(mine, finish_ns))
        counts = _count(rows, mine, finish_ns)
        total.add(counts)
        history.tasks.append(_task_row(spec, kind, task, length_ns, keys_total, rows, counts))
    state = end.state if end else JobState.NEW if submitted_ns is None else JobState.RUNNING
    history.jobs.append(
        JobRow(
            name=spec.name,
            queue=spec.queue,
            submit_ns=spec.submit_ns if spec.submit_when is None else submitted_ns or 0,
            start_ns=total.start_ns,
            finish_ns=finish_ns,
            deadline_ns=spec.facts.deadline_ns,
            state=state,
            attempts=total.attempts,
            suspensions=total.suspensions,
            kills=total.kills,
            useful_ns=total.useful_ns,
            lost_ns=total.lost_ns,
            busy_ns=sum(row.busy_ns for row in history.attempts),
            masters_busy_ns=sum(row.busy_ns for row in history.attempts if row.kind is Kind.APPLICATION_MASTER),
            overhead_ns=sum(row.overhead_ns for row in history.attempts),
            reason=end.reason if end else "",
            weight_ppm=spec.facts.weight_ppm,
        )
    )


def _attempt_rows(spec: JobSpec, stories: list[ContainerStory], attempt_of: Mapping[str, str]) -> list[AttemptRow]:
    """The attempts of one task.  If several succeeded, outputs were lost, and only the last one counts."""
    succeeded = [story.container for story in stories if story.outcome is Outcome.SUCCEEDED]
    return [_attempt_row(spec, story, attempt_of, story.container in succeeded[:-1]) for story in stories]


def _attempt_row(spec: JobSpec, story: ContainerStory, attempt_of: Mapping[str, str], superseded: bool) -> AttemptRow:
    start = story.start
    assert start is not None
    saved, is_reduce = start.saved, start.kind is Kind.REDUCE
    keys_start = saved.keys_done if saved else 0
    keys_done = story.keys_done
    if not is_reduce:
        keys_done = 0
    elif keys_done is not None:
        keys_done = max(keys_start, keys_done)  # a process that did not start has counted nothing
    works = start.kind is not Kind.APPLICATION_MASTER
    active_ns = story.running_ns(story.first_key_ns) if works else 0
    lost = story.outcome in LOST_OUTCOMES or superseded
    useful = story.outcome in (Outcome.SUCCEEDED, Outcome.CHECKPOINTED) and not superseded
    return AttemptRow(
        job=start.job,
        queue=spec.queue,
        kind=start.kind,
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
        keys_total=spec.reduce_keys[start.task] if is_reduce else 0,
        resumed_from=attempt_of.get(saved.past_containers[-1]) if saved else None,
        suspended_spans=story.suspended_spans,
        busy_ns=story.running_ns(story.launched_ns),
        active_ns=active_ns,
        useful_ns=active_ns if useful else 0,
        lost_ns=active_ns if lost else 0,
        swapped_bytes=story.swapped_bytes,
        paging_spans=story.paging_spans,
        overhead_ns=story.imaging_ns,
    )


def _image_rows(stories: list[ContainerStory], finish_ns: int | None) -> list[ImageRow]:
    """The images of one task; ``stories`` are in the order of time."""
    ends_ns = [story.ended_ns for story in stories if story.outcome is Outcome.SUCCEEDED]
    gone_ns = ends_ns[-1] if ends_ns else finish_ns
    rows = []
    for story in reversed(stories):
        image = story.image
        if image is None or story.ended_ns is None:
            continue
        restored = sum(_starts_from(other, story.container) for other in stories if other.launched_ns is not None)
        read_bytes = image.size_bytes * restored
        rows.append(ImageRow(story.container, story.node, image.bytes_written, read_bytes, story.ended_ns, gone_ns))
        if not image.is_incremental:
            gone_ns = story.ended_ns  # earlier images are of no more use
    return rows[::-1]


def _starts_from(story: ContainerStory, container: str) -> bool:
    saved = story.start.saved if story.start is not None else None
    return isinstance(saved, ProcessImage) and saved.past_containers[-1] == container


def _count(rows: list[AttemptRow], stories: list[ContainerStory], finish_ns: int | None) -> _Counts:
    return _Counts(
        attempts=len(rows),
        suspensions=sum(story.suspensions for story in stories),
        kills=sum(story.was_preempted_by_kill(finish_ns) for story in stories),
        useful_ns=sum(row.useful_ns for row in rows),
        lost_ns=sum(row.lost_ns for row in rows),
        starts_ns=[row.first_key_ns for row in rows if row.first_key_ns is not None],
    )


def _task_row(
    spec: JobSpec, kind: Kind, task: int, length_ns: int, keys_total: int, rows: list[AttemptRow], counts: _Counts
) -> TaskRow:
    ends_ns = [row.ended_ns for row in rows if row.outcome is Outcome.SUCCEEDED and row.ended_ns is not None]
    return TaskRow(
        job=spec.name,
        queue=spec.queue,
        kind=kind,
        task=task,
        outcome=rows[-1].outcome if rows else None,
        length_ns=length_ns,
        keys_total=keys_total,
        attempts=counts.attempts,
        suspensions=counts.suspensions,
        kills=counts.kills,
        start_ns=counts.start_ns,
        finish_ns=max(ends_ns, default=None),
        useful_ns=counts.useful_ns,
        lost_ns=counts.lost_ns,
    )

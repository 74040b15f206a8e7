"""All that the journal of a run tells, as tables of rows, made from what is known about every container."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from emulator.core.job import JobSpec
from emulator.core.messages import JobFinished, Outcome
from emulator.records.history.containers import ContainerStory, Operation
from emulator.records.history.decisions import Decision
from emulator.records.history.rows import AttemptRow, GroupRow, ImageRow, JobRow, TaskRow, WaitRow, group_rows
from emulator.vocabulary import MASTER, Frozen


class History(Frozen):
    """What happened in a run, under any engine; the only source of its summary and its Parquet files."""

    jobs: list[JobRow]
    """In the order of the workload."""
    tasks: list[TaskRow]
    """By job, maps before reduces, by number."""
    attempts: list[AttemptRow]
    """By job, ApplicationMaster, maps, reduces, by task and then time."""
    operations: list[Operation]
    """By job and container."""
    checkpoint_bytes: int = 0
    """Written by all checkpoints together."""
    swapped_bytes: int = 0
    """The bytes of all attempts that were swapped."""
    decisions: list[Decision] = msgspec.field(default_factory=list)
    """Choices of victims, by time."""
    images: list[ImageRow] = msgspec.field(default_factory=list)
    """By job and task, in the order in which they were written."""
    groups: list[GroupRow] = msgspec.field(default_factory=list)
    """The groups of jobs that have others than maps, reduces and programs, in their order."""
    waits: list[WaitRow] = msgspec.field(default_factory=list)
    """What schedulers have said of jobs that could not start, by time."""


def tables_by_job(
    jobs: Sequence[JobSpec],
    stories_of: Callable[[str], list[ContainerStory]],
    submitted: Mapping[str, int],
    finished: Mapping[str, JobFinished],
) -> Iterator[History]:
    """The tables of a run, job by job.  ``stories_of`` gives what is known about the containers of a job, in any
    order."""
    for spec in jobs:
        mine = sorted(stories_of(spec.name), key=partial(_order, _places(spec)))
        checkpoint_bytes = sum(story.checkpoint_bytes for story in mine)
        history = History([], [], [], [], checkpoint_bytes, sum(story.swapped_bytes for story in mine))
        _add_job(history, spec, mine, finished.get(spec.name), submitted.get(spec.name))
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
    rows = (history.jobs, history.tasks, history.attempts, history.operations)
    return *rows, history.decisions, history.images, history.groups, history.waits


def _places(spec: JobSpec) -> dict[str, int]:
    """The ApplicationMaster first, then the groups of the job in their order."""
    return {name: place for place, name in enumerate((MASTER, *(group.name for group in spec.facts.groups)))}


def _order(places: Mapping[str, int], story: ContainerStory) -> tuple[int, int, int, str]:
    start = story.start
    assert start is not None
    return places[start.group], start.task, start.ready_ns, story.container


def _add_job(
    history: History,
    spec: JobSpec,
    stories: list[ContainerStory],
    end: JobFinished | None,
    submitted_ns: int | None,
) -> None:
    finish_ns = end.finish_ns if end else None
    by_task: dict[tuple[str, int], list[ContainerStory]] = {}
    attempt_of: dict[str, str] = {}
    for story in stories:
        assert story.start is not None
        attempt_of[story.container] = story.start.attempt
        by_task.setdefault((story.start.group, story.start.task), []).append(story)
        history.operations.extend(story.operations(finish_ns))
    masters = by_task.pop((MASTER, 0), [])
    history.attempts.extend(AttemptRow.of(spec, story, attempt_of) for story in masters)
    for group, number in ((each, number) for each in spec.facts.groups for number in range(each.count)):
        mine = by_task.get((group.name, number), [])
        attempts = _attempts(spec, mine, attempt_of)
        history.attempts.extend(attempts)
        history.images.extend(ImageRow.of(mine, finish_ns))
        history.tasks.append(TaskRow.of(spec, group, number, attempts, mine, finish_ns))
    history.groups.extend(group_rows(spec, history.tasks))
    history.jobs.append(JobRow.of(spec, history.tasks, history.attempts, end, submitted_ns))


def _attempts(spec: JobSpec, stories: list[ContainerStory], attempt_of: Mapping[str, str]) -> list[AttemptRow]:
    """The attempts of one task.  If several succeeded, outputs were lost, and only the last one counts."""
    succeeded = [story.container for story in stories if story.outcome is Outcome.SUCCEEDED]
    superseded = {story.container for story in stories if story.was_lost} | {*succeeded[:-1]}
    return [AttemptRow.of(spec, story, attempt_of, story.container in superseded) for story in stories]

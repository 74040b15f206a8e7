"""What each eviction rule goes by, as one number a candidate: for the log of why somebody was chosen.

Policies do not use it: they may weigh ties, draws and more than one thing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from emulator.policies.job_selection import laxity_ns
from emulator.policies.views import JobView, TaskView

ViewT = TypeVar("ViewT", JobView, TaskView)

_UNKNOWN = 1 << 62


@dataclass(frozen=True, slots=True)
class Score(Generic[ViewT]):
    """The number a rule goes by."""

    name: str
    """What it is, unit last; times are kept in nanoseconds (``deadline_ns``)."""
    value: Callable[[ViewT, int], int | None]
    """Of a candidate, at an instant.  None (no deadline, no estimate yet) counts as more than any number."""
    largest_first: bool

    def key(self, view: ViewT, now_ns: int) -> int:
        """Sorts candidates: who goes first comes first."""
        value = self.value(view, now_ns)
        known = _UNKNOWN if value is None else value
        return -known if self.largest_first else known


def _containers(job: JobView, now_ns: int) -> int | None:
    return job.containers


def _remaining_ns(task: TaskView, now_ns: int) -> int | None:
    return task.remaining_ns


JOB_SCORES: dict[str, Score[JobView]] = {
    "mr": Score("containers", _containers, largest_first=True),
    "lr": Score("containers", _containers, largest_first=False),
    "pr": Score("containers", _containers, largest_first=True),
    "mdf": Score("deadline_ns", lambda job, now_ns: job.deadline_ns, largest_first=True),
    "mlf": Score("laxity_ns", laxity_ns, largest_first=True),
    "priority": Score("priority", lambda job, now_ns: job.priority, largest_first=False),
}
"""By the name of the job eviction.  PR draws a job with its containers as weight."""
TASK_SCORES: dict[str, Score[TaskView]] = {
    "srt": Score("remaining_ns", _remaining_ns, largest_first=False),
    "lrt": Score("remaining_ns", _remaining_ns, largest_first=True),
}
"""By the name of the task eviction.  *random* has none: the order it has drawn says it all."""

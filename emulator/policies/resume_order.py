"""Resume order: which of a job's suspended tasks resumes first."""

from __future__ import annotations

from emulator.policies.policy import Axis, Policy, ResumeOrder
from emulator.policies.views import ClusterView, SuspendedView

_NO_ESTIMATE_NS = 1 << 62


def suspended_first(view: ClusterView, suspended: tuple[SuspendedView, ...]) -> list[SuspendedView]:
    """The task that was suspended first resumes first."""
    return sorted(suspended, key=_suspension)


def longest_remaining_first(view: ClusterView, suspended: tuple[SuspendedView, ...]) -> list[SuspendedView]:
    """The task with the most remaining time resumes first: it decides when the job ends.

    A task without an estimate has only just begun, and counts as having the most remaining time.
    """
    return sorted(suspended, key=lambda task: (-_left_ns(task), *_suspension(task)))


def _left_ns(task: SuspendedView) -> int:
    return _NO_ESTIMATE_NS if task.remaining_ns is None else task.remaining_ns


def _suspension(task: SuspendedView) -> tuple[int, str, int]:
    return task.suspended_ns, task.group, task.task


RESUME_ORDER: Axis[Policy[ResumeOrder]] = Axis(
    "resume_order",
    (
        Policy("suspended-first", suspended_first, "natjam, section 3.2"),
        Policy("longest-remaining-first", longest_remaining_first, "ours; after natjam, Theorem 2.1"),
    ),
    Policy,
)

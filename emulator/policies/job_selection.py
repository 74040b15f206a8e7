"""Job selection: which job of a queue gets a freed container (natjam, section 4).

Each order has an eviction that takes from its other end (``emulator.policies.job_eviction``).  Equal jobs are ordered
by submission, so every order is total: two jobs can never take containers from each other in turn.
"""

from __future__ import annotations

from operator import attrgetter

from emulator.policies.policy import Axis, JobSelection, Policy, Reads
from emulator.policies.views import ClusterView, JobView

_NEVER_NS = 1 << 62
"""Deadline of a job without one: it comes last."""


def fifo(view: ClusterView, jobs: tuple[JobView, ...]) -> tuple[str, ...]:
    """First submitted, first served."""
    return tuple(job.name for job in sorted(jobs, key=by_order))


def priority(view: ClusterView, jobs: tuple[JobView, ...]) -> tuple[str, ...]:
    """The largest ``priority`` first; any number of levels."""
    return tuple(job.name for job in sorted(jobs, key=by_priority))


def earliest_deadline_first(view: ClusterView, jobs: tuple[JobView, ...]) -> tuple[str, ...]:
    """EDF: the earliest deadline first, jobs without one last."""
    return tuple(job.name for job in sorted(jobs, key=by_deadline))


def least_laxity_first(view: ClusterView, jobs: tuple[JobView, ...]) -> tuple[str, ...]:
    """LLF: the least laxity (deadline minus projected completion) first, jobs without a deadline last."""
    return tuple(job.name for job in sorted(jobs, key=lambda job: by_laxity(job, view.now_ns)))


def laxity_ns(job: JobView, now_ns: int) -> int | None:
    """Deadline minus projected completion; None for a job without a deadline.

    A job without progress so far counts as ending now, the earliest possible time.
    """
    if job.facts.deadline_ns is None:
        return None
    return job.facts.deadline_ns - now_ns - (job.remaining_ns or 0)


by_order = attrgetter("order")
"""Sorts jobs by submission."""


def by_priority(job: JobView) -> tuple[int, int]:
    """Sorts jobs by priority, the most urgent first."""
    return -job.facts.priority, job.order


def by_deadline(job: JobView) -> tuple[int, int]:
    """Sorts jobs by deadline."""
    deadline_ns = job.facts.deadline_ns
    return _NEVER_NS if deadline_ns is None else deadline_ns, job.order


def by_laxity(job: JobView, now_ns: int) -> tuple[int, int, int]:
    """Sorts jobs by laxity, then by deadline."""
    laxity = laxity_ns(job, now_ns)
    return _NEVER_NS if laxity is None else laxity, *by_deadline(job)


FIFO: Policy[JobSelection] = Policy("fifo", fifo, "natjam, section 3.1", sort_key=by_order)
PRIORITY: Policy[JobSelection] = Policy("priority", priority, "natjam, section 4", sort_key=by_priority)
EDF: Policy[JobSelection] = Policy("edf", earliest_deadline_first, "natjam, section 4", sort_key=by_deadline)
LLF: Policy[JobSelection] = Policy("llf", least_laxity_first, "natjam, section 4", reads=frozenset({Reads.PROGRESS}))

JOB_SELECTION: Axis[Policy[JobSelection]] = Axis("job_selection", (FIFO, PRIORITY, EDF, LLF), Policy)

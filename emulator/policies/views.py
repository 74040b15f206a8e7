"""The frozen snapshots policies decide from, and the shape of a policy on each axis.

A policy is a plain function of a view (and, where it draws, a ``random.Random`` that belongs to this one decision).
It reads no clock and does no I/O; times are emulated nanoseconds.  A policy that returns something else than its
Protocol says, or raises, ends the run with a message that names it.
"""

from __future__ import annotations

from random import Random
from typing import Protocol

from emulator.core.frozen import Frozen
from emulator.core.messages import MeasuredCosts


class QueueView(Frozen):
    """One queue as the allocation sees it; counts are containers."""

    name: str
    rank: int
    """0 is the most urgent queue."""
    capacity: int
    """Guaranteed containers."""
    maximum: int
    used: int
    """Held now, ApplicationMasters included."""
    pending: int
    """Asked for and not yet given."""


class AllocationDecision(Frozen):
    """Who may have containers."""

    order: tuple[str, ...]
    """Queues that may get the next container, best first."""
    reclaim: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """For each queue that may take containers back, the queues it may take them from.  One that may take from itself
    does so between its jobs, each only from those that come after it."""
    reclaims_a_run: int | None = None
    """Most containers to ask back between the jobs of a queue in a run of the Preemptor; None: all that are wanted."""
    resumes_first: bool = True
    """Whether the suspended reduces of a queue go before all that is new in it (natjam, section 3.2, R1), or only
    before the new reduces of their own job."""


class JobView(Frozen):
    """One job as job selection and job eviction see it."""

    name: str
    queue: str
    order: int
    """Place in the order of submission."""
    submit_ns: int
    containers: int
    """Held now, ApplicationMaster included, net of those already asked back: else two equal jobs would not share."""
    reclaimable: int
    """Reduces that can still be asked back."""
    pending: int
    deadline_ns: int | None
    """Absolute."""
    priority: int
    """Larger is more urgent."""
    progress_ppm: int | None = None
    """What its ApplicationMaster has last reported as done, in millionths; None where no policy in use reads it."""
    remaining_ns: int | None = None
    """Time to its end if it goes on at its mean rate of progress so far; None before it has reported any."""


class JobEvictionView(Frozen):
    """What is known when one container must be reclaimed: the jobs that have one to give (never empty)."""

    now_ns: int
    jobs: tuple[JobView, ...]
    costs: MeasuredCosts


class TaskView(Frozen):
    """One running reduce attempt as task eviction sees it."""

    task: int
    container: str
    node: str
    started_ns: int
    keys_done: int
    keys_total: int
    remaining_ns: int | None
    """Estimated time to its end; None where nothing has been observed yet."""


class TaskEvictionView(Frozen):
    """The running reduces of the victim job (never empty)."""

    now_ns: int
    job: str
    tasks: tuple[TaskView, ...]
    costs: MeasuredCosts


class AllocationPolicy(Protocol):
    """Which queue gets the next container, and who may take back from whom."""

    def __call__(self, queues: tuple[QueueView, ...], total: int) -> AllocationDecision: ...


class JobSelectionPolicy(Protocol):
    """Names of the jobs of one queue, the first to be served first."""

    def __call__(self, jobs: tuple[JobView, ...], now_ns: int) -> tuple[str, ...]: ...


class JobEvictionPolicy(Protocol):
    """Name of the victim job."""

    def __call__(self, view: JobEvictionView, random: Random) -> str: ...


class TaskEvictionPolicy(Protocol):
    """Containers of the victim job, the first to be evicted first."""

    def __call__(self, view: TaskEvictionView, random: Random) -> tuple[str, ...]: ...

"""What the scheduler of whole machines knows of a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from emulator.policies.kueue.model import Flavors, Workload
from emulator.policies.kueue.snapshot import Held
from emulator.policies.schedulers.protocol import Amounts, JobWaits, SchedulerDecision


@dataclass(slots=True)
class Job:
    """A workload, with what the cluster has told of its containers."""

    workload: Workload
    """All that it asks for."""
    is_endless: bool
    """Whether it does not end by itself."""
    minimum_runtime_ns: int
    starts_anew: bool
    """Whether all its work is lost when it is evicted, or it has no end that its work could bring nearer."""
    groups: dict[str, Amounts]
    """Of tasks, with what each asks for; the podsets, in their order."""
    waits: JobWaits | None = None
    """The containers that it waits for, if any."""
    is_queued: bool = False
    held: Held | None = None
    """Its quota, but for what stopped processes would keep."""
    flavors: Flavors = ()
    kept: Counter[tuple[int, str]] = field(default_factory=Counter)
    """By podset and resource: what its stopped processes keep, or would."""
    containers: dict[str, None] = field(default_factory=dict)
    """Those that run."""
    stopped: dict[str, str] = field(default_factory=dict)
    """Those that are stopped, and their groups."""
    why: str = ""
    """Why it was admitted."""
    takes: Callable[[str], SchedulerDecision] | None = None
    """It is evicted, and still has containers: what is said of one of them."""
    is_taken: bool = False
    """Whether that was said."""
    free_ns: int | None = None
    """When the quota of an evicted job will be free, whose last container is gone."""
    is_given_up: bool = False
    """Whether it can never be admitted: it waits on, as in Kueue, but without its job."""
    has_ended: bool = False

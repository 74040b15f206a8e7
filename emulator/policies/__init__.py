"""The choices on each axis of a scheduler, by the names an experiment file uses.

Each entry is a plain documented function on a frozen view (``emulator.policies.views``).  A user's own is named
``module:function`` in the experiment file and needs no entry here.
"""

from collections.abc import Callable, Mapping
from typing import Any

from emulator.policies.allocation import hard_cap, single_queue, soft_cap, two_queue
from emulator.policies.job_eviction import (
    least_resources,
    lowest_priority,
    maximum_deadline_first,
    maximum_laxity_first,
    most_resources,
    probabilistic_resources,
)
from emulator.policies.job_selection import (
    by_deadline,
    by_order,
    by_priority,
    earliest_deadline_first,
    fifo,
    least_laxity_first,
    priority,
)
from emulator.policies.task_eviction import longest_remaining_time, random_order, shortest_remaining_time
from emulator.policies.views import AllocationPolicy, JobEvictionPolicy, JobSelectionPolicy, JobView, TaskEvictionPolicy

ALLOCATION: dict[str, AllocationPolicy] = {
    "two-queue": two_queue,
    "single-queue": single_queue,
    "hard-cap": hard_cap,
    "soft-cap": soft_cap,
}
JOB_SELECTION: dict[str, JobSelectionPolicy] = {
    "fifo": fifo,
    "priority": priority,
    "edf": earliest_deadline_first,
    "llf": least_laxity_first,
}
JOB_EVICTION: dict[str, JobEvictionPolicy] = {
    "mr": most_resources,
    "lr": least_resources,
    "pr": probabilistic_resources,
    "priority": lowest_priority,
    "mdf": maximum_deadline_first,
    "mlf": maximum_laxity_first,
}
TASK_EVICTION: dict[str, TaskEvictionPolicy] = {
    "srt": shortest_remaining_time,
    "lrt": longest_remaining_time,
    "random": random_order,
}

DICTATED_SELECTION: dict[str, str] = {"priority": "priority", "mdf": "edf", "mlf": "llf"}
"""The one job selection that does not give a freed container back to the job it was taken from, for the job evictions
that go by an order of the jobs (natjam, section 4)."""


def rule_name(axis: Mapping[str, Callable[..., Any]], policy: Callable[..., Any]) -> str:
    """What an experiment file calls ``policy``: its name on ``axis``, of a user's own ``module:function``."""
    own = f"{getattr(policy, '__module__', '?')}:{getattr(policy, '__qualname__', repr(policy))}"
    return next((name for name, known in axis.items() if known is policy), own)


def selection_for(job_eviction: str) -> str:
    """``job_selection: auto``: what the job eviction dictates, else FIFO."""
    return DICTATED_SELECTION.get(job_eviction, "fifo")


FIXED_ORDERS: dict[str, Callable[[JobView], Any]] = {"fifo": by_order, "priority": by_priority, "edf": by_deadline}
"""What a job selection sorts by where the order of two jobs never changes."""

_READ_NO_PROGRESS = frozenset({"fifo", "priority", "edf", "mr", "lr", "pr", "mdf"})


def reads_progress(name: str) -> bool:
    """Whether the job selection or job eviction called ``name`` may look at the progress of jobs; a user's own may."""
    return name not in _READ_NO_PROGRESS


MECHANISMS: dict[str, str] = {
    "wait": "Nothing is preempted: urgent work waits for containers to come free.",
    "kill": "The victim is killed and starts again from nothing (or its last checkpoint).",
    "suspend": "SIGTSTP and SIGCONT: the process stays in memory on its node (os-assisted-preemption, section III).",
    "checkpoint": "The key in progress is finished, the key counter saved, the process exits (natjam, section 3.1).",
}
PLACEMENT: dict[str, str] = {
    "prefer-local": "A suspended reduce goes back to its old node where that has room, else after `delay_s` to any "
    "(natjam, section 3.1).",
}

"""All policies that there are, by axis."""

from __future__ import annotations

from typing import Any

from emulator.policies.allocation import ALLOCATION
from emulator.policies.fit import FIT
from emulator.policies.job_eviction import JOB_EVICTION
from emulator.policies.job_selection import FIFO, JOB_SELECTION
from emulator.policies.mechanism import MECHANISM
from emulator.policies.placement import PLACEMENT
from emulator.policies.policy import AllocationPolicy, Axis, JobEviction, JobSelection, Policy
from emulator.policies.resume_order import RESUME_ORDER
from emulator.policies.task_eviction import TASK_EVICTION

AXES: dict[str, Axis[Any]] = {
    axis.name: axis
    for axis in (ALLOCATION, JOB_SELECTION, JOB_EVICTION, TASK_EVICTION, MECHANISM, PLACEMENT, RESUME_ORDER, FIT)
}
AUTO = "auto"


def selection_for(eviction: Policy[JobEviction], allocation: AllocationPolicy | None = None) -> Policy[JobSelection]:
    """``job_selection: auto``: what the allocation dictates, else the job eviction, else FIFO."""
    return (allocation.dictates if allocation is not None else None) or eviction.dictates or FIFO

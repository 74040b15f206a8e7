"""FIFO as in the paper: in the order of arrival, with maxima and without minima (flex, section 4)."""

from __future__ import annotations

from collections.abc import Sequence

from emulator.policies.flex.demand import Demand


def fifo_shares(jobs: Sequence[Demand], slots: int) -> list[int]:
    """Slots by index: each job gets its maximum, in the order given, until no slots are left."""
    shares = []
    for job in jobs:
        shares.append(min(job.maximum, slots) if job.work_ns else 0)
        slots -= shares[-1]
    return shares

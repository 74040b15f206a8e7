"""What FLEX is held against: FIFO, and the allocation layer of the Hadoop Fair Scheduler (flex, sections 1 and 4)."""

from __future__ import annotations

from collections.abc import Sequence

from emulator.policies.flex.demand import Demand


def fifo_shares(jobs: Sequence[Demand], slots: int) -> list[int]:
    """FIFO as in the paper, with maxima and without minima.

    Slots by index: each job gets its maximum, in the order given, until no slots are left.
    """
    shares = []
    for job in jobs:
        shares.append(min(job.maximum, slots) if job.work_ns else 0)
        slots -= shares[-1]
    return shares


def fair_shares(jobs: Sequence[Demand], slots: int) -> list[int]:
    """FAIR: all jobs are raised to one common level, but none is below its minimum or above its maximum.

    Slots that do not raise the level for all go one by one, in the order given, to the jobs at that level.  Returns
    slots by index.

    Args:
        jobs: with ``normalised`` minima; jobs without work get no slots.
        slots: number of slots.
    """
    bounds = [(job.minimum, job.maximum) if job.work_ns else (0, 0) for job in jobs]

    def at(line: int) -> list[int]:
        return [max(minimum, min(line, maximum)) for minimum, maximum in bounds]

    low, high = 0, max((maximum for _, maximum in bounds), default=0)
    while low < high:  # find the highest level that the slots allow
        line = (low + high + 1) // 2
        low, high = (line, high) if sum(at(line)) <= slots else (low, line - 1)
    shares = at(low)
    left = slots - sum(shares)
    for index, (_, maximum) in enumerate(bounds):
        if left > 0 and shares[index] == low < maximum:
            shares[index] += 1
            left -= 1
    return shares

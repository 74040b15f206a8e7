"""FAIR: the allocation layer of the Hadoop Fair Scheduler (flex, section 1)."""

from __future__ import annotations

from collections.abc import Sequence

from emulator.policies.flex.demand import Demand


def fair_shares(jobs: Sequence[Demand], slots: int) -> list[int]:
    """Slots by index: all jobs are raised to one common level, but none is below its minimum or above its maximum.

    Slots that do not raise the level for all go one by one, in the order given, to the jobs at that level.

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

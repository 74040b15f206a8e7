"""What a scheduler of shares knows of a job: its remaining work, and the bounds of its share."""

from __future__ import annotations

from collections.abc import Sequence

from emulator.vocabulary import Frozen

NEVER_NS = 1 << 62
"""Later than any instant of a run: the end of a job without slots, and the deadline of a job without one."""


class Demand(Frozen):
    """The remaining work of one job; any number of slots between the two bounds share it evenly (flex, section 2.5)."""

    name: str
    work_ns: int
    """Slot-nanoseconds left, at least 0."""
    minimum: int
    """Slots it is guaranteed, at least 0."""
    maximum: int
    """Most slots it can use: ``maximum >= minimum`` once the minima are ``normalised``."""


def normalised(jobs: Sequence[Demand], slots: int) -> list[Demand]:
    """The jobs with minima that can be met: none above the job's maximum, and in total no more than ``slots``.

    If the total is too high, all minima are lowered in proportion.  Slots left by rounding go to the jobs that lost
    most by it; among equals, to the first (flex, sections 1 and 3.1).
    """
    minima = [max(0, min(job.minimum, job.maximum)) for job in jobs]
    total = sum(minima)
    if total > slots:
        shares = [divmod(minimum * max(slots, 0), total) for minimum in minima]
        minima = [whole for whole, _ in shares]
        most_taken = sorted(range(len(jobs)), key=lambda index: -shares[index][1])
        for index in most_taken[: max(slots, 0) - sum(minima)]:
            minima[index] += 1
    return [
        job if job.minimum == minimum else Demand(job.name, job.work_ns, minimum, job.maximum)
        for job, minimum in zip(jobs, minima, strict=True)
    ]

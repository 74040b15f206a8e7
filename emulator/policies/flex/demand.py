"""What a scheduler of shares knows of a job, and the Malleable Packing Scheme: from an order of jobs to a schedule
(flex, section 3.1, Fig. 3).

Every job holds its minimum.  The remaining slots go to the jobs in their order, each up to its maximum.  When a job
ends, its slots are dealt out again, so a share never shrinks before its job ends.  One pass over the order with one
heap of completions computes this: ``O(J log J)`` for J jobs, where the paper's pseudocode takes ``O(J^2)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

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


def completions(jobs: Sequence[Demand], order: Sequence[int], slots: int) -> list[int]:
    """When each job ends, in nanoseconds from now, by index; ``NEVER_NS`` for one that never gets a slot.

    Args:
        jobs: with ``normalised`` minima.
        order: indices of all jobs, in the order of service.
        slots: number of slots.
    """
    ends, since = [NEVER_NS] * len(jobs), [0] * len(jobs)
    shares = [job.minimum for job in jobs]
    maxima, left = [job.maximum for job in jobs], [job.work_ns for job in jobs]
    slack = slots - sum(shares)
    heap = [(-(-left[index] // (share or 1)), index) for index, share in enumerate(shares) if share or not left[index]]
    heapify(heap)
    position, count, now = 0, len(jobs), 0
    while True:
        while slack > 0 and position < count:
            index = order[position]
            share, room = shares[index], maxima[index] - shares[index]
            position += room <= slack or ends[index] != NEVER_NS
            room = slack if room > slack else room
            if room > 0 and ends[index] == NEVER_NS:
                left[index] -= share * (now - since[index])
                since[index] = now
                shares[index] = share = share + room
                slack -= room
                heappush(heap, (now - (-left[index] // share), index))
        while heap:
            now, index = heappop(heap)
            if ends[index] == NEVER_NS:  # else an old entry: its share grew since, and it has already ended
                break
        else:
            return ends
        ends[index], slack = now, slack + shares[index]
        shares[index] = 0


def first_shares(jobs: Sequence[Demand], order: Sequence[int], slots: int) -> list[int]:
    """Slots until the first job ends, by index."""
    shares = [job.minimum if job.work_ns else 0 for job in jobs]
    slack = slots - sum(shares)
    for index in order:
        if jobs[index].work_ns:
            more = min(slack, jobs[index].maximum - shares[index])
            shares[index] += more
            slack -= more
    return shares

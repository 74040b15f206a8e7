"""The Malleable Packing Scheme: from an order of jobs to a schedule (flex, section 3.1, Fig. 3).

Every job holds its minimum.  The remaining slots go to the jobs in their order, each up to its maximum.  When a job
ends, its slots are dealt out again, so a share never shrinks before its job ends.  One pass over the order with one
heap of completions computes this: ``O(J log J)`` for J jobs, where the paper's pseudocode takes ``O(J^2)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from emulator.policies.flex.demand import NEVER_NS, Demand


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

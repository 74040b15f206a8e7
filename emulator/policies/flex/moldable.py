"""The generic scheme: the best fixed share for every job, a separable resource allocation problem (flex, section 3.2).

``F_j(s_j)`` is the penalty of job j if it holds ``s_j`` slots until it ends.  The scheme minimises the sum or the
maximum of these penalties, with ``m_j <= s_j <= M_j`` and no more slots than there are.  The jobs are then packed in
the order of their ends under these shares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heapreplace

from emulator.policies.flex.demand import NEVER_NS, Demand
from emulator.policies.flex.penalties import Objective

Gain = Callable[[int, int], int]
"""What one more slot is worth to a job (given by index) that holds so many; it never rises with that number."""


def best_shares(jobs: Sequence[Demand], objective: Objective, slots: int) -> list[int]:
    """The optimal fixed shares, by index; the jobs' minima are ``normalised``.

    A sum of step functions needs dynamic programming.  All other penalties are convex.  The paper counts tardiness as
    not convex, but the maximum of 0 and a convex function is convex.
    """
    if objective.total and objective.stepped:
        return _by_dynamic_programming(jobs, objective, slots)

    if objective.linear:  # a job of work W and weight w gains w W / s - w W / (s + 1)
        worth = [job.work_ns * of_job.weight for job, of_job in zip(jobs, objective.penalties, strict=True)]
        return marginal(
            jobs, slots, lambda index, share: worth[index] // (share * (share + 1)) if share else worth[index] << 62
        )

    def at(index: int, share: int) -> int:
        return objective.penalties[index].at(ends_ns(jobs[index], share))

    if objective.total:
        return marginal(jobs, slots, lambda index, share: at(index, share) - at(index, share + 1))
    # Minimax: the paper's transformation.  For each job, sum the penalty over all shares up to the one it gets.  This
    # sum is convex because the penalty falls with the share, and its differences are the penalty itself.
    return marginal(jobs, slots, at)


def ends_ns(job: Demand, share: int) -> int:
    """When a job that holds a fixed share ends, in nanoseconds from now."""
    if not job.work_ns:
        return 0
    return -(-job.work_ns // share) if share else NEVER_NS


def marginal(jobs: Sequence[Demand], slots: int, gain: Gain) -> list[int]:
    """Deal slots one by one, each to the job that gains most by it: optimal for convex functions (Fox 1966).

    Many slots per job are first dealt in steps of a power of two.  Then the last step of each job is reclaimed and the
    step is halved: ``O(J log J log(S / J))`` (Frederickson and Johnson 1982; Hochbaum 1994).
    """
    shares = [job.minimum for job in jobs]
    slack = slots - sum(shares)
    step = 1 << max(0, (slack // (2 * len(jobs) or 1)).bit_length() - 1)
    while True:
        last = _deal(jobs, shares, slack, step, gain)
        if step == 1:
            return shares
        shares = [share - back for share, back in zip(shares, last, strict=True)]
        slack = slots - sum(shares)
        step //= 2


def _deal(jobs: Sequence[Demand], shares: list[int], slack: int, step: int, gain: Gain) -> list[int]:
    """Deal ``step`` slots at a time; returns how many each job was given last."""
    last = [0] * len(jobs)
    heap = [(-gain(index, share), index) for index, share in enumerate(shares) if share < jobs[index].maximum]
    heapify(heap)
    while heap and slack > 0:
        index = heap[0][1]
        last[index] = min(step, jobs[index].maximum - shares[index], slack)
        shares[index] += last[index]
        slack -= last[index]
        if shares[index] < jobs[index].maximum:
            heapreplace(heap, (-gain(index, shares[index]), index))
        else:
            heappop(heap)
    return last


def _by_dynamic_programming(jobs: Sequence[Demand], objective: Objective, slots: int) -> list[int]:
    """Add job after job; for each number of slots above the minima, keep the best penalty of the jobs so far."""
    slack = slots - sum(job.minimum for job in jobs)
    best = [0] * (slack + 1)
    chosen: list[list[int]] = []
    for index, job in enumerate(jobs):
        options = _options(job, objective, index, slack)
        row, picks = [], []
        for left in range(slack + 1):
            cost, extra = min((best[left - extra] + cost, extra) for extra, cost in options if extra <= left)
            row.append(cost)
            picks.append(extra)
        best = row
        chosen.append(picks)
    shares = [job.minimum for job in jobs]
    for index in reversed(range(len(jobs))):
        extra = chosen[index][slack]
        shares[index] += extra
        slack -= extra
    return shares


def _options(job: Demand, objective: Objective, index: int, slack: int) -> list[tuple[int, int]]:
    """Pairs of slots above the minimum and the resulting penalty; for step penalties, only the fewest for each step."""
    of_job = objective.penalties[index]
    most = min(job.maximum - job.minimum, slack)
    extras = set(range(most + 1))
    if of_job.steps:
        needed = {-(-job.work_ns // after) - job.minimum for after, _ in of_job.steps if after > 0}
        extras = {0, *(extra for extra in needed if 0 < extra <= most)}
    return [(extra, of_job.at(ends_ns(job, job.minimum + extra))) for extra in sorted(extras)]

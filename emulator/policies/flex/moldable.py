"""The generic scheme: the best fixed share for every job, a separable resource allocation problem (flex, section 3.2).

Minimise the sum, or the largest, of ``F_j(s_j)``, each job's penalty when it holds ``s_j`` slots to its end, with
``m_j <= s_j <= M_j`` and no more slots than there are.  The jobs are packed in the order in which they end then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heapreplace

from emulator.policies.flex.demand import NEVER_NS, Demand
from emulator.policies.flex.penalties import Objective

Gain = Callable[[int, int], int]
"""What one slot more is worth to a job (its index) that holds so many; never rises with them."""


def best_shares(jobs: Sequence[Demand], objective: Objective, slots: int) -> list[int]:
    """The optimal fixed shares, by index; the jobs' minima are ``normalised``.

    Sums of steps take dynamic programming.  All others are convex: the paper counts tardiness among those that are not,
    but the larger of 0 and a convex function is convex.
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
    # Minimax: the paper's transformation.  The sum of the penalties at all the shares a job has not stopped at is
    # convex because the penalty falls with the share, and its differences are the penalty itself.
    return marginal(jobs, slots, at)


def ends_ns(job: Demand, share: int) -> int:
    """When a job that holds a fixed share ends, from now."""
    if not job.work_ns:
        return 0
    return -(-job.work_ns // share) if share else NEVER_NS


def marginal(jobs: Sequence[Demand], slots: int, gain: Gain) -> list[int]:
    """Slots one by one to whom the next is worth most: optimal for convex functions (Fox 1966).

    Where there are many slots a job they are first dealt in steps of a power of two, the last one of each job is taken
    back, and the step is halved: ``O(J log J log(S / J))`` (Frederickson and Johnson 1982; Hochbaum 1994).
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
    """Deal ``step`` slots at a time; how many each job was given last."""
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
    """Best penalty of the first jobs for each number of slots over the minima, one job after the other."""
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
    """Slots over the minimum and the penalty they bring; of a job of steps only the fewest for each step."""
    of_job = objective.penalties[index]
    most = min(job.maximum - job.minimum, slack)
    extras = set(range(most + 1))
    if of_job.steps:
        needed = {-(-job.work_ns // after) - job.minimum for after, _ in of_job.steps if after > 0}
        extras = {0, *(extra for extra in needed if 0 < extra <= most)}
    return [(extra, of_job.at(ends_ns(job, job.minimum + extra))) for extra in sorted(extras)]

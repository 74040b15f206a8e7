"""Allocations that give every job a number of containers (flex, sections 1, 3 and 4).

FLEX is compared with FIFO and with the allocation layer of the Hadoop Fair Scheduler (sections 1 and 4).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from emulator.policies.flex.demand import NEVER_NS, Demand, normalised
from emulator.policies.flex.optimiser import plan
from emulator.policies.flex.penalties import Metric, Objective, penalty
from emulator.policies.views import ClusterView, JobView, ShareDecision
from emulator.vocabulary import Frozen


class Flex(Frozen):
    """Options of ``optimum``, and of ``flex``."""

    metric: Metric = Metric()
    """Metric of all jobs."""
    queues: dict[str, Metric] = msgspec.field(default_factory=dict)
    """A different metric for the jobs of a queue; ``metric`` decides whether the costs of all jobs are summed or their
    maximum is taken."""


class Searching(Flex):
    """Options of ``flex``."""

    search: bool = True
    """With up to 12 jobs: whether a search goes on from the best of the orders.  The search is ours; without it, FLEX
    is the paper's."""


DEFAULT = Flex()
SEARCHING = Searching()


def fifo_by_job(view: ClusterView) -> ShareDecision:
    """Each job gets its maximum in the order of submission, until no container is left; minima do not count."""
    jobs = tuple(view.jobs.values())
    return _decision(jobs, fifo_shares(demands(view, jobs), view.containers))


def fair(view: ClusterView) -> ShareDecision:
    """All jobs are raised to one common level, but none is below its minimum or above its maximum."""
    jobs = tuple(view.jobs.values())
    return _decision(jobs, fair_shares(normalised(demands(view, jobs), view.containers), view.containers))


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


def flex(view: ClusterView, options: Searching = SEARCHING) -> ShareDecision:
    """The shares of the schedule with the least cost under the metric, within the jobs' minima and maxima."""
    return _planned(view, options, optimal=False, search=options.search)


def optimum(view: ClusterView, options: Flex = DEFAULT) -> ShareDecision:
    """Like ``flex``, but the best of all orders, as a reference for it.  For up to ten jobs, all there at once."""
    return _planned(view, options, optimal=True, search=True)


def demands(view: ClusterView, jobs: Sequence[JobView]) -> list[Demand]:
    """The remaining work and the bounds of the jobs.  Jobs without a minimum of their own share the capacity of their
    queue as minimum.  A job with no finished task gets at least one container, so that its work can be estimated (flex,
    section 4.2)."""
    pools = {queue.name: queue.capacity for queue in view.queues}
    sharing = Counter(job.facts.queue for job in jobs if job.facts.min_containers is None)
    found = []
    for job in jobs:
        minimum, left_ns = job.facts.min_containers, job.work_left_ns
        if minimum is None:
            minimum = pools[job.facts.queue] // sharing[job.facts.queue]
        if job.work_guessed:
            minimum = max(1, minimum)
        most = min(job.facts.most_containers, job.containers + job.pending)
        found.append(Demand(job.name, NEVER_NS if left_ns is None else left_ns, minimum, most))
    return found


def objective(view: ClusterView, jobs: Sequence[JobView], options: Flex) -> Objective:
    """Cost of the ends of the jobs."""
    penalties, containers, alone_ns = [], view.containers, 0
    for job in jobs:
        metric = options.queues.get(job.facts.queue, options.metric)
        if metric.name == "stretch":  # no other metric reads it, and it takes a sixth of the time
            alone_ns = (job.work_ns or 0) // max(1, min(job.facts.most_containers, containers))
        penalties.append(penalty(metric, job.facts, job.submit_ns, alone_ns, view.now_ns))
    return Objective(penalties, options.metric.total)


def _planned(view: ClusterView, options: Flex, optimal: bool, search: bool) -> ShareDecision:
    jobs = tuple(view.jobs.values())
    found = plan(demands(view, jobs), objective(view, jobs, options), view.containers, optimal, search)
    return _decision(jobs, found.shares)


def _decision(jobs: Sequence[JobView], shares: Sequence[int]) -> ShareDecision:
    return ShareDecision(tuple((job.name, share) for job, share in zip(jobs, shares, strict=True)))

"""Allocations by queues (natjam, sections 3.1, 4 and 5; Hadoop's capacity scheduler)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cmp_to_key
from operator import attrgetter

from emulator.policies.policy import AllocationPolicy, Maximum, QueueRules, TakesBack
from emulator.policies.views import AllocationDecision, ClusterView, QueueView


def two_queue(view: ClusterView) -> AllocationDecision:
    """The more urgent queue is served first, up to its maximum.  It may reclaim from all less urgent queues, whatever
    their capacity.

    The paper has two queues; here there may be any number.  The first in the file is the most urgent.
    """
    ordered = sorted(view.queues, key=attrgetter("rank"))
    growing = [queue for queue in ordered if queue.used < queue.maximum]
    names = [queue.name for queue in ordered]
    reclaim = tuple([(queue.name, tuple(names[:at:-1])) for at, queue in enumerate(ordered[:-1]) if queue in growing])
    return AllocationDecision(tuple([queue.name for queue in growing]), reclaim)


def single_queue(view: ClusterView) -> AllocationDecision:
    """Natjam-R: one queue in the order of the job selection; its jobs take containers from the jobs after them.

    There may be any number of priorities.  The Preemptor asks for one container in each of its runs.
    """
    (queue,) = view.queues
    return AllocationDecision(
        (queue.name,), ((queue.name, (queue.name,)),), most_reclaims_in_a_run=1, resumes_first=False
    )


def hard_cap(view: ClusterView) -> AllocationDecision:
    """No queue ever holds more than its capacity; nothing is preempted."""
    return AllocationDecision(most_underserved(queue for queue in view.queues if queue.used < queue.capacity))


def soft_cap(view: ClusterView) -> AllocationDecision:
    """A queue may grow into unused capacity up to its maximum; it shrinks only when its tasks end.

    The most underserved queue (least used / capacity) goes first.
    """
    return AllocationDecision(most_underserved(queue for queue in view.queues if queue.used < queue.maximum))


TWO_QUEUE = AllocationPolicy(
    "two-queue", two_queue, "natjam, section 3", queues=QueueRules(fewest=2, least_urgent_takes=False)
)
SINGLE_QUEUE = AllocationPolicy("single-queue", single_queue, "natjam, section 4", queues=QueueRules(most=1))
HARD_CAP = AllocationPolicy(
    "hard-cap",
    hard_cap,
    "natjam, section 5",
    takes_back=TakesBack.NEVER,
    queues=QueueRules(maximum=Maximum.CAPACITY),
)
SOFT_CAP = AllocationPolicy("soft-cap", soft_cap, "natjam, section 5", takes_back=TakesBack.NEVER)
BY_QUEUES = (TWO_QUEUE, SINGLE_QUEUE, HARD_CAP, SOFT_CAP)


def most_underserved(queues: Iterable[QueueView]) -> tuple[str, ...]:
    """Names of the queues, the least used / capacity first; queues without capacity come last."""

    def compare(a: QueueView, b: QueueView) -> int:
        # Compares used_a / capacity_a with used_b / capacity_b in whole numbers.
        left, right = a.used * b.capacity, b.used * a.capacity
        if a.capacity == 0 or b.capacity == 0:
            left, right = int(a.capacity == 0), int(b.capacity == 0)
        return (left > right) - (left < right) or (a.rank - b.rank)

    return tuple(queue.name for queue in sorted(queues, key=cmp_to_key(compare)))

"""Allocation: containers each queue may hold (natjam, sections 3.1 and 5; Hadoop's capacity scheduler)."""

from __future__ import annotations

from functools import cmp_to_key

from emulator.policies.views import AllocationDecision, QueueView


def two_queue(queues: tuple[QueueView, ...], total: int) -> AllocationDecision:
    """Preemptive two-queue: the urgent queue is served first, up to its maximum, and may reclaim from less urgent ones.

    It may do so whatever the others' capacity says.  Source: natjam, section 3.
    """
    ordered = sorted(queues, key=lambda queue: queue.rank)
    order = tuple(queue.name for queue in ordered if queue.used < queue.maximum)
    reclaim = tuple(
        (queue.name, tuple(other.name for other in reversed(ordered) if other.rank > queue.rank))
        for queue in ordered[:-1]
        if queue.used < queue.maximum
    )
    return AllocationDecision(order, reclaim)


def single_queue(queues: tuple[QueueView, ...], total: int) -> AllocationDecision:
    """Natjam-R: one queue in the order of the job selection, whose jobs take containers from those after them.

    Any number of priorities.  One container is asked back a run of the Preemptor.  Source: natjam, section 4.
    """
    (queue,) = queues
    return AllocationDecision((queue.name,), ((queue.name, (queue.name,)),), reclaims_a_run=1, resumes_first=False)


def hard_cap(queues: tuple[QueueView, ...], total: int) -> AllocationDecision:
    """Hard cap: no queue ever holds more than its capacity; nothing is preempted.  Source: natjam, section 5."""
    return AllocationDecision(_most_underserved(tuple(queue for queue in queues if queue.used < queue.capacity)))


def soft_cap(queues: tuple[QueueView, ...], total: int) -> AllocationDecision:
    """Soft cap: a queue may grow into unused room up to its maximum; it shrinks only as its tasks end.

    The most underserved queue (least used / capacity) goes first.  Source: natjam, section 5.
    """
    return AllocationDecision(_most_underserved(tuple(queue for queue in queues if queue.used < queue.maximum)))


def _most_underserved(queues: tuple[QueueView, ...]) -> tuple[str, ...]:
    def compare(a: QueueView, b: QueueView) -> int:
        # used_a / capacity_a against used_b / capacity_b in whole numbers; a queue without capacity comes last.
        left, right = a.used * b.capacity, b.used * a.capacity
        if a.capacity == 0 or b.capacity == 0:
            left, right = int(a.capacity == 0), int(b.capacity == 0)
        return (left > right) - (left < right) or (a.rank - b.rank)

    return tuple(queue.name for queue in sorted(queues, key=cmp_to_key(compare)))

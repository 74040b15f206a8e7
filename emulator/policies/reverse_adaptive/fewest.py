"""The largest number of jobs that can meet their deadlines (Moore and Hodgson, with a capacity that changes).

Theory of operation.  Jobs are added one by one, the earliest deadline first.  When the added work is more than the
capacity until a deadline, the largest job so far is dropped.  If time is measured as the work that the capacity can do,
this is one machine of constant speed, and there Moore's algorithm gives the fewest late jobs.  It assumes that a job
can use any number of containers.  A job that cannot meet its deadline even with all containers it can use is dropped
first.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from emulator.policies.capacity import Capacity
from emulator.policies.reverse_adaptive.fitting import Goal


def kept_goals(goals: Sequence[Goal], capacity: Capacity, now_ns: int) -> set[int]:
    """Indices of the jobs chosen to meet their deadlines."""
    heap: list[tuple[int, int]] = []
    taken_ns = 0
    for index in sorted(range(len(goals)), key=lambda index: goals[index].deadline_ns):
        goal = goals[index]
        if goal.work_ns > goal.most * (goal.deadline_ns - now_ns):
            continue
        heappush(heap, (-goal.work_ns, index))
        taken_ns += goal.work_ns
        if taken_ns > capacity.between(now_ns, goal.deadline_ns):
            taken_ns += heappop(heap)[0]
    return {index for _, index in heap}

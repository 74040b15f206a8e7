"""The most jobs that can meet their deadlines (Moore and Hodgson, on a capacity that changes).

Theory of operation.  With the earliest deadline first, jobs are taken in one by one; where the work taken in is more
than the capacity until a deadline has room for, the largest job so far is given up.  Measured in the work that the
capacity does until then, deadlines are those of one machine of constant speed, for which Moore's algorithm gives the
fewest late jobs.  It takes jobs to be able to use any number of containers; one that could not meet its deadline with
all it can use is given up first.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from emulator.core.capacity import Capacity
from emulator.policies.reverse_adaptive.fitting import Goal


def kept_goals(goals: Sequence[Goal], capacity: Capacity, now_ns: int) -> set[int]:
    """Indices of the jobs that are to meet their deadlines."""
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

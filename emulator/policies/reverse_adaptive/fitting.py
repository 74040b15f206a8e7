"""Fitting work backwards from the deadlines (reverse-adaptive, section IV-B, Algorithm 1).

Theory of operation.  The deadlines divide time into periods.  The algorithm goes back from the last period.  Into each
period it fits work of the jobs whose deadline is at or after the end of the period, the latest deadline first, as far
as the forecast capacity allows.  Work that does not fit is carried to the period before.  Work left at the start cannot
wait.  All numbers are whole container-nanoseconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from emulator.core.capacity import Capacity
from emulator.vocabulary import Frozen


class Goal(Frozen):
    """The remaining work of a job, and its deadline."""

    deadline_ns: int
    work_ns: int
    """Remaining, container-nanoseconds."""
    most: int
    """Most containers that it can use at a time."""

    def can_be_met(self, now_ns: int, capacity: Capacity | None = None) -> bool:
        """Whether the job alone could meet it, with all containers it can use and all of ``capacity``."""
        until_ns = self.deadline_ns - now_ns
        if until_ns < 0 or self.work_ns > self.most * until_ns:
            return False
        return capacity is None or self.work_ns <= capacity.between(now_ns, self.deadline_ns)


class Period(Frozen):
    """The work fitted between two deadlines: what the paper draws in Fig. 3."""

    start_ns: int
    end_ns: int
    fitted_ns: tuple[tuple[int, int], ...]
    """Pairs: index of a goal, and container-nanoseconds of its work."""


def left_over(goals: Sequence[Goal], capacity: Capacity, start_ns: int) -> list[int]:
    """Work of each goal that does not fit, beside the others, between ``start_ns`` and its deadline."""
    return fitted(goals, capacity, start_ns)[0]


def fitted(goals: Sequence[Goal], capacity: Capacity, start_ns: int) -> tuple[list[int], list[Period]]:
    """``left_over``, and the periods, the last first.

    Among equal deadlines, the last goal is fitted first, so work that cannot wait belongs to the first goals.
    """
    left = [goal.work_ns for goal in goals]
    deadlines_ns = [goal.deadline_ns for goal in goals]
    latest_first = sorted(range(len(goals)), key=deadlines_ns.__getitem__)[::-1]
    waiting: deque[int] = deque()
    periods: list[Period] = []
    end_ns = max(deadlines_ns, default=start_ns)
    until_end_ns = capacity.until(end_ns) if goals else 0
    for place, index in enumerate(latest_first):
        if end_ns <= start_ns:
            break
        if left[index]:
            waiting.append(index)
        following_ns = deadlines_ns[latest_first[place + 1]] if place + 1 < len(goals) else start_ns
        begin_ns = following_ns if following_ns > start_ns else start_ns
        if begin_ns == end_ns:
            continue
        until_begin_ns = capacity.until(begin_ns)
        if waiting:
            done = _fit(goals, left, waiting, until_end_ns - until_begin_ns, end_ns - begin_ns)
            periods.append(Period(begin_ns, end_ns, done))
        end_ns, until_end_ns = begin_ns, until_begin_ns
    return left, periods


def _fit(
    goals: Sequence[Goal], left: list[int], waiting: deque[int], room_ns: int, length_ns: int
) -> tuple[tuple[int, int], ...]:
    """Fill one period; goals of ``waiting`` with work left stay in it, in their order."""
    done: list[tuple[int, int]] = []
    kept: list[int] = []
    while waiting and room_ns > 0:
        index = waiting.popleft()
        took_ns = min(left[index], room_ns, goals[index].most * length_ns)
        room_ns -= took_ns
        left[index] -= took_ns
        done.append((index, took_ns))
        if left[index]:
            kept.append(index)
    waiting.extendleft(reversed(kept))
    return tuple(done)

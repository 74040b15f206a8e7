"""Fitting work backwards from the deadlines (reverse-adaptive, section IV-B, Algorithm 1).

Theory of operation.  The deadlines divide time into periods.  The algorithm goes back from the last period.  Into each
period it fits work of the jobs whose deadline is at or after the end of the period, the latest deadline first, as far
as the forecast capacity allows.  Work that does not fit is carried to the period before.  Work left at the start cannot
wait.  All numbers are whole container-nanoseconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from emulator.policies.capacity import Capacity
from emulator.vocabulary import Frozen


class Goal(Frozen):
    """The remaining work of a job, and its deadline."""

    deadline_ns: int
    work_ns: int
    """Remaining, container-nanoseconds."""
    most: int
    """Most containers that it can use at a time."""
    spare_ns: int = 0
    """The job is not late before so long after ``deadline_ns``."""


class Period(Frozen):
    """The work fitted between two deadlines: what the paper draws in Fig. 3."""

    start_ns: int
    end_ns: int
    fitted_ns: tuple[tuple[int, int], ...]
    """Pairs: index of a goal, and container-nanoseconds of its work."""


def chances(goals: Sequence[Goal], now_ns: int, capacity: Capacity | None = None) -> list[bool]:
    """Whether each job alone could be in time, with all containers it can use and all of ``capacity``."""
    past_ns = 0 if capacity is None else capacity.until(now_ns)
    found = []
    for goal in goals:
        end_ns, work_ns = goal.deadline_ns + goal.spare_ns, goal.work_ns
        chance = end_ns >= now_ns and work_ns <= goal.most * (end_ns - now_ns)
        found.append(chance and (capacity is None or work_ns <= capacity.until(end_ns) - past_ns))
    return found


def left_over(goals: Sequence[Goal], capacity: Capacity, start_ns: int) -> list[int]:
    """Work of each goal that does not fit, beside the others, between ``start_ns`` and its deadline."""
    left = [goal.work_ns for goal in goals]
    for _ in _periods(goals, left, capacity, start_ns):
        pass
    return left


def fitted(goals: Sequence[Goal], capacity: Capacity, start_ns: int) -> tuple[list[int], list[Period]]:
    """``left_over``, and the periods, the last first.

    Among equal deadlines, the last goal is fitted first, so work that cannot wait belongs to the first goals.
    """
    left = [goal.work_ns for goal in goals]
    periods = [Period(begin, end, tuple(done)) for begin, end, done in _periods(goals, left, capacity, start_ns)]
    return left, periods


def _periods(
    goals: Sequence[Goal], left: list[int], capacity: Capacity, start_ns: int
) -> Iterator[tuple[int, int, list[tuple[int, int]]]]:
    """Take what fits off ``left``: begin and end of each period, the last first, and what it has taken."""
    deadlines_ns = [goal.deadline_ns for goal in goals]
    latest_first = sorted(range(len(goals)), key=deadlines_ns.__getitem__)[::-1]
    begins_ns = [*(deadlines_ns[index] for index in latest_first[1:]), start_ns]
    most = [goal.most for goal in goals]
    waiting: deque[int] = deque()
    end_ns = max(deadlines_ns, default=start_ns)
    until_end_ns = capacity.until(end_ns) if goals else 0
    for index, begin_ns in zip(latest_first, begins_ns, strict=False):
        if end_ns <= start_ns:
            return
        if left[index]:
            waiting.append(index)
        begin_ns = begin_ns if begin_ns > start_ns else start_ns
        if begin_ns == end_ns:
            continue
        until_begin_ns = capacity.until(begin_ns)
        if waiting:
            done = _fit(most, left, waiting, until_end_ns - until_begin_ns, end_ns - begin_ns)
            yield begin_ns, end_ns, done
        end_ns, until_end_ns = begin_ns, until_begin_ns


def _fit(
    most: Sequence[int], left: list[int], waiting: deque[int], room_ns: int, length_ns: int
) -> list[tuple[int, int]]:
    """Fill one period; goals of ``waiting`` with work left stay in it, in their order."""
    done: list[tuple[int, int]] = []
    kept: list[int] = []
    while waiting and room_ns > 0:
        index = waiting[0]
        work_ns, took_ns = left[index], most[index] * length_ns
        if took_ns > work_ns:
            took_ns = work_ns
        if took_ns > room_ns:
            took_ns = room_ns
        room_ns -= took_ns
        left[index] = work_ns - took_ns
        done.append((index, took_ns))
        if took_ns == work_ns:
            waiting.popleft()
        elif room_ns:
            kept.append(waiting.popleft())
    if kept:
        waiting.extendleft(reversed(kept))
    return done

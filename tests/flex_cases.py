"""Small sets of jobs for the optimiser of shares, and their optimum from independent code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

import numpy
from hypothesis import strategies as st
from scipy.optimize import linprog

from emulator.policies.flex.demand import Demand, normalised
from emulator.policies.flex.penalties import Objective, Penalty
from emulator.vocabulary import SECOND_NS


def jobs_of(*rows: tuple[int, int, int]) -> list[Demand]:
    """Jobs of (slot-seconds, minimum, maximum)."""
    return [Demand(f"job-{index}", work * SECOND_NS, *bounds) for index, (work, *bounds) in enumerate(rows)]


def lines(rows: Sequence[tuple[int, int]], early: bool, total: bool) -> Objective:
    """Penalties of (weight, due in seconds)."""
    return Objective([Penalty(due * SECOND_NS, weight, early) for weight, due in rows], total)


def steps(rows: Sequence[tuple[int, int]]) -> Objective:
    """The sum of the weights of late jobs, from pairs (weight, deadline in seconds)."""
    return Objective([Penalty(weight=0, steps=((due * SECOND_NS, weight),)) for weight, due in rows], True)


@st.composite
def demands(draw: st.DrawFn, most: int, slots: int, bound: bool = True, least_work_s: int = 0) -> list[Demand]:
    """Up to ``most`` jobs for ``slots``; if not ``bound``, no job has a maximum."""
    job = st.tuples(st.integers(least_work_s, 60), st.integers(0, slots), st.integers(1, slots))
    rows = draw(st.lists(job, min_size=1, max_size=most))
    return normalised(jobs_of(*((work, low, high if bound else slots) for work, low, high in rows)), slots)


def malleable_optimum(jobs: Sequence[Demand], objective: Objective, slots: int) -> float:
    """The least cost of any schedule, whose shares may change at any time: one linear program per order of the ends.

    For sums and maxima of linear penalties and of tardiness; seconds times weight.
    """
    return min(_cost_of_ends_in(order, jobs, objective, slots) for order in permutations(range(len(jobs))))


def _cost_of_ends_in(order: Sequence[int], jobs: Sequence[Demand], objective: Objective, slots: int) -> float:
    """Variables: the length of each interval between ends, the work of each job in each interval, each job's cost, and
    the largest cost."""
    n = len(jobs)
    count = n + n * n + n + 1
    rows: list[tuple[list[tuple[int, float]], float]] = []
    equal: list[tuple[list[tuple[int, float]], float]] = []
    for place in range(n):
        rows.append(([*((n + n * job + place, 1) for job in range(n)), (place, -slots)], 0))
    for at, job in enumerate(order):
        done = [(n + n * job + place, 1.0) for place in range(at + 1)]
        equal.append((done, jobs[job].work_ns / SECOND_NS))
        equal.extend(([(n + n * job + place, 1.0)], 0.0) for place in range(at + 1, n))
        for place in range(at + 1):
            rows.append(([(n + n * job + place, 1), (place, -jobs[job].maximum)], 0))
            rows.append(([(n + n * job + place, -1), (place, jobs[job].minimum)], 0))
        of_job, cost = objective.penalties[job], n + n * n + job
        end = [(place, float(of_job.weight)) for place in range(at + 1)]
        rows.append(([*end, (cost, -1.0)], of_job.weight * of_job.due_ns / SECOND_NS))
        rows.append(([(cost, 1.0), (count - 1, -1.0)], 0))
    bounds = [(0, None)] * (n + n * n) + [(None if p.early else 0, None) for p in objective.penalties] + [(None, None)]
    goal = numpy.zeros(count)
    if objective.total:
        goal[n + n * n : count - 1] = 1
    else:
        goal[-1] = 1
    found = linprog(goal, *_matrix(rows, count), *_matrix(equal, count), bounds=bounds)
    return float(found.fun) if found.success else float("inf")


def _matrix(rows: Sequence[tuple[list[tuple[int, float]], float]], count: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    matrix = numpy.zeros((len(rows), count))
    for row, (terms, _) in enumerate(rows):
        for column, factor in terms:
            matrix[row, column] += factor
    return matrix, numpy.array([limit for _, limit in rows])


def all_orders(jobs: Sequence[Demand]) -> Iterator[tuple[int, ...]]:
    """All orders of the jobs."""
    return permutations(range(len(jobs)))

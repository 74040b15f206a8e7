"""How much work jobs offer to a cluster, and the task counts for a given amount of work.

The demand of a job is what it would hold on a cluster of unlimited size: its ApplicationMaster from submission to the
job's end, its maps from submission, its reduces from the end of its last map, each for its length.  Launch costs and
slow start are not included.

``load: L`` (natjam, section 6: "different scaling factors for the production and research traces") scales the number
of tasks of every job by a factor.  The result is rounded.  It is at least one for each kind of task that the job has,
and at most as many as run at once beside its ApplicationMaster (the cluster's containers minus one).  If there are jobs
of both queues, production and research:

- production's factor is the largest one with which production's *peak* demand fits the cluster;
- research's factor is the smallest one with which all work *offered*, divided by what the cluster can do in the window,
  is at least L.

Otherwise there is one factor for all jobs, the smallest one with which the work offered is at least L.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from emulator.errors import ConfigError
from emulator.vocabulary import counted
from workloads.record import WorkloadTask

_LEAST_FACTOR, _MAX_FACTOR = 1e-9, 1e6
_STEPS = 100
"""Most steps of each bisection, more than enough for the precision of a double."""


@dataclass(frozen=True, slots=True)
class Group:
    """The maps, or the reduces, of a job: ``count`` tasks, cycled from ``pattern`` if that is shorter."""

    pattern: tuple[WorkloadTask, ...]
    count: int

    def scaled(self, factor: float, most: int) -> int:
        """Number of tasks under a factor."""
        return 0 if not self.count else max(1, min(most, round(self.count * factor)))

    def tasks(self, count: int) -> tuple[WorkloadTask, ...]:
        """``count`` tasks with the lengths of this group: the group itself, or its quantiles."""
        if len(self.pattern) == 1:
            return self.pattern * count
        if count == self.count == len(self.pattern):
            return self.pattern
        by_length = sorted(self.pattern, key=lambda task: task.length_ns)
        return tuple(by_length[int((number + 0.5) * len(by_length) / count)] for number in range(count))

    def lengths_ns(self, count: int) -> list[tuple[int, int]]:
        """Lengths of the tasks that ``tasks`` would give, each with the number of such tasks."""
        if len(self.pattern) == 1:
            return [(self.pattern[0].length_ns, count)] if count else []
        return [(task.length_ns, 1) for task in self.tasks(count)]


@dataclass(frozen=True, slots=True)
class Demand:
    """The part of a job that decides its demand."""

    submit_ns: int
    maps: Group
    reduces: Group

    def scaled(self, factor: float, most: int) -> list[tuple[int, int, int]]:
        """Containers held under a factor: start, end and number for each group of equal tasks, the master's first."""
        maps = self.maps.lengths_ns(self.maps.scaled(factor, most))
        reduces = self.reduces.lengths_ns(self.reduces.scaled(factor, most))
        mapped_ns = self.submit_ns + max((length for length, _ in maps), default=0)
        end_ns = mapped_ns + max((length for length, _ in reduces), default=0)
        return [
            (self.submit_ns, end_ns, 1),
            *((self.submit_ns, self.submit_ns + length, count) for length, count in maps),
            *((mapped_ns, mapped_ns + length, count) for length, count in reduces),
        ]


def offered_ns(demands: Sequence[Demand], factor: float, most: int) -> int:
    """Container time that the jobs demand under a factor."""
    return sum((end - start) * count for demand in demands for start, end, count in demand.scaled(factor, most))


def peak(demands: Sequence[Demand], factor: float, most: int) -> int:
    """Most containers that the jobs hold at once on a cluster of unlimited size."""
    spans = [span for demand in demands for span in demand.scaled(factor, most)]
    if not spans:
        return 0
    starts, ends, counts = (np.array(column, np.int64) for column in zip(*spans, strict=True))
    times = np.concatenate([ends, starts])  # ends first: a container can be taken at the instant it is freed
    changes = np.concatenate([-counts, counts])
    return int(np.cumsum(changes[np.argsort(times, kind="stable")]).max())


@dataclass(frozen=True, slots=True)
class Factors:
    """The result of ``load``."""

    production: float
    research: float
    offered: float
    """Work offered in the window, as a multiple of what the cluster can do."""
    production_peak: int
    """In containers; of all jobs if there is one factor."""


def find_factors(
    production: Sequence[Demand], research: Sequence[Demand], load: float, containers: int, span_ns: int
) -> Factors:
    """The factors for a load; if one of the queues has no jobs, both have the same factor.

    Raises:
        ConfigError: no factor gives this load.
    """
    most, wanted_ns = max(1, containers - 1), load * containers * span_ns

    if not production or not research:
        jobs = [*production, *research]
        factor = _smallest(lambda f: offered_ns(jobs, f, most) >= wanted_ns, load)
        offered = offered_ns(jobs, factor, most) / (containers * span_ns)
        return Factors(factor, factor, offered, peak(jobs, factor, most))

    def overloads(factor: float) -> bool:
        return peak(production, factor, most) > containers

    if overloads(_LEAST_FACTOR):
        least = peak(production, _LEAST_FACTOR, most)
        raise ConfigError(
            f"load: with one task of each kind in a job, production's peak is {counted(least, 'container')}, and"
            f" the cluster has {containers}; lower production_fraction or choose another window_s"
        )
    first = _largest(lambda f: not overloads(f))
    given_ns = offered_ns(production, first, most)
    second = _smallest(lambda f: given_ns + offered_ns(research, f, most) >= wanted_ns, load)
    offered = (given_ns + offered_ns(research, second, most)) / (containers * span_ns)
    return Factors(first, second, offered, peak(production, first, most))


def _largest(holds: Callable[[float], bool]) -> float:
    """The largest factor for which ``holds`` is true; it is then true for all smaller ones."""
    return _MAX_FACTOR if holds(_MAX_FACTOR) else _bisected(holds)[0]


def _smallest(holds: Callable[[float], bool], load: float) -> float:
    """The smallest factor for which ``holds`` is true; it is then true for all larger ones."""
    if not holds(_MAX_FACTOR):
        raise ConfigError(f"load: the jobs of the window cannot offer {load:g}; lower it, or choose another window_s")
    if holds(_LEAST_FACTOR):
        return _LEAST_FACTOR
    return _bisected(lambda factor: not holds(factor))[1]


def _bisected(holds: Callable[[float], bool]) -> tuple[float, float]:
    """Two neighbouring factors: ``holds`` is true for the first and all smaller ones, and false for the second."""
    low, high = _LEAST_FACTOR, _MAX_FACTOR
    for _ in range(_STEPS):
        middle = (low * high) ** 0.5
        if middle in (low, high):
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high


def alone_ns(
    maps_ns: Sequence[int],
    reduces_ns: Sequence[int],
    containers: int,
    schedule_ns: int,
    task_schedule_ns: int | None = None,
) -> int:
    """Estimate of a job's time alone on an empty cluster (natjam, section 7: its clean compute time).

    The ApplicationMaster is launched; then the maps run on the other containers, each on the first free one; then the
    reduces.  Every launch takes ``schedule_ns``, or ``task_schedule_ns`` for a task if that is given.
    """
    of_task_ns = schedule_ns if task_schedule_ns is None else task_schedule_ns
    return schedule_ns + sum(_makespan_ns(lengths, containers - 1, of_task_ns) for lengths in (maps_ns, reduces_ns))


def _makespan_ns(lengths_ns: Sequence[int], containers: int, schedule_ns: int) -> int:
    if len(lengths_ns) <= containers:
        return max(lengths_ns, default=-schedule_ns) + schedule_ns
    free_ns = [0] * max(1, containers)
    for length_ns in lengths_ns:
        heapq.heapreplace(free_ns, free_ns[0] + length_ns + schedule_ns)
    return max(free_ns)

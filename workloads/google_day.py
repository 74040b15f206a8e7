"""A day like one of the Google cluster trace of 2011 (adaptive-checkpointing, section 3.3.2): jobs of many priorities.

Each job draws its priority, its number of tasks, the mean length of its tasks and the memory of a task from a slice of
the trace, by its band (percentiles in ``workloads/data/google-2011-jobs.json``).  The bands are the trace's: priorities
0 and 1 are free, 2 to 8 middle, 9 to 11 production.  A job goes to the queue with the name of its band.  Submissions
are uniform over ``span_s``.  The numbers of tasks are multiplied by one factor, so that there are ``tasks`` in all.

The slice does not have some facts.  Here a task lasts 0.5 to 1.5 times the mean of its job, uniformly; the largest
machine has ``machine_cpu`` and ``machine_memory_gb``, because the trace gives only shares of it; and a task that needs
more memory than a container gets that of a container.

Where containers have sizes, each job draws what its tasks ask for from the processors and the memory that jobs of its
band ask for together, with their frequencies.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable
from functools import cache
from importlib import resources
from itertools import accumulate
from random import Random
from typing import Any

from msgspec.structs import replace

from emulator.core.job import JobSpec
from emulator.vocabulary import JobFacts, Resources, map_reduce
from workloads.schema import MAX_TASKS, GoogleDayEntry

_GB = 2**30
_LEAST_CPU = 0.001
"""Of a job that asks for none, because a task that asks for nothing could be started any number of times."""
_ROUNDS = 40


Request = Callable[[dict[str, float], float], Resources]
"""What a container asks for that wants these resources and so much memory, GiB."""


def google_day_jobs(
    entry: GoogleDayEntry, memory_bytes: int, seed: int, request: Request | None = None
) -> tuple[JobSpec, ...]:
    """The jobs of one draw, in the order of submission; ``memory_bytes`` is the memory of a container.

    ``request``: None where all containers have one size.
    """
    bands, rng, sizes_rng = _bands(), Random(f"{seed}:google-day"), Random(f"{seed}:google-day:requests")
    submits_ns = sorted(round(rng.random() * entry.span_s * 10**9) for _ in range(entry.jobs))
    drawn = [_band(bands, rng) for _ in submits_ns]
    sizes = [_quantile(bands[band]["tasks"], rng.random()) for band, _ in drawn]
    factor = _factor(sizes, entry.tasks)
    jobs = []
    for number, (submit_ns, (band, priority), size) in enumerate(zip(submits_ns, drawn, sizes, strict=True), start=1):
        mean_s = _quantile(bands[band]["length_s"], rng.random())
        share = _quantile(bands[band]["memory"], rng.random())
        most_bytes, asked = memory_bytes, ()
        if request is not None:
            cpu_share, share = _pair(bands[band]["requests"], sizes_rng.random())
            most_bytes = int(entry.machine_memory_gb * _GB)
            cpu = max(_LEAST_CPU, round(cpu_share * entry.machine_cpu, 3))
            asked = request({"cpu": cpu}, round(share * entry.machine_memory_gb, 3))
        lengths = tuple(max(1, round(mean_s * (0.5 + rng.random()) * 10**9)) for _ in range(_count(size, factor)))
        facts = JobFacts(
            name=f"job-{number}",
            queue=band,
            groups=tuple(replace(group, request=asked) for group in map_reduce(len(lengths), 0)),
            priority=priority,
            memory_bytes=max(1, min(most_bytes, int(share * entry.machine_memory_gb * _GB))),
            dirty_ppm=round(entry.dirty_fraction * 1_000_000),
        )
        jobs.append(JobSpec(facts, submit_ns, lengths, (), ()))
    return tuple(jobs)


@cache
def _bands() -> dict[str, Any]:
    return json.loads((resources.files("workloads") / "data" / "google-2011-jobs.json").read_text())


def _band(bands: dict[str, Any], rng: Random) -> tuple[str, int]:
    """Band and priority, drawn with their frequencies in the slice."""
    choices = [(band, int(level), n) for band, of in bands.items() for level, n in of["priorities"].items()]
    ends = list(accumulate(n for _, _, n in choices))
    point = rng.random() * ends[-1]
    band, level, _ = next(choice for choice, end in zip(choices, ends, strict=True) if point < end)
    return band, level


def _pair(requests: list[tuple[float, float, int]], point: float) -> tuple[float, float]:
    """Shares of processors and memory, drawn with their frequencies; ``point`` is from 0 to below 1."""
    ends = list(accumulate(jobs for _, _, jobs in requests))
    cpu, memory, _ = requests[bisect_right(ends, point * ends[-1])]
    return cpu, memory


def _quantile(percentiles: list[float], share: float) -> float:
    """The value below which ``share`` of all values lie, with linear interpolation between percentiles."""
    place = share * (len(percentiles) - 1)
    low = min(int(place), len(percentiles) - 2)
    return percentiles[low] + (percentiles[low + 1] - percentiles[low]) * (place - low)


def _count(size: float, factor: float) -> int:
    return min(MAX_TASKS, max(1, round(size * factor)))


def _factor(sizes: list[float], tasks: int) -> float:
    """The factor with which the counts add up to ``tasks``, as closely as possible."""
    low, high = 0.0, float(max(1, tasks))
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(_count(size, middle) for size in sizes) < tasks else (low, middle)
    return high

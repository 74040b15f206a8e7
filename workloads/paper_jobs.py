"""Jobs drawn as in the simulations of papers.

``bimodal_jobs``: as in the simulations of FLEX's paper (flex, section 4.1).

Work is drawn from two normal distributions cut off at 0; the second has ten times the mean of the first, and the
deviations are a third of the means.  Then all works are scaled to the same total.  A job can use as many containers as
it has tasks.  Minima are drawn from a normal distribution whose mean is the job's share of the capacity that is not
slack, with a deviation of a third of it.  They are whole numbers of at least 1, and are drawn again if above the
maximum.  Weights are uniform up to 1.  All jobs are submitted at 0, in random order, or with exponential times between
them (section 4.2).  For that section works may also be evenly spaced, and some of the tasks may be reduces.

The paper leaves some points open.  Here ``BimodalEntry.tasks`` is the number of tasks.  Deadlines are uniform up to the
time that the cluster needs for all work, heights of SLA steps are uniform up to 1, and both are sorted.

``poisson_jobs``: completion goals, and arrivals at random, as in Reverse-Adaptive's paper (reverse-adaptive, Table I).

Arrivals are a Poisson process.  Job sizes, in tasks, are lognormal with the given mean and deviation.  A deadline is
the submission + the time in isolation x a factor drawn uniformly.  ``load`` sets the rate of arrivals: it is the work
offered as a share of what the containers left by the transactional workload can do.

The paper leaves two points open.  Here:

- In isolation means alone on the whole cluster, without a transactional workload.  So some deadlines cannot be met
  while that workload takes most of the cluster, as the paper says about its own.
- A task takes 387 s.  On 100 containers, a load of 1 without a transactional workload is then 15 jobs an hour or 2,500
  a week.  A load of 0.2 with half the containers left is 1.5 jobs an hour or 250 a week.  These are the ends of the
  ranges in Table I.

``google_day_jobs``: many priorities, as on a day of Google's trace of 2011 (adaptive-checkpointing, section 3.3.2).

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
from emulator.policies.capacity import Capacity
from emulator.vocabulary import JobFacts, Resources, map_reduce
from workloads.draws import exponential, key_count, lognormal_of_mean
from workloads.schema import MAX_TASKS, BimodalEntry, GoogleDayEntry, PoissonEntry

_LARGE = 10.0
_PPM = 1_000_000


def bimodal_jobs(entry: BimodalEntry, containers: int, memory_bytes: int, seed: int) -> tuple[JobSpec, ...]:
    """The jobs of one draw; changing one parameter leaves the draws of the others unchanged."""
    task_ns = round(entry.task_s * 10**9)
    works_ns = _works_ns(entry, task_ns, Random(f"{seed}:bimodal-work"))
    horizon_ns = sum(works_ns) // containers
    minima, weights = Random(f"{seed}:bimodal-minima"), Random(f"{seed}:bimodal-weights")
    deadlines, steps = Random(f"{seed}:bimodal-deadlines"), Random(f"{seed}:bimodal-steps")
    arrivals, submit_ns = Random(f"{seed}:bimodal-arrivals"), 0
    jobs = []
    for number, work_ns in enumerate(works_ns, start=1):
        whole, rest = divmod(work_ns, task_ns)
        lengths = (task_ns,) * whole + ((rest,) if rest else ())
        reduces = lengths[: round(entry.reduces * len(lengths))]
        maps = lengths[len(reduces) :]
        most = min(containers, len(lengths))
        minimum = _minimum((1 - entry.slack) * containers / entry.jobs, most, minima)
        facts = JobFacts(
            name=f"job-{number}",
            queue=entry.queue,
            groups=map_reduce(len(maps), len(reduces)),
            deadline_ns=submit_ns + deadlines.randint(1, horizon_ns),
            memory_bytes=memory_bytes,
            weight_ppm=weights.randint(1, _PPM),
            sla=tuple((submit_ns + after_ns, cost) for after_ns, cost in _sla(entry.sla_steps, horizon_ns, steps)),
            min_containers=None if entry.pooled else minimum,
            max_containers=most,
        )
        keys = tuple(key_count(length, 1.0) for length in reduces)
        jobs.append(JobSpec(facts, submit_ns, maps, reduces, keys))
        if entry.interarrival_s:
            submit_ns += round(arrivals.expovariate(1 / entry.interarrival_s) * 10**9)
    return tuple(jobs)


def _works_ns(entry: BimodalEntry, task_ns: int, random: Random) -> list[int]:
    if entry.spread is not None:
        return _spaced_ns(entry, entry.spread, task_ns, random)
    small = round(entry.small * entry.jobs)
    drawn = [_positive(1.0 if number < small else _LARGE, random) for number in range(entry.jobs)]
    random.shuffle(drawn)
    scale = entry.tasks * task_ns / sum(drawn)
    return [max(1, round(work * scale)) for work in drawn]


def _spaced_ns(entry: BimodalEntry, spread: float, task_ns: int, random: Random) -> list[int]:
    gaps = max(1, entry.jobs - 1)
    parts = [1 - spread + 2 * spread * number / gaps for number in range(entry.jobs)]
    random.shuffle(parts)
    return [max(1, round(part / sum(parts) * entry.tasks * task_ns)) for part in parts]


def _positive(mean: float, random: Random) -> float:
    """A normal draw above 0, with a deviation of a third of the mean."""
    while True:
        value = random.gauss(mean, mean / 3)
        if value > 0:
            return value


def _minimum(mean: float, most: int, random: Random) -> int:
    while mean > 0:
        minimum = max(1, round(_positive(mean, random)))
        if minimum <= most:
            return minimum
        mean = min(mean, most)  # otherwise a job with few tasks might draw for ever
    return 1


def _sla(count: int, horizon_ns: int, random: Random) -> tuple[tuple[int, int], ...]:
    deadlines = sorted(random.randint(1, horizon_ns) for _ in range(count))
    return tuple(zip(deadlines, sorted(random.randint(0, _PPM) for _ in range(count)), strict=True))


def poisson_jobs(
    entry: PoissonEntry, capacity: Capacity, containers: int, memory_bytes: int, seed: int
) -> tuple[JobSpec, ...]:
    """The jobs of one draw; a different load changes only arrivals, different factors only deadlines."""
    span_ns, task_ns = round(entry.span_s * 10**9), round(entry.task_s * 10**9)
    offered_ns = entry.load * capacity.between(0, span_ns)
    gap_ns = span_ns * entry.tasks.mean * task_ns / max(1.0, offered_ns)
    arrivals, sizes, factors = (Random(f"{seed}:poisson-{what}") for what in ("arrivals", "sizes", "factors"))
    jobs: list[JobSpec] = []
    now_ns = exponential(arrivals, gap_ns)
    while now_ns < span_ns:
        drawn = round(lognormal_of_mean(sizes, entry.tasks.mean, entry.tasks.sd))
        tasks = min(MAX_TASKS // entry.pieces, max(1, drawn))
        low, high = entry.deadline_factor
        factor = low + (high - low) * factors.random()
        submit_ns = round(now_ns)
        alone_ns = tasks * task_ns // min(tasks, containers)
        facts = JobFacts(
            name=f"job-{len(jobs) + 1}",
            queue=entry.queue,
            groups=map_reduce(tasks * entry.pieces, 0),
            deadline_ns=submit_ns + round(alone_ns * factor),
            memory_bytes=memory_bytes,
            max_containers=tasks if entry.pieces > 1 else None,
        )
        jobs.append(JobSpec(facts, submit_ns, (task_ns // entry.pieces,) * facts.maps, (), ()))
        now_ns += exponential(arrivals, gap_ns)
    return tuple(jobs)


_GB = 2**30
_LEAST_CPU = 0.001
"""The processors of a job that asks for none: a task that asks for nothing could be started any number of times."""
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

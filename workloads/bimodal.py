"""Jobs drawn as in the simulations of FLEX's paper (flex, section 4.1).

Work is drawn from two normal distributions cut off at 0; the second has ten times the mean of the first, and the
deviations are a third of the means.  Then all works are scaled to the same total.  A job can use as many containers as
it has tasks.  Minima are drawn from a normal distribution whose mean is the job's share of the capacity that is not
slack, with a deviation of a third of it.  They are whole numbers of at least 1, and are drawn again if above the
maximum.  Weights are uniform up to 1.  All jobs are submitted at 0, in random order, or with exponential times between
them (section 4.2).  For that section works may also be evenly spaced, and some of the tasks may be reduces.

The paper leaves some points open.  Here ``BimodalEntry.tasks`` is the number of tasks.  Deadlines are uniform up to the
time that the cluster needs for all work, heights of SLA steps are uniform up to 1, and both are sorted.
"""

from __future__ import annotations

from random import Random

from emulator.core.job import JobSpec
from emulator.vocabulary import JobFacts, map_reduce
from workloads.lengths import key_count
from workloads.schema import BimodalEntry

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

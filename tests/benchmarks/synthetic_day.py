"""A synthetic day of a large cluster, at any scale: 12,500 nodes, 15,000 jobs and 600,000 tasks at scale 1.

What it is drawn from, by seed:

* *Jobs* arrive in a Poisson process whose rate goes up and down once in the day by half its mean.  45% are
  production, the others research; in both queues jobs have ten priorities.
* *Tasks of a job*: lognormal (sigma 1), the largest a hundred times the smallest, 40 in the mean; four in ten are maps,
  the others reduces.
* *Lengths*: each job draws its own mean map (lognormal, median 15 min, sigma 0.6) and mean reduce (median 60 min, the
  same sigma); its tasks are uniform within half of that mean above and below.  A reduce walks a key in a second.

Two containers a node: the load is 0.88 of them over the day, ApplicationMasters included.  That is more than they can
do at the height of the day, when production takes containers from research, and less in the night, when research makes
up for it.
"""

from __future__ import annotations

import math
from itertools import accumulate
from random import Random

from emulator.core.job import JobSpec
from emulator.experiment.model import Experiment
from emulator.vocabulary import JobFacts, map_reduce

PRIORITIES = 10
NODES, CONTAINERS_PER_NODE, JOBS, TASKS_PER_JOB = 12_500, 2, 15_000, 40
DAY_NS = 86_400 * 10**9
PRODUCTION_SHARE, MAP_SHARE = 0.45, 0.4
SMALLEST, LARGEST = 0.1, 10.0
"""Tasks of a job, as multiples of the median."""
MEDIAN_MAP_S, MEDIAN_REDUCE_S, LENGTH_SIGMA = 900.0, 3600.0, 0.6
KEY_NS = 10**9


def day_experiment(scale: float, seed: int = 1) -> Experiment:
    """The cluster and its scheduler; the workload in it is not looked at."""
    return Experiment.model_validate(
        {
            "name": f"synthetic-day-{scale:g}",
            "engine": "sim",
            "seed": seed,
            "overheads": "hadoop-0.23",
            "cluster": {"nodes": round(NODES * scale), "containers_per_node": CONTAINERS_PER_NODE},
            "scheduler": {
                "allocation": {
                    "name": "two-queue",
                    "queues": {"production": {"capacity": 0.25}, "research": {"capacity": 0.75}},
                },
                "job_selection": "priority",
                "job_eviction": "pr",
                "task_eviction": "random",
            },
            "workload": {"jobs": ({"name": "none", "queue": "research", "maps": 1},)},
        }
    )


def day_jobs(scale: float, seed: int = 1) -> tuple[JobSpec, ...]:
    """The jobs of the day, in the order of submission."""
    random = Random(f"synthetic-day:{seed}")
    count = round(JOBS * scale)
    submits_ns = sorted(_submit_ns(random) for _ in range(count))
    weights = [min(LARGEST, max(SMALLEST, random.lognormvariate(0.0, 1.0))) for _ in range(count)]
    # Rounded where the tasks of one job end among all of them, so that they add up.
    total, ends = sum(weights), [0.0, *accumulate(weights)]
    ends_at = [round(end / total * count * TASKS_PER_JOB) for end in ends]
    return tuple(_job(random, n, submits_ns[n], ends_at[n + 1] - ends_at[n]) for n in range(count))


def _submit_ns(random: Random) -> int:
    while True:
        at = random.random()
        if random.random() * 1.5 <= 1 + 0.5 * math.sin(2 * math.pi * (at - 0.25)):
            return int(at * DAY_NS)


def _job(random: Random, number: int, submit_ns: int, tasks: int) -> JobSpec:
    maps = max(1, round(MAP_SHARE * tasks))
    map_ns = _lengths_ns(random, MEDIAN_MAP_S, maps)
    reduce_ns = _lengths_ns(random, MEDIAN_REDUCE_S, tasks - maps)
    return JobSpec(
        JobFacts(
            name=f"job-{number:05d}",
            queue="production" if random.random() < PRODUCTION_SHARE else "research",
            groups=map_reduce(len(map_ns), len(reduce_ns)),
            priority=random.randrange(PRIORITIES),
            memory_bytes=1 << 30,
        ),
        submit_ns=submit_ns,
        map_ns=map_ns,
        reduce_ns=reduce_ns,
        reduce_keys=tuple(max(1, round(length / KEY_NS)) for length in reduce_ns),
    )


def _lengths_ns(random: Random, median_s: float, count: int) -> tuple[int, ...]:
    mean_ns = median_s * 1e9 * random.lognormvariate(0.0, LENGTH_SIGMA)
    return tuple(int(mean_ns * (0.5 + random.random())) for _ in range(count))

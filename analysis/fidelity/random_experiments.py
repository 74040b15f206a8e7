"""Random experiments by seed, for comparing the engines; together they use every policy and mechanism.

Schedulers are drawn so that each one has as many new policies as possible, then as many new pairs of policies.  A few
jobs of all kinds (with and without maps or reduces, with little or much data, with deadlines and priorities) compete
for a small cluster, which the first job fills.  An experiment lasts some hundred emulated seconds.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from random import Random
from typing import Any

from analysis.fidelity.figures import choices
from emulator.experiment.model import Experiment
from emulator.policies import axes as policies
from emulator.policies.mechanism import makes_images
from emulator.policies.policy import SchedulerAllocation, ShareAllocation, TakesBack

TIME_SCALE = 10.0
_OVERHEADS = ("native", "hadoop-0.23")
_AXES: tuple[str, ...] = ("allocation", "job_eviction", "task_eviction", "mechanism")
_WAIT = "wait"

Scheduler = dict[str, str]
"""By axis."""


def random_experiments(count: int, seed: int) -> list[Experiment]:
    """``count`` experiments, equal for equal seeds; ten or more use every policy and mechanism."""
    random = Random(f"natjam fidelity:{seed}")
    found = []
    for number, scheduler in enumerate(_varied(count, random), start=1):
        data = {
            "name": f"random-{seed}-{number}",
            "time_scale": TIME_SCALE,
            "seed": random.randrange(1, 1_000_000),
            "overheads": _OVERHEADS[number % 2],
            **_cluster_and_jobs(scheduler, random),
        }
        found.append(Experiment.model_validate(data))
    return found


def _varied(count: int, random: Random) -> Iterator[Scheduler]:
    schedulers = list(_schedulers())
    random.shuffle(schedulers)
    choices_met: set[Any] = set()
    pairs_met: set[Any] = set()

    def news(scheduler: Scheduler) -> tuple[int, int]:
        pairs = set(itertools.combinations(_choices(scheduler), 2))
        return len(set(_choices(scheduler)) - choices_met), len(pairs - pairs_met)

    for _ in range(count):
        best = max(schedulers, key=news)
        choices_met.update(_choices(best))
        pairs_met.update(itertools.combinations(_choices(best), 2))
        yield best


def in_both_engines() -> dict[str, tuple[str, ...]]:
    """By axis, the policies that both live runs and simulations support; of allocations, only those with queues."""
    return {
        "allocation": tuple(
            policy.name
            for policy in policies.ALLOCATION.policies
            if not isinstance(policy, ShareAllocation | SchedulerAllocation)
        ),
        "job_eviction": policies.JOB_EVICTION.names,
        "task_eviction": policies.TASK_EVICTION.names,
        "mechanism": tuple(policy.name for policy in policies.MECHANISM.policies if not makes_images(policy.among)),
    }


def _schedulers() -> Iterator[Scheduler]:
    """Every scheduler that can be made from them."""
    for names in itertools.product(*in_both_engines().values()):
        scheduler = dict(zip(_AXES, names, strict=True))
        allocation = policies.ALLOCATION.by_name[scheduler["allocation"]]
        if scheduler["mechanism"] == _WAIT or allocation.takes_back is not TakesBack.NEVER:
            yield scheduler


def _choices(scheduler: Scheduler) -> tuple[tuple[str, str], ...]:
    return choices(scheduler, job_selection=policies.AUTO)


def _cluster_and_jobs(scheduler: Scheduler, random: Random) -> dict[str, Any]:
    nodes, containers_per_node = random.randint(3, 6), random.randint(4, 8)
    queues = _queues(scheduler["allocation"], random)
    allocation = {"name": scheduler["allocation"], "queues": queues}
    return {
        "cluster": {"nodes": nodes, "containers_per_node": containers_per_node},
        "scheduler": {**scheduler, "allocation": allocation},
        "workload": {"jobs": tuple(_jobs(nodes * containers_per_node, list(queues), random))},
    }


def _queues(allocation: str, random: Random) -> dict[str, Any]:
    share = random.choice((0.25, 0.4, 0.5))
    if allocation == "single-queue":
        return {"all": {"capacity": 1.0}}
    return {"production": {"capacity": share}, "research": {"capacity": 1 - share}}


def _jobs(containers: int, queues: list[str], random: Random) -> Iterator[dict[str, Any]]:
    """The first job is in the least urgent queue, the second in the most urgent."""
    for number in range(random.randint(3, 6)):
        if number == 0:
            reduces, longest_s, submit_s = containers - random.randint(0, 2), random.uniform(40, 90), 0.0
        else:
            reduces, longest_s = random.randint(1, containers // 2), random.uniform(15, 60)
            submit_s = random.uniform(5, 60)
        queue = queues[-1] if number == 0 else queues[0] if number == 1 else random.choice(queues)
        kind = random.choices(("both", "maps only", "reduces only"), (0.7, 0.15, 0.15))[0] if number > 1 else "both"
        lengths = {"uniform": (0.5, 1.0), "longest": round(longest_s, 1)}
        job: dict[str, Any] = {
            "name": f"{queue}-{number + 1}",
            "queue": queue,
            "submit_s": round(submit_s, 1),
            "maps": 0 if kind == "reduces only" else random.randint(1, 8),
            "map_s": lengths if kind == "maps only" else round(random.uniform(1, 8), 1),
            "reduces": 0 if kind == "maps only" else reduces,
            "reduce_s": lengths,
            "key_s": random.choice((0.5, 1.0, 2.0)),
            "deadline_s": round(submit_s + longest_s * random.uniform(1.5, 5), 1),
            "priority": random.randint(0, 3),
        }
        if random.random() < 0.3:
            job["shuffle_mb"] = round(random.uniform(1, 30), 1)
        yield job

"""Adaptive over all mechanisms against each of them alone, on random workloads.

Neither urgent nor other jobs should be more than 5% slower than under the single mechanism that is best for them.
Urgent jobs are not.  Others are, where *wait* is best for them: it lets them keep what urgent jobs need.  Among the
mechanisms under which urgent jobs are served as soon, they are not.  Over all jobs, adaptive is better than each on
average.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random
from statistics import fmean

import pytest

from emulator.experiment.expand import expand
from emulator.experiment.load import load_experiment
from emulator.resolved import resolve
from emulator.sim.session import simulated_history

WORKLOADS = 50
ALONE = ("wait", "kill", "suspend", "checkpoint", "image")
ALL = "{name: adaptive, among: [wait, kill, suspend, checkpoint, image]}"
ANY = "any"
BOUND = 1.05
Responses = Mapping[str, Mapping[str, float]]
"""By mechanism and queue."""
HEAD = """\
name: any-mechanism
engine: sim
overheads: yarn-3
protocol: {kill_timeout_s: 3600}
sim: {journal: "off"}
scheduler:
  allocation: {name: two-queue, queues: {production: {capacity: 0.5}, research: {capacity: 0.5}}}
  mechanism: wait
"""


def workload(seed: int) -> str:
    """An experiment file: nodes, memory, device and jobs drawn by ``seed``."""
    rng = Random(seed)
    nodes, containers, memory_gb = rng.randint(1, 4), rng.randint(2, 6), rng.choice([0.25, 0.5, 1, 2, 4])
    lines = [
        f"cluster: {{nodes: {nodes}, containers_per_node: {containers}, container_memory_gb: {memory_gb},"
        f" memory_gb: 64, max_suspended_per_node: {rng.randint(0, 2 * containers)}, application_masters: outside}}",
        f"storage: {{tier: {rng.choice(['hdd', 'ssd', 'nvm'])}}}",
        "workload:",
        "  jobs:",
    ]
    for number in range(rng.randint(4, 10)):
        queue = "production" if rng.random() < 0.4 else "research"
        longest_s = rng.choice([20, 60, 180]) if queue == "production" else rng.choice([60, 200, 600])
        lines.append(
            f"    - {{name: job-{number}, queue: {queue}, submit_s: {rng.randint(0, 600)},"
            f" reduces: {rng.randint(1, 2 * nodes * containers)}, dirty_fraction: {rng.choice([0.1, 0.5, 1])},"
            f" reduce_s: {{uniform: [0.5, 1.0], longest: {longest_s}}}}}"
        )
    return HEAD + "\n".join(lines) + "\n"


def responses_s(path: Path, mechanism: str) -> dict[str, float]:
    """Mean response of the jobs of each queue that has some, and of all."""
    experiment = load_experiment(path, [f"scheduler.mechanism={mechanism}"])
    jobs = expand(experiment, experiment.seed)
    history = simulated_history(resolve(experiment, jobs))
    by_queue: dict[str, list[float]] = {ANY: []}
    for row in history.jobs:
        assert row.completion_ns is not None
        by_queue.setdefault(row.queue, []).append(row.completion_ns / 1e9)
        by_queue[ANY].append(row.completion_ns / 1e9)
    return {queue: fmean(found) for queue, found in by_queue.items()}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[Responses]:
    """Of each workload, what came out under each mechanism alone and under adaptive."""
    path, every = tmp_path_factory.mktemp("any") / "any.yaml", list[Responses]()
    for seed in range(WORKLOADS):
        path.write_text(workload(seed))
        every.append({name: responses_s(path, name) for name in ALONE} | {"adaptive": responses_s(path, ALL)})
    return every


def over_the_best(responses: Responses, queue: str, names: Iterable[str] = ALONE) -> float:
    """The mean response of a queue's jobs under adaptive, as a share of the shortest under any of ``names``."""
    ours = responses["adaptive"].get(queue, 0.0)
    return ours / min((responses[name][queue] for name in names if ours), default=max(ours, 1.0))


def as_soon(responses: Responses) -> list[str]:
    """The mechanisms under which urgent jobs are served as soon as under adaptive."""
    urgent = {name: found.get("production", 0.0) for name, found in responses.items()}
    return [name for name in ALONE if urgent[name] <= urgent["adaptive"]]


@pytest.mark.slow
def test_over_all_jobs_adaptive_is_better_on_average_than_each(found: list[Responses]) -> None:
    for name in ALONE:
        assert fmean(each["adaptive"][ANY] / each[name][ANY] for each in found) < 1, name


@pytest.mark.slow
def test_urgent_jobs_are_served_as_soon_as_under_the_best_mechanism(found: list[Responses]) -> None:
    assert max(over_the_best(each, "production") for each in found) <= BOUND


@pytest.mark.slow
def test_other_jobs_are_served_as_soon_as_where_urgent_ones_are_too(found: list[Responses]) -> None:
    assert max(over_the_best(each, "research", as_soon(each)) for each in found) <= BOUND

"""How far FLEX's plan is from the best one at worst, over random instances of the paper's base case (flex, section 4).

With our search, against the optimum of all orders: over 1,000 instances of ten jobs the worst plan is at 1.0086 of it
for the largest stretch (7 plans are over 0.1% off), and at most at 1.0001 for the other 14 metrics.

Without it, as in the paper (a modest number of orders, and the best of them is taken), for 10, 20 and 40 jobs, against
the best plan known: for ten jobs FLEX's with search, for more what moving single jobs finds, so that the true ratio may
be larger.

Minutes of processor time for each metric; fewer instances take less::

    INSTANCES=100 pytest -s tests/benchmarks/test_flex_worst_case.py

``RESULTS=worst.jsonl`` adds the figures to a file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.core.job import JobSpec
from emulator.policies.flex.demand import Demand, completions, normalised
from emulator.policies.flex.optimiser import SEARCHED_JOBS, _candidates, _moved, plan
from emulator.policies.flex.optimum import best_order
from emulator.policies.flex.penalties import Metric, MetricName, Objective, penalty
from workloads.paper_jobs import bimodal_jobs
from workloads.schema import BimodalEntry

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

SLOTS, TASKS_A_JOB, MOST = 100, 300, 1.01
NEARLY = 1.001
_SUMMED: tuple[MetricName, ...] = ("response", "tardy", "tardiness")
_LARGEST: tuple[MetricName, ...] = ("tardiness", "lateness")
METRICS = [
    *(Metric(name, weighted) for name in _SUMMED for weighted in (False, True)),
    Metric("stretch"),
    Metric("sla"),
    Metric("makespan"),
    Metric("stretch", sum=False),
    Metric("response", weighted=True, sum=False),
    *(Metric(name, weighted, sum=False) for name in _LARGEST for weighted in (False, True)),
]


def described(metric: Metric) -> str:
    return f"{'sum' if metric.total else 'largest'}-{'weighted-' if metric.weighted else ''}{metric.name}"


def demand(job: JobSpec) -> Demand:
    return Demand(job.name, sum(job.map_ns), job.facts.min_containers or 0, job.facts.most_containers)


def instances(count: int, metric: Metric) -> Iterator[tuple[list[Demand], Objective]]:
    for seed in range(1, int(os.environ.get("INSTANCES", "1000")) + 1):
        jobs = bimodal_jobs(BimodalEntry(jobs=count, tasks=TASKS_A_JOB * count), SLOTS, 1, seed)
        demands = normalised([demand(job) for job in jobs], SLOTS)
        alone_ns = [of.work_ns // of.maximum for of in demands]
        penalties = [penalty(metric, job.facts, 0, alone, 0) for job, alone in zip(jobs, alone_ns, strict=True)]
        yield demands, Objective(penalties, metric.total)


@pytest.mark.parametrize("metric", METRICS, ids=described)
def test_the_plan_with_search_is_near_the_optimum(metric: Metric) -> None:
    ratios = [over_the_optimum(jobs, objective) for jobs, objective in instances(10, metric)]
    told(10, metric, "the optimum, with search", [ratio for ratio in ratios if ratio is not None], MOST)


@pytest.mark.parametrize("metric", METRICS, ids=described)
@pytest.mark.parametrize("count", [10, 20, 40])
def test_the_papers_plan_against_the_best_known(count: int, metric: Metric) -> None:
    ratios = []
    for jobs, objective in instances(count, metric):
        best = plan(jobs, objective, SLOTS).cost if count <= SEARCHED_JOBS else moved(jobs, objective)
        if best > 0:  # as in the paper, others do not count
            ratios.append(plan(jobs, objective, SLOTS, search=False).cost / best)
    told(count, metric, "the best known, without search", ratios)


def told(count: int, metric: Metric, over: str, ratios: list[float], most: float = float("inf")) -> None:
    off = sum(ratio > NEARLY for ratio in ratios)
    facts = {"jobs": count, "metric": described(metric), "over": over, "instances": len(ratios)}
    facts |= {"mean": sum(ratios) / len(ratios), "worst": max(ratios), "more_than_0.1_pct_off": off}
    print("\n", facts)
    if "RESULTS" in os.environ:
        with Path(os.environ["RESULTS"]).open("a") as file:
            file.write(json.dumps(facts) + "\n")
    assert 1 <= max(ratios) <= most


def over_the_optimum(jobs: list[Demand], objective: Objective) -> float | None:
    """1 if no order is better by more than 0.1%: to prove this takes less time than to find the optimum.  None where
    the optimum is not above 0, or the plan costs nothing."""
    planned = plan(jobs, objective, SLOTS)
    if planned.cost <= 0:
        return None
    nearly = planned.cost * 1000 // 1001
    if best_order(jobs, objective, SLOTS, planned.order, below=nearly) == planned.order:
        return 1.0
    best = best_order(jobs, objective, SLOTS, planned.order)
    found = objective.cost(completions(jobs, best, SLOTS))
    return planned.cost / found if found > 0 else None


def moved(jobs: list[Demand], objective: Objective) -> int:
    """The least cost that moving single jobs finds, from the best of FLEX's orders."""
    first = min(_candidates(jobs, objective, SLOTS), key=lambda candidate: candidate.cost)
    return _moved(jobs, objective, SLOTS, first).cost

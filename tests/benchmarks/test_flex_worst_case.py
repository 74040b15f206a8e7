"""How far FLEX's plan is from the optimum at worst, over random instances of the paper's base case (flex, section 4.1).

``INSTANCES=100 pytest -s tests/benchmarks/test_flex_worst_case.py`` takes a tenth of the time.
"""

from __future__ import annotations

import os

import pytest

from emulator.core.job import JobSpec
from emulator.policies.flex.demand import Demand
from emulator.policies.flex.optimiser import plan
from emulator.policies.flex.penalties import Metric, MetricName, Objective, penalty
from workloads.bimodal import bimodal_jobs
from workloads.schema import BimodalEntry

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

SLOTS, MOST = 100, 1.01
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


@pytest.mark.parametrize("metric", METRICS, ids=described)
def test_the_plan_is_near_the_optimum(metric: Metric) -> None:
    ratios = []
    for seed in range(1, int(os.environ.get("INSTANCES", "1000")) + 1):
        jobs = bimodal_jobs(BimodalEntry(), SLOTS, 1, seed)
        demands = [demand(job) for job in jobs]
        alone_ns = [of.work_ns // of.maximum for of in demands]
        penalties = [penalty(metric, job.facts, 0, alone, 0) for job, alone in zip(jobs, alone_ns, strict=True)]
        objective = Objective(penalties, metric.total)
        optimum = plan(demands, objective, SLOTS, optimal=True).cost
        if optimum > 0:
            ratios.append(plan(demands, objective, SLOTS).cost / optimum)
    worst, off = max(ratios), sum(ratio > 1 for ratio in ratios)
    print(f"\n{described(metric)}: at worst {worst:.4f} of the optimum, {off} of {len(ratios)} instances off it at all")
    assert worst <= MOST

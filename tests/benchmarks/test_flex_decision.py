"""How long FLEX takes to decide: 172 jobs as in GridMix2, and 5,000 (flex, section 4.2: less than 10 ms)."""

from __future__ import annotations

import time
from random import Random

import pytest

from emulator.policies.flex.demand import Demand
from emulator.policies.flex.optimiser import plan
from emulator.policies.flex.penalties import Objective, Penalty

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("count", "slots"), [(10, 100), (172, 156), (172, 2000), (5000, 20_000)])
def test_decision(count: int, slots: int) -> None:
    random = Random(1)
    jobs = [
        Demand(f"job-{index}", random.randrange(10**9, 10**13), random.randrange(2), random.randrange(2, slots))
        for index in range(count)
    ]
    objective = Objective([Penalty(-random.randrange(10**9), early=True) for _ in jobs], True)
    took_s = []
    for _ in range(20):
        began = time.process_time()
        plan(jobs, objective, slots)
        took_s.append(time.process_time() - began)
    best, middle = 1000 * min(took_s), 1000 * sorted(took_s)[10]
    print(f"\n{count} jobs, {slots} slots: {best:.2f} ms of processor time at best, median {middle:.2f} ms")

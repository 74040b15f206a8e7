"""How long FLEX takes to decide: 172 jobs as in GridMix2 (flex, section 4.2: less than 10 ms), and 5,000.

Asked for are 1 and 50 ms of processor time.  What is held is the ratio to a bare heap: events of it a job.
"""

from __future__ import annotations

from random import Random

import pytest
from bare_heap import bare_heap, cpu_s

from emulator.policies.shares import flex
from emulator.policies.views import ClusterView, JobView, Known, QueueView
from emulator.vocabulary import JobFacts, map_reduce

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("count", "slots", "max_events"), [(172, 156, 12), (172, 2000, 12), (5000, 20_000, 20)])
def test_decision(count: int, slots: int, max_events: int) -> None:
    view = _view(count, slots)
    assert len(flex(view).shares or ()) == count
    took_s = [cpu_s(lambda: flex(view)) for _ in range(20)]
    events = min(took_s) / min(cpu_s(lambda: bare_heap(10 * count)) for _ in range(20)) * 10
    best, middle = 1000 * min(took_s), 1000 * sorted(took_s)[10]
    print(f"\n{count} jobs, {slots} slots: {best:.2f} ms at best, median {middle:.2f} ms; {events:.1f} events a job")
    assert events <= max_events


def _view(count: int, slots: int) -> ClusterView:
    random, jobs = Random(1), []
    for number in range(count):
        most = random.randrange(2, slots)
        facts = JobFacts(f"job-{number}", "default", groups=map_reduce(most, 0), min_containers=random.randrange(2))
        work_ns = random.randrange(10**9, 10**13)
        submit_ns = random.randrange(10**9)
        jobs.append(JobView(facts, number, submit_ns, 0, 0, most, work_ns=work_ns, work_left_ns=work_ns))
    queue = QueueView("default", 0, slots, slots, 0, 0)
    return ClusterView(10**10, Known((queue,), tuple(jobs), containers=slots))

"""Jobs with completion goals that arrive at random, drawn as in Reverse-Adaptive's paper (reverse-adaptive, Table I).

Arrivals are a Poisson process.  Job sizes, in tasks, are lognormal with the given mean and deviation.  A deadline is
the submission + the time in isolation x a factor drawn uniformly.  ``load`` sets the rate of arrivals: it is the work
offered as a share of what the containers left by the transactional workload can do.

The paper leaves two points open.  Here:

- In isolation means alone on the whole cluster, without a transactional workload.  So some deadlines cannot be met
  while that workload takes most of the cluster, as the paper says about its own.
- A task takes 387 s.  On 100 containers, a load of 1 without a transactional workload is then 15 jobs an hour or 2,500
  a week.  A load of 0.2 with half the containers left is 1.5 jobs an hour or 250 a week.  These are the ends of the
  ranges in Table I.
"""

from __future__ import annotations

from random import Random

from emulator.core.job import JobSpec
from emulator.policies.capacity import Capacity
from emulator.vocabulary import JobFacts, map_reduce
from workloads.draws import exponential, lognormal_of_mean
from workloads.schema import MAX_TASKS, PoissonEntry


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

"""Job eviction: the job whose container is taken (natjam, section 2.1).

All weigh the containers a job holds net of those already asked back.  Ties are broken at random by seed.
"""

from __future__ import annotations

from random import Random

from emulator.policies.views import JobEvictionView, JobView


def most_resources(view: JobEvictionView, random: Random) -> str:
    """MR: the job that holds the most containers.  Loosely worst-fit: few jobs are touched.  natjam, section 2.1."""
    most = max(job.containers for job in view.jobs)
    return _any_of([job for job in view.jobs if job.containers == most], random)


def least_resources(view: JobEvictionView, random: Random) -> str:
    """LR: the job that holds the fewest containers.  Spares large jobs, may starve small ones.  natjam, section 2.1."""
    least = min(job.containers for job in view.jobs)
    return _any_of([job for job in view.jobs if job.containers == least], random)


def probabilistic_resources(view: JobEvictionView, random: Random) -> str:
    """PR: a job drawn with probability in proportion to the containers it holds.  natjam, section 2.1."""
    jobs = sorted(view.jobs, key=lambda job: job.order)
    draw = random.randrange(sum(job.containers for job in jobs))
    for job in jobs:
        if draw < job.containers:
            return job.name
        draw -= job.containers
    raise AssertionError("a draw below the sum of the weights falls on a job")


def _any_of(jobs: list[JobView], random: Random) -> str:
    return random.choice(sorted(jobs, key=lambda job: job.order)).name

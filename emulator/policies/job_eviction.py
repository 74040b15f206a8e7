"""Job eviction: the job whose container is taken (natjam, sections 2.1 and 4).

MR, LR and PR weigh the containers a job holds net of those already asked back; ties are broken at random by seed.
The others take from the last job in the order of the job selection that goes with them.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from operator import attrgetter
from random import Random

from emulator.policies.job_selection import by_deadline, by_laxity, by_order, by_priority
from emulator.policies.views import JobEvictionView, JobView

_containers = attrgetter("containers")


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
    jobs = sorted(view.jobs, key=by_order)
    sums = list(accumulate(map(_containers, jobs)))
    return jobs[bisect_right(sums, random.randrange(sums[-1]))].name


def maximum_deadline_first(view: JobEvictionView, random: Random) -> str:
    """MDF: the job with the longest deadline; one that has none goes first.  Goes with EDF.  natjam, section 4."""
    return max(view.jobs, key=by_deadline).name


def maximum_laxity_first(view: JobEvictionView, random: Random) -> str:
    """MLF: the job with the most laxity (deadline minus projected completion).  Goes with LLF; jobs of like laxity
    take turns.  natjam, section 4."""
    return max(view.jobs, key=lambda job: by_laxity(job, view.now_ns)).name


def lowest_priority(view: JobEvictionView, random: Random) -> str:
    """The job with the smallest ``priority``, the last submitted of them.  Goes with priority.  natjam, section 4."""
    return max(view.jobs, key=by_priority).name


def _any_of(jobs: list[JobView], random: Random) -> str:
    return random.choice(sorted(jobs, key=lambda job: job.order)).name

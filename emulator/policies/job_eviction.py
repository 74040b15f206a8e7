"""Job eviction: the job that loses a container (natjam, sections 2.1 and 4).

MR, LR and PR do not count containers that were already asked back; ties are broken at random by seed.  Each other
policy takes from the last job in the order of the job selection that belongs to it.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from operator import attrgetter
from random import Random

from emulator.policies.job_selection import EDF, LLF, PRIORITY, by_deadline, by_laxity, by_order, by_priority, laxity_ns
from emulator.policies.policy import Axis, JobEviction, Policy, Reads, Score
from emulator.policies.views import ClusterView, JobView

_containers = attrgetter("containers")


def most_resources(view: ClusterView, jobs: tuple[JobView, ...], random: Random) -> str:
    """MR: the job that holds the most containers.  Similar to worst-fit: it affects few jobs."""
    most = max(job.containers for job in jobs)
    return _any_of([job for job in jobs if job.containers == most], random)


def least_resources(view: ClusterView, jobs: tuple[JobView, ...], random: Random) -> str:
    """LR: the job that holds the fewest containers.  Spares large jobs, but may starve small ones."""
    least = min(job.containers for job in jobs)
    return _any_of([job for job in jobs if job.containers == least], random)


def probabilistic_resources(view: ClusterView, jobs: tuple[JobView, ...], random: Random) -> str:
    """PR: a job drawn with probability in proportion to the containers it holds."""
    in_order = sorted(jobs, key=by_order)
    sums = list(accumulate(map(_containers, in_order)))
    return in_order[bisect_right(sums, random.randrange(sums[-1]))].name


def maximum_deadline_first(view: ClusterView, jobs: tuple[JobView, ...], random: Random) -> str:
    """MDF: the job with the latest deadline; a job without a deadline goes first.  Belongs to EDF."""
    return max(jobs, key=by_deadline).name


def maximum_laxity_first(view: ClusterView, jobs: tuple[JobView, ...], random: Random) -> str:
    """MLF: the job with the most laxity (deadline minus projected completion).  Belongs to LLF; jobs of similar laxity
    take turns."""
    return max(jobs, key=lambda job: by_laxity(job, view.now_ns)).name


def lowest_priority(view: ClusterView, jobs: tuple[JobView, ...], random: Random) -> str:
    """The job with the smallest ``priority``; among equals, the last submitted.  Belongs to priority."""
    return max(jobs, key=by_priority).name


def _any_of(jobs: list[JobView], random: Random) -> str:
    return random.choice(sorted(jobs, key=by_order)).name


def _held(job: JobView, now_ns: int) -> int | None:
    return job.containers


def _deadline_ns(job: JobView, now_ns: int) -> int | None:
    return job.facts.deadline_ns


def _priority(job: JobView, now_ns: int) -> int | None:
    return job.facts.priority


_MOST_FIRST = Score("containers", _held, largest_first=True)

JOB_EVICTION: Axis[Policy[JobEviction]] = Axis(
    "job_eviction",
    (
        Policy("mr", most_resources, "natjam, section 2.1", score=_MOST_FIRST),
        Policy("lr", least_resources, "natjam, section 2.1", score=Score("containers", _held, largest_first=False)),
        Policy("pr", probabilistic_resources, "natjam, section 2.1", draws=True, score=_MOST_FIRST),
        Policy(
            "priority",
            lowest_priority,
            "natjam, section 4",
            dictates=PRIORITY,
            score=Score("priority", _priority, largest_first=False),
        ),
        Policy(
            "mdf",
            maximum_deadline_first,
            "natjam, section 4",
            dictates=EDF,
            score=Score("deadline_ns", _deadline_ns, largest_first=True),
        ),
        Policy(
            "mlf",
            maximum_laxity_first,
            "natjam, section 4",
            reads=frozenset({Reads.PROGRESS}),
            dictates=LLF,
            score=Score("laxity_ns", laxity_ns, largest_first=True),
        ),
    ),
    Policy,
)

"""The cost of a job's end, and the cost of a schedule (flex, section 2.1, Fig. 1).

Whole numbers throughout: ``ONE`` is a weight of 1 for one nanosecond.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from emulator.policies.flex.demand import NEVER_NS
from emulator.vocabulary import SECOND_NS, Frozen, JobFacts

ONE = 10**12


class Penalty(Frozen):
    """A non-decreasing function of the end of one job; the five forms of Fig. 1."""

    due_ns: int = 0
    """Start of the penalty, from now; negative if it is in the past."""
    weight: int = ONE
    """Per nanosecond, at least 0."""
    early: bool = False
    """Whether ending before ``due_ns`` is rewarded, as in lateness; a response time has its ``due_ns`` in the past."""
    steps: tuple[tuple[int, int], ...] = ()
    """In place of the line: pairs of an instant and the total cost of ending after it; both rise."""

    def at(self, end_ns: int) -> int:
        """The penalty of a job that ends then, from now."""
        if self.steps:
            height = 0
            for after_ns, of_step in self.steps:
                if end_ns <= after_ns:
                    break
                height = of_step
            return height
        late = end_ns - self.due_ns
        return self.weight * late if late > 0 or self.early else 0


MetricName = Literal["response", "makespan", "stretch", "tardy", "tardiness", "lateness", "sla"]
METRICS: dict[MetricName, str] = {
    "response": "Time from a job's submission to its end.",
    "makespan": "The end of the last job.",
    "stretch": "Response time over the time that the job would take alone.",
    "tardy": "Number of jobs that end after their deadline.",
    "tardiness": "Time beyond the deadline.",
    "lateness": "Time beyond the deadline, below 0 for jobs that are early.",
    "sla": "Steps: what it costs to end after each of a job's deadlines.",
}
"""What each metric measures of a job (flex, section 2.1)."""
SUMMED, LARGEST = frozenset({"tardy", "sla"}), frozenset({"makespan"})
"""Metrics where only the sum, or only the maximum, is meaningful."""


class Metric(Frozen):
    """What a schedule minimises."""

    name: MetricName = "response"
    weighted: bool = False
    """Whether the jobs' weights count."""
    sum: bool = True
    """True: the sum over all jobs (minisum).  False: the maximum (minimax), which makespan always is."""

    @property
    def total(self) -> bool:
        """Whether the sum counts, not the maximum."""
        return self.sum and self.name not in LARGEST

    def __post_init__(self) -> None:
        if not self.sum and self.name in SUMMED:
            raise ValueError(f"of {self.name} only the sum can be minimised; leave sum out, or set it to true")


def penalty(metric: Metric, job: JobFacts, submit_ns: int, alone_ns: int, now_ns: int) -> Penalty:
    """The penalty of a job's end, as a function of the time from ``now_ns`` on.

    Args:
        metric: what is minimised.
        job: without a deadline it is never late.
        submit_ns: when it was submitted.
        alone_ns: how long the whole job would take alone on the cluster.
        now_ns: the instant from which the penalty's times count.
    """
    weight = job.weight_ppm * (ONE // 1_000_000) if metric.weighted else ONE
    due_ns = (NEVER_NS if job.deadline_ns is None else job.deadline_ns) - now_ns
    if metric.name == "response":
        return Penalty(submit_ns - now_ns, weight, early=True)
    if metric.name == "makespan":
        return Penalty(-now_ns, weight, early=True)
    if metric.name == "stretch":
        return Penalty(submit_ns - now_ns, weight * SECOND_NS // max(1, alone_ns), early=True)
    if metric.name == "tardy":
        return Penalty(steps=((due_ns, weight * SECOND_NS),))
    if metric.name == "sla":
        scale = weight * SECOND_NS // 1_000_000
        return Penalty(weight=0, steps=tuple((after - now_ns, height * scale) for after, height in job.sla))
    return Penalty(due_ns, weight, early=metric.name == "lateness")


class Objective:
    """The penalties of all jobs together: their sum, or their maximum."""

    def __init__(self, penalties: Sequence[Penalty], total: bool) -> None:
        self.penalties = tuple(penalties)
        self.total = total
        self.stepped = any(of_job.steps for of_job in self.penalties)
        self.rewards = any(of_job.early for of_job in self.penalties)
        """Whether a penalty may be negative."""
        self.linear = total and not self.stepped and all(of_job.early for of_job in self.penalties)
        """Whether it is a weighted sum of the ends plus a constant."""
        self._weights = [of_job.weight for of_job in self.penalties]
        self._constant = sum(of_job.weight * of_job.due_ns for of_job in self.penalties)

    def cost(self, ends_ns: Sequence[int]) -> int:
        """Cost of a schedule, given the end of each job from now; 0 without jobs."""
        if self.linear:
            return sum(map(int.__mul__, self._weights, ends_ns)) - self._constant
        costs = [of_job.at(end) for of_job, end in zip(self.penalties, ends_ns, strict=True)]
        return sum(costs) if self.total else max(costs, default=0)

"""Jobs as amounts of work, done by shares of a capacity.

Theory of operation.  The allocation is asked at every change: a job arrives or ends, the capacity changes, or the time
is over for which an answer holds.  In between, every job keeps its share, and its work decreases by share times time.
Nothing else happens, so the decisions are the only cost.  All numbers are whole: a job ends at the first nanosecond at
which its work is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from emulator.core.decisions import share_out
from emulator.core.job import JobSpec
from emulator.policies.capacity import Capacity
from emulator.policies.policy import AllocationPolicy
from emulator.policies.views import ClusterView, JobView, Known, QueueView


class Stuck(Exception):
    """Jobs wait, and nothing can change what they hold any more; the message names them."""


@dataclass(frozen=True, slots=True)
class Step:
    """What every job holds between two changes; jobs that hold nothing are left out."""

    start_ns: int
    end_ns: int
    containers: int
    """Number of containers available."""
    shares: tuple[tuple[str, int], ...]


@dataclass(slots=True)
class FluidResult:
    """The result for all jobs."""

    ends_ns: dict[str, int] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)


@dataclass(slots=True)
class _Job:
    spec: JobSpec
    order: int
    work_ns: int
    done_ns: int = 0
    share: int = 0

    @property
    def left_ns(self) -> int:
        return self.work_ns - self.done_ns

    @property
    def view(self) -> JobView:
        more = self.spec.facts.most_containers - self.share
        return JobView(
            facts=self.spec.facts,
            order=self.order,
            submit_ns=self.spec.submit_ns,
            containers=self.share,
            reclaimable=self.share,
            pending=more,
            work_ns=self.work_ns,
            work_left_ns=self.left_ns,
        )


def simulate(
    jobs: Sequence[JobSpec],
    queues: Sequence[QueueView],
    capacity: Capacity,
    policy: AllocationPolicy,
    forecast: Capacity | None = None,
) -> FluidResult:
    """Share ``capacity`` among ``jobs`` as ``policy`` says, until all have ended.

    Args:
        jobs: in any order.
        queues: the queues of the jobs.
        capacity: number of containers over time.
        policy: an allocation that gives shares.
        forecast: the capacity that the policy is told for the future; None: the true one.

    Raises:
        Stuck: a job never gets a container.
        PolicyError: the policy does not answer with shares.
    """
    return _Simulation(jobs, queues, capacity, policy, forecast or capacity).run()


class _Simulation:
    """One simulation of the fluid model (see the module's theory of operation)."""

    def __init__(
        self,
        jobs: Sequence[JobSpec],
        queues: Sequence[QueueView],
        capacity: Capacity,
        policy: AllocationPolicy,
        forecast: Capacity,
    ) -> None:
        self._arrivals = deque(sorted(jobs, key=lambda job: job.submit_ns))
        self._queues = tuple(queues)
        self._capacity, self._forecast = capacity, forecast
        self._policy = policy
        self._active: dict[str, _Job] = {}
        self._outcome = FluidResult()
        self._now_ns = 0
        self._arrived = 0
        self._worked_ns = 0
        """The last time at which any job has held containers."""

    def run(self) -> FluidResult:
        """See ``simulate``."""
        while self._arrivals or self._active:
            while self._arrivals and self._arrivals[0].submit_ns <= self._now_ns:
                spec = self._arrivals.popleft()
                self._active[spec.name] = _Job(spec, self._arrived, sum(spec.map_ns) + sum(spec.reduce_ns))
                self._arrived += 1
            self._pass(self._next_change_ns(self._share_out()))
        return self._outcome

    def _next_change_ns(self, asks_ns: int | None) -> int:
        """When anything changes next; ``asks_ns``: when the allocation must be asked again."""
        now_ns = self._now_ns
        changes = [asks_ns, self._capacity.next_change_ns(now_ns)]
        changes += [now_ns - (-job.left_ns // job.share) for job in self._active.values() if job.share]
        if self._arrivals:
            changes.append(self._arrivals[0].submit_ns)
        end_ns = min((change for change in changes if change is not None), default=None)
        period_ns = self._capacity.period_ns
        waited_in_vain = period_ns is not None and now_ns - self._worked_ns > period_ns and not self._arrivals
        if end_ns is None or waited_in_vain:
            names = ", ".join(list(self._active)[:5])
            raise Stuck(f"at {now_ns / 1e9:.0f} s {names} hold no containers, and never will")
        return end_ns

    def _share_out(self) -> int | None:
        """Ask the allocation; returns until when its answer holds."""
        if not self._active:
            return None
        views = tuple(job.view for job in self._active.values())
        known = Known(self._queues, views, containers=self._capacity.at(self._now_ns), forecast=self._forecast)
        decision = share_out(self._policy, ClusterView(self._now_ns, known))
        shares = dict(decision.shares)
        for name, job in self._active.items():
            job.share = min(shares.get(name, 0), job.spec.facts.most_containers)
        until_ns = decision.valid_until_ns
        return until_ns if until_ns is not None and until_ns > self._now_ns else None

    def _pass(self, end_ns: int) -> None:
        """Advance to ``end_ns``: work decreases, jobs end."""
        now_ns = self._now_ns
        shares = tuple((name, job.share) for name, job in self._active.items() if job.share)
        if end_ns > now_ns and self._active:
            self._outcome.steps.append(Step(now_ns, end_ns, self._capacity.at(now_ns), shares))
        if shares or not self._active:
            self._worked_ns = end_ns
        for name, job in list(self._active.items()):
            job.done_ns += job.share * (end_ns - now_ns)
            if job.left_ns <= 0:
                self._outcome.ends_ns[name] = end_ns
                del self._active[name]
        self._now_ns = end_ns

"""Jobs as amounts of work that shares of a capacity wear off.

Theory of operation.  The allocation is asked at every change: a job arrives or ends, the capacity takes a step, or an
answer has said how long it holds.  In between every job holds its share and its work goes down by share times time.
Nothing else happens, so the cost is that of the decisions.  All is whole numbers: a job ends at the first nanosecond at
which its work is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from emulator.core.capacity import Capacity
from emulator.core.decisions import PolicyError, allocate
from emulator.core.job import JobSpec
from emulator.policies.policy import AllocationPolicy
from emulator.policies.views import ClusterView, JobView, Known, QueueView


class Stuck(Exception):
    """Jobs wait, and nothing is left that could change what they hold; the message says which."""


@dataclass(frozen=True, slots=True)
class Step:
    """What every job holds from one change to the next; jobs that hold nothing are left out."""

    start_ns: int
    end_ns: int
    containers: int
    """There are."""
    shares: tuple[tuple[str, int], ...]


@dataclass(slots=True)
class Outcome:
    """What became of the jobs."""

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
    jobs: Sequence[JobSpec], queues: Sequence[QueueView], capacity: Capacity, policy: AllocationPolicy
) -> Outcome:
    """Share ``capacity`` among ``jobs`` as ``policy`` says, until all have ended.

    Raises:
        Stuck: a job never gets a container.
        PolicyError: the policy answers with something else than shares.
    """
    arrivals = sorted(jobs, key=lambda job: job.submit_ns)
    active: dict[str, _Job] = {}
    outcome, now_ns, arrived = Outcome(), 0, 0
    while arrived < len(arrivals) or active:
        while arrived < len(arrivals) and arrivals[arrived].submit_ns <= now_ns:
            spec = arrivals[arrived]
            active[spec.name] = _Job(spec, arrived, sum(spec.map_ns) + sum(spec.reduce_ns))
            arrived += 1
        changes = [_share_out(active, queues, capacity, policy, now_ns), capacity.next_change_ns(now_ns)]
        changes += [now_ns - (-job.left_ns // job.share) for job in active.values() if job.share]
        if arrived < len(arrivals):
            changes.append(arrivals[arrived].submit_ns)
        end_ns = min((change for change in changes if change is not None), default=None)
        if end_ns is None:
            raise Stuck(f"at {now_ns / 1e9:.0f} s {', '.join(list(active)[:5])} hold no containers, and never will")
        _pass(active, capacity, now_ns, end_ns, outcome)
        now_ns = end_ns
    return outcome


def _share_out(
    active: Mapping[str, _Job],
    queues: Sequence[QueueView],
    capacity: Capacity,
    policy: AllocationPolicy,
    now_ns: int,
) -> int | None:
    """Ask the allocation; until when its answer holds."""
    if not active:
        return None
    views = tuple(job.view for job in active.values())
    decision = allocate(policy, ClusterView(now_ns, Known(tuple(queues), views, containers=capacity.at(now_ns))))
    if decision.shares is None:
        raise PolicyError(f"allocation policy {policy.name} gives no shares, and the fluid engine knows nothing else")
    shares = dict(decision.shares)
    for name, job in active.items():
        job.share = min(shares.get(name, 0), job.spec.facts.most_containers)
    until_ns = decision.valid_until_ns
    return until_ns if until_ns is not None and until_ns > now_ns else None


def _pass(active: dict[str, _Job], capacity: Capacity, now_ns: int, end_ns: int, outcome: Outcome) -> None:
    """Time passes: work goes down, jobs end."""
    shares = tuple((name, job.share) for name, job in active.items() if job.share)
    if end_ns > now_ns and active:
        outcome.steps.append(Step(now_ns, end_ns, capacity.at(now_ns), shares))
    for name, job in list(active.items()):
        job.done_ns += job.share * (end_ns - now_ns)
        if job.left_ns <= 0:
            outcome.ends_ns[name] = end_ns
            del active[name]

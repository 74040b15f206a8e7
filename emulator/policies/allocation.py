"""Allocation: the containers that each queue may hold (natjam, sections 3.1 and 5; Hadoop's capacity scheduler)."""

from __future__ import annotations

from emulator.policies.allocation_forms import (
    FLUID,
    AllocationPolicy,
    ExternalAllocation,
    Maximum,
    Outside,
    QueueRules,
    SchedulerAllocation,
    ShareAllocation,
    TakesBack,
)
from emulator.policies.kubernetes.rules import Rules
from emulator.policies.kubernetes.scheduler import KubeScheduler
from emulator.policies.kueue.scheduler import KueueRules, KueueScheduler
from emulator.policies.policy import Axis, Reads
from emulator.policies.queue_order import most_underserved
from emulator.policies.reverse_adaptive.allocations import Cycle, Deadlines, adaptive, fewest_misses, reverse_adaptive
from emulator.policies.shares import Flex, Searching, fair, fifo_by_job, flex, optimum
from emulator.policies.slurm.allocation import SlurmRules, SlurmScheduler
from emulator.policies.views import AllocationDecision, ClusterView
from emulator.policies.yarn import YARN_CAPACITY


def two_queue(view: ClusterView) -> AllocationDecision:
    """The more urgent queue is served first, up to its maximum.  It may reclaim from all less urgent queues, whatever
    their capacity.

    The paper has two queues; here there may be any number.  The first in the file is the most urgent.
    """
    ordered = sorted(view.queues, key=lambda queue: queue.rank)
    order = tuple(queue.name for queue in ordered if queue.used < queue.maximum)
    reclaim = tuple(
        (queue.name, tuple(other.name for other in reversed(ordered) if other.rank > queue.rank))
        for queue in ordered[:-1]
        if queue.used < queue.maximum
    )
    return AllocationDecision(order, reclaim)


def single_queue(view: ClusterView) -> AllocationDecision:
    """Natjam-R: one queue in the order of the job selection; its jobs take containers from the jobs after them.

    There may be any number of priorities.  The Preemptor asks for one container in each of its runs.
    """
    (queue,) = view.queues
    return AllocationDecision(
        (queue.name,), ((queue.name, (queue.name,)),), most_reclaims_in_a_run=1, resumes_first=False
    )


def hard_cap(view: ClusterView) -> AllocationDecision:
    """No queue ever holds more than its capacity; nothing is preempted."""
    return AllocationDecision(most_underserved(queue for queue in view.queues if queue.used < queue.capacity))


def soft_cap(view: ClusterView) -> AllocationDecision:
    """A queue may grow into unused capacity up to its maximum; it shrinks only when its tasks end.

    The most underserved queue (least used / capacity) goes first.
    """
    return AllocationDecision(most_underserved(queue for queue in view.queues if queue.used < queue.maximum))


_READS_FORECAST = frozenset({Reads.FORECAST})
ALLOCATION: Axis[AllocationPolicy] = Axis(
    "allocation",
    (
        AllocationPolicy(
            "two-queue", two_queue, "natjam, section 3", queues=QueueRules(fewest=2, least_urgent_takes=False)
        ),
        AllocationPolicy("single-queue", single_queue, "natjam, section 4", queues=QueueRules(most=1)),
        AllocationPolicy(
            "hard-cap",
            hard_cap,
            "natjam, section 5",
            takes_back=TakesBack.NEVER,
            queues=QueueRules(maximum=Maximum.CAPACITY),
        ),
        AllocationPolicy("soft-cap", soft_cap, "natjam, section 5", takes_back=TakesBack.NEVER),
        YARN_CAPACITY,
        ExternalAllocation(
            "external",
            Outside,
            "your own program; docs/outside.md",
            options=Outside,
        ),
        SchedulerAllocation(
            "kube-scheduler",
            KubeScheduler,
            "kube-scheduler 1.36; docs/kubernetes.md",
            options=Rules,
        ),
        SchedulerAllocation(
            "kueue",
            KueueScheduler,
            "Kueue 0.19; docs/kueue.md",
            options=KueueRules,
            spares=True,
            ends_circles=True,
        ),
        SchedulerAllocation(
            "slurm",
            SlurmScheduler,
            "Slurm 22.05; docs/slurm.md",
            options=SlurmRules,
        ),
        ShareAllocation("fifo", fifo_by_job, "flex, section 4"),
        ShareAllocation("fair", fair, "flex, section 1"),
        ShareAllocation("flex", flex, "flex, section 3", options=Searching),
        # It takes too long for the machines.
        ShareAllocation("optimum", optimum, "flex, section 4.1", options=Flex, engines=FLUID),
        ShareAllocation("adaptive", adaptive, "reverse-adaptive, section IV", reads=_READS_FORECAST, options=Deadlines),
        ShareAllocation(
            "reverse-adaptive",
            reverse_adaptive,
            "reverse-adaptive, section IV",
            reads=_READS_FORECAST,
            options=Deadlines,
        ),
        ShareAllocation(
            "fewest-misses", fewest_misses, "reverse-adaptive, section V-C", reads=_READS_FORECAST, options=Cycle
        ),
    ),
    AllocationPolicy,
)

"""Allocation: the containers that each queue, or each job, may hold."""

from __future__ import annotations

from emulator.policies.job_selection import PRIORITY
from emulator.policies.policy import (
    FLUID,
    AllocationPolicy,
    Axis,
    Elsewhere,
    ExternalCommand,
    QueueRules,
    Reads,
    SchedulerAllocation,
    ShareAllocation,
    TakesBack,
)
from emulator.policies.queues import BY_QUEUES
from emulator.policies.reverse_adaptive.allocations import Cycle, Deadlines, adaptive, fewest_misses, reverse_adaptive
from emulator.policies.shares import Flex, Searching, fair, fifo_by_job, flex, optimum

_READS_FORECAST = frozenset({Reads.FORECAST})


def _external() -> SchedulerAllocation:
    from emulator.policies.schedulers.protocol import ExternalScheduler

    source = "your own program; docs/outside.md"
    return SchedulerAllocation("external", ExternalScheduler, source, options=ExternalCommand, spares=True)


def _kube_scheduler() -> SchedulerAllocation:
    from emulator.policies.kubernetes.scheduler import KubeRules, KubeScheduler

    source = "kube-scheduler 1.36; docs/kubernetes.md"
    return SchedulerAllocation("kube-scheduler", KubeScheduler, source, options=KubeRules)


def _kueue() -> SchedulerAllocation:
    from emulator.policies.kueue.scheduler import KueueRules, KueueScheduler

    source = "Kueue 0.19; docs/kueue.md"
    return SchedulerAllocation("kueue", KueueScheduler, source, options=KueueRules, spares=True, ends_circles=True)


def _slurm() -> SchedulerAllocation:
    from emulator.policies.slurm.scheduler import SlurmRules, SlurmScheduler

    return SchedulerAllocation("slurm", SlurmScheduler, "Slurm 22.05; docs/slurm.md", options=SlurmRules)


def _yarn() -> SchedulerAllocation:
    from emulator.policies.yarn.scheduler import YarnOptions, YarnScheduler

    source = "Hadoop 3.4, CapacityScheduler and ProportionalCapacityPreemptionPolicy; docs/yarn.md"
    return SchedulerAllocation(
        "yarn-capacity",
        YarnScheduler,
        source,
        dictates=PRIORITY,
        options=YarnOptions,
        takes_back=TakesBack.ALWAYS,
        queues=QueueRules(),
        spares=True,
        starts_gangs=False,
    )


ALLOCATION: Axis[AllocationPolicy] = Axis(
    "allocation",
    (
        *BY_QUEUES,
        Elsewhere("yarn-capacity", _yarn),
        Elsewhere("external", _external),
        Elsewhere("kube-scheduler", _kube_scheduler),
        Elsewhere("kueue", _kueue),
        Elsewhere("slurm", _slurm),
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

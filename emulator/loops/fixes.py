"""Which one field of the configuration, changed, ends a loop: each is tried alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from emulator.loops.draw import Plan
from emulator.loops.search import loop_of, search
from emulator.policies.kueue.model import (
    BorrowWithinCohort,
    Cluster,
    ClusterQueue,
    Policy,
    Quota,
    ShareStrategy,
)

MOST_PLAYS = 5_000
"""A fix is searched for other loops with so many plays at most."""
_BATCH = 50


@dataclass(slots=True)
class Fix:
    """One field, and what to set it to."""

    cluster: Cluster
    kind: str
    """Of the object: ``ClusterQueue``, or ``Configuration``, which is Kueue's own."""
    name: str
    field: str
    value: str
    plays: int = 0
    """Played with it so far."""
    has_other: bool = False
    """Whether another loop was found with it."""

    @property
    def text(self) -> str:
        """For a line of output."""
        return f"{self.kind} {self.name}, {self.field}: {self.value}".replace(" ,", ",")


def fixes(plan: Plan, priorities: Sequence[int], seed: str, goes_on: Callable[[], bool]) -> list[Fix]:
    """Each single field that ends the loop of a shrunk plan, searched for other loops while ``goes_on`` allows it.

    All get the same number of plays: other plays than those that found the loop, and plays near it.
    """
    ending = [fix for fix in candidates(plan) if loop_of(replace(plan, cluster=fix.cluster)) is None]
    alive = list(ending)
    while alive and goes_on():
        for fix in alive:
            batch = search(fix.cluster, priorities, f"{seed}/fix", _times(_BATCH, goes_on), fix.plays, plan)
            fix.plays += batch.plays
            fix.has_other = batch.found is not None
        alive = [fix for fix in alive if not fix.has_other and fix.plays < MOST_PLAYS]
    return ending


def _times(most: int, goes_on: Callable[[], bool]) -> Callable[[], bool]:
    """``goes_on``, but not more often than that."""
    numbers = iter(range(most))
    return lambda: next(numbers, None) is not None and goes_on()


def candidates(plan: Plan) -> Iterator[Fix]:
    """Clusters with one field changed: of the queues that take part, then of Kueue's own configuration."""
    cluster = plan.cluster
    taking_part = {arrival.workload.queue for arrival in plan.arrivals}
    for number, queue in enumerate(cluster.queues):
        if queue.name in taking_part:
            for field, value, changed in _of_queue(queue):
                queues = (*cluster.queues[:number], changed, *cluster.queues[number + 1 :])
                yield Fix(replace(cluster, queues=queues), "ClusterQueue", queue.name, field, value)
    for strategies in ((ShareStrategy.FINAL_SHARE,), (ShareStrategy.INITIAL_SHARE,)):
        if cluster.fair_sharing not in (None, strategies):
            changed = replace(cluster, fair_sharing=strategies)
            yield Fix(changed, "Configuration", "", "fairSharing.preemptionStrategies", f"[{strategies[0].value}]")
    if cluster.fair_sharing is not None:
        yield Fix(replace(cluster, fair_sharing=None), "Configuration", "", "fairSharing", "null")


def _of_queue(queue: ClusterQueue) -> Iterator[tuple[str, str, ClusterQueue]]:
    preemption = queue.preemption
    for policy in (Policy.LOWER_PRIORITY, Policy.NEVER):
        if preemption.within_queue not in (policy, Policy.NEVER):
            changed = replace(preemption, within_queue=policy)
            yield "spec.preemption.withinClusterQueue", policy.value, replace(queue, preemption=changed)
        if preemption.reclaim_within_cohort not in (policy, Policy.NEVER):
            changed = replace(preemption, reclaim_within_cohort=policy)
            if policy is Policy.NEVER and preemption.may_borrow:
                continue  # Kueue's API refuses borrowWithinCohort without it: that would be two fields
            yield "spec.preemption.reclaimWithinCohort", policy.value, replace(queue, preemption=changed)
    if preemption.may_borrow:
        changed = replace(preemption, borrow_within_cohort=BorrowWithinCohort())
        yield "spec.preemption.borrowWithinCohort", "{policy: Never}", replace(queue, preemption=changed)
    for strategy in type(queue.strategy):
        if strategy is not queue.strategy:
            yield "spec.queueingStrategy", strategy.value, replace(queue, strategy=strategy)
    if queue.cohort is not None:
        yield from _without_borrowing(queue)


def _without_borrowing(queue: ClusterQueue) -> Iterator[tuple[str, str, ClusterQueue]]:
    """A borrowing limit of 0, for one resource of one flavor."""
    for group_number, group in enumerate(queue.groups):
        for number, flavor in enumerate(group.flavors):
            for resource, quota in flavor.quotas.items():
                if quota.borrowing_limit == 0:
                    continue
                none = Quota(quota.nominal, 0, quota.lending_limit)
                flavors = (
                    *group.flavors[:number],
                    replace(flavor, quotas={**flavor.quotas, resource: none}),
                    *group.flavors[number + 1 :],
                )
                groups = (
                    *queue.groups[:group_number],
                    replace(group, flavors=flavors),
                    *queue.groups[group_number + 1 :],
                )
                field = f"spec.resourceGroups, flavor {flavor.name}, resource {resource}: borrowingLimit"
                yield field, "0", replace(queue, groups=groups)

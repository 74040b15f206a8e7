"""Which fields of the configuration, changed, end loops: each is tried alone, and two together where none is enough.

A change that ends the loop that was found may leave rarer ones.  So it must also end others that the configuration
has, and further ones are searched with it: among drawn workloads, and near every loop that is known, those with other
changes included.  What is left is not proven to have none; ``Fix.plays`` says how much was searched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from emulator.loops.draw import Plan
from emulator.loops.search import Search, loop_of, shrunk
from emulator.policies.kueue.model import (
    BorrowWithinCohort,
    Cluster,
    ClusterQueue,
    Policy,
    Quota,
    ShareStrategy,
)

MOST_PLAYS = 20_000
"""A fix is searched for other loops with so many plays at most."""
_MOST_KNOWN, _PLAYS_TO_KNOW = 10, 1000
"""Loops of the configuration as it is that a fix must end, and plays to find them."""
_MOST_IN_PAIRS = 3
"""Single fixes, those that lasted longest, that are tried with a second one."""
_BATCH = 50


class Change(NamedTuple):
    """One field, and what to set it to."""

    field: str
    """With its object: a ``ClusterQueue``, or Kueue's own ``Configuration``."""
    value: str


@dataclass(slots=True)
class Fix:
    """Changes that end the loops of a configuration that are known."""

    cluster: Cluster
    changes: tuple[Change, ...]
    search: Search | None = None
    """For other loops with it."""
    other: Plan | None = None
    """Another loop that was found with it."""

    @property
    def plays(self) -> int:
        """Played with it so far."""
        return 0 if self.search is None else self.search.plays

    @property
    def text(self) -> str:
        """For a line of output."""
        return ", and ".join(f"{change.field}: {change.value}" for change in self.changes)


@dataclass(slots=True)
class Fixes:
    """What was tried to end the loops of a configuration."""

    loops: int
    """Of the configuration, which each fix ends."""
    tried: list[Fix] = field(default_factory=list)


def fixes(plan: Plan, priorities: Sequence[int], seed: str, goes_on: Callable[[], bool]) -> Fixes:
    """Each single field that ends a shrunk loop and the others of its configuration, searched for further loops while
    ``goes_on`` allows it; then pairs of fields, if a further loop was found with each single one.

    All that are tried at a time get the same number of plays.
    """
    known = _known(plan, priorities, f"{seed}/known", goes_on)
    trial = _Trial(priorities, seed, goes_on, known)
    found = Fixes(len(known), trial.of(candidates(plan)))
    if found.tried and all(fix.other is not None for fix in found.tried):
        longest = sorted(found.tried, key=lambda fix: -fix.plays)[:_MOST_IN_PAIRS]
        found.tried += [fix for fix in trial.of(_pairs(longest)) if fix.plays]  # there may be no time left to search
    return found


def _known(plan: Plan, priorities: Sequence[int], seed: str, goes_on: Callable[[], bool]) -> list[Plan]:
    """The loop, and others of the same configuration."""
    known, searched, few = [plan], Search(plan.cluster, priorities, seed), _times(_PLAYS_TO_KNOW, goes_on)
    while len(known) < _MOST_KNOWN:
        searched.go_on(few)
        if searched.found is None:
            break
        known.append(searched.found)
    return known


@dataclass(slots=True)
class _Trial:
    """Searches for loops with each of some fixes."""

    priorities: Sequence[int]
    seed: str
    goes_on: Callable[[], bool]
    known: list[Plan]
    """Loops that were found, of the configuration as it is or with some change."""

    def of(self, candidates: Iterable[Fix]) -> list[Fix]:
        """Those that end all loops known before, each with the loop that was found with it, if any."""
        before = list(self.known)
        ending = [fix for fix in candidates if not any(_goes_round(loop, fix) for loop in before)]
        alive = ending
        while alive and self.goes_on():
            for fix in alive:
                self._search(fix, alive)
            alive = [fix for fix in alive if fix.other is None and fix.plays < MOST_PLAYS]
        return ending

    def _search(self, fix: Fix, alive: Sequence[Fix]) -> None:
        """Play a few more times with a fix; what goes round is held against the others too."""
        if fix.other is not None:
            return
        if fix.search is None:
            fix.search = Search(fix.cluster, self.priorities, f"{self.seed}/{fix.text}")
        fix.search.go_on(_times(_BATCH, self.goes_on), self.known)
        if fix.search.found is None:
            return
        loop = shrunk(fix.search.found)
        self.known.append(loop)
        for each in alive:
            if each.other is None and (each is fix or _goes_round(loop, each)):
                each.other = loop


def _goes_round(plan: Plan, fix: Fix) -> bool:
    return loop_of(replace(plan, cluster=fix.cluster)) is not None


def _pairs(singles: Iterable[Fix]) -> Iterator[Fix]:
    """Each of these with a second field that ends the loop that was found with it."""
    seen: set[frozenset[Change]] = set()
    for first in singles:
        assert first.other is not None
        for second in candidates(replace(first.other, cluster=first.cluster)):
            changes = (*first.changes, *second.changes)
            if frozenset(changes) not in seen and changes[0].field != changes[1].field:
                seen.add(frozenset(changes))
                yield Fix(second.cluster, changes)


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
            for field_name, value, changed in _of_queue(queue):
                queues = (*cluster.queues[:number], changed, *cluster.queues[number + 1 :])
                change = Change(f"ClusterQueue {queue.name}, {field_name}", value)
                yield Fix(replace(cluster, queues=queues), (change,))
    for strategies in ((ShareStrategy.FINAL_SHARE,), (ShareStrategy.INITIAL_SHARE,)):
        if cluster.fair_sharing not in (None, strategies):
            change = Change("Configuration, fairSharing.preemptionStrategies", f"[{strategies[0].value}]")
            yield Fix(replace(cluster, fair_sharing=strategies), (change,))
    if cluster.fair_sharing is not None:
        yield Fix(replace(cluster, fair_sharing=None), (Change("Configuration, fairSharing", "null"),))


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

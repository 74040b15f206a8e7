"""Which changes of a configuration end loops: those after which an argument says so, and single fields that are tried.

A single field that ends the loop that was found may leave rarer ones.  So it must also end many others that the
configuration has.  Then further ones are searched with it: among drawn workloads, and near every loop that is known,
those with other changes included.  What is left is not proven to have none; ``Fix.plays`` says how much was searched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from emulator.loops.draw import Plan
from emulator.loops.search import Search, loop_of, shrunk
from emulator.policies.kueue.snapshot import Node, Snapshot
from emulator.sites.kueue import (
    BorrowWithinCohort,
    Cluster,
    ClusterQueue,
    FlavorQuotas,
    Policy,
    Quota,
    ShareStrategy,
    Workload,
)

LEAST_PLAYS, MAX_PLAYS = 2000, 20_000
"""A fix without an argument is searched for other loops with so many plays, or is not named."""
_MAX_KNOWN, _PLAYS_TO_KNOW = 60, 1000
"""Loops of the configuration as it is that a fix must end, and plays to find them."""
_MAX_SEARCHED, _PLAYS_TO_CHOOSE = 3, 200
"""Fixes that are searched to the end, so that each gets enough plays: those that had the fewest evictions in the first
plays.  The fewer are left, the less can go round."""
_BATCH = 50


@dataclass(slots=True)
class Fix:
    """Changes that end the loops of a configuration that are known."""

    cluster: Cluster
    """With them."""
    changes: tuple[Change, ...]
    argument: str | None
    """Why nothing can go round with them, if that can be said: no search is needed then."""
    search: Search | None = None
    """For other loops with it."""
    other: Plan | None = None
    """Another loop that was found with it."""

    @property
    def plays(self) -> int:
        """Played with it so far."""
        return 0 if self.search is None else self.search.plays

    @property
    def evictions(self) -> float:
        """The evictions of a play with it."""
        return 0.0 if self.search is None else self.search.evictions / max(1, self.search.plays)

    @property
    def text(self) -> str:
        """For a line of output."""
        return text_of(self.changes)


@dataclass(slots=True)
class Fixes:
    """What was tried to end the loops of a configuration."""

    loops: int
    """The loops of the configuration, which each fix ends."""
    argued: list[Fix]
    """By argument, those with fewest fields first."""
    searched: list[Fix] = field(default_factory=list)
    """One field each, for which no argument is known, and enough plays found no other loop."""
    refuted: list[Fix] = field(default_factory=list)
    """One field each, with which another loop was found."""
    dropped: list[Fix] = field(default_factory=list)
    """One field each, not searched enough to say either."""


def fixes(
    plan: Plan,
    priorities: Sequence[int],
    seed: str,
    goes_on: Callable[[], bool],
    like: Sequence[Workload] = (),
) -> Fixes:
    """The fixes of a shrunk loop and of others of its configuration; searched while ``goes_on`` allows it.

    One after another gets the least plays; then all get the same number.  ``like``: see ``Search``.
    """
    known = _known(plan, Search(plan.cluster, priorities, f"{seed}/known", like), goes_on)
    taking_part = {arrival.workload.queue for arrival in plan.arrivals}
    singles = [_fix(plan.cluster, [change]) for change in single_fields(plan.cluster, taking_part)]
    singles = [fix for fix in singles if fix.argument or not any(_goes_round(loop, fix) for loop in known)]
    argued = {fix.text: fix for fix in singles if fix.argument}
    argued.update((fix.text, fix) for fix in (_fix(plan.cluster, each) for each in for_an_argument(plan.cluster)))
    trial = _Trial(priorities, seed, goes_on, like, known)
    trial.search([fix for fix in singles if not fix.argument])
    return Fixes(len(known), [*argued.values()], trial.searched, trial.refuted, trial.dropped)


def _fix(cluster: Cluster, changes: Sequence[Change]) -> Fix:
    changed = applied(cluster, changes)
    return Fix(changed, tuple(changes), argument(changed))


def _known(plan: Plan, searched: Search, goes_on: Callable[[], bool]) -> list[Plan]:
    """The loop, and others of the same configuration."""
    known, few = [plan], _times(_PLAYS_TO_KNOW, goes_on)
    while len(known) < _MAX_KNOWN:
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
    like: Sequence[Workload]
    known: list[Plan]
    """Loops that were found, of the configuration as it is or with some change."""
    searched: list[Fix] = field(default_factory=list)
    refuted: list[Fix] = field(default_factory=list)
    dropped: list[Fix] = field(default_factory=list)

    def search(self, fixes: Sequence[Fix]) -> None:
        """Sort them by what is found: first among all of them, then among the few that had fewest evictions."""
        for fix in fixes:
            fix.search = Search(fix.cluster, self.priorities, f"{self.seed}/{fix.text}", self.like)
        left = sorted(self._left_after(_PLAYS_TO_CHOOSE, fixes), key=lambda fix: fix.evictions)
        chosen = left[:_MAX_SEARCHED]
        self.dropped += left[_MAX_SEARCHED:]
        for fix in chosen:
            while fix.other is None and fix.plays < LEAST_PLAYS and self.goes_on():
                self._play(fix, chosen)
        for fix in self._left_after(MAX_PLAYS, [fix for fix in chosen if fix.other is None]):
            (self.dropped if fix.plays < LEAST_PLAYS else self.searched).append(fix)
        self.refuted += [fix for fix in fixes if fix.other is not None]

    def _left_after(self, plays: int, fixes: Sequence[Fix]) -> list[Fix]:
        """Those with which so many plays find nothing."""
        left = list(fixes)
        while self.goes_on() and any(fix.plays < plays for fix in left):
            for fix in left:
                self._play(fix, left)
            left = [fix for fix in left if fix.other is None]
        return left

    def _play(self, fix: Fix, left: Sequence[Fix]) -> None:
        """Play a few more times with a fix; what goes round is held against the others too."""
        if fix.other is not None or fix.search is None:
            return
        fix.search.go_on(_times(_BATCH, self.goes_on), self.known)
        if fix.search.found is None:
            return
        loop = shrunk(fix.search.found)
        self.known.append(loop)
        for each in left:
            if each.other is None and (each is fix or _goes_round(loop, each)):
                each.other = loop


def _goes_round(plan: Plan, fix: Fix) -> bool:
    return loop_of(replace(plan, cluster=fix.cluster)) is not None


def _times(most: int, goes_on: Callable[[], bool]) -> Callable[[], bool]:
    """``goes_on``, but not more often than that."""
    numbers = iter(range(most))
    return lambda: next(numbers, None) is not None and goes_on()


# Changes of a configuration that may end a circle: single fields, and those after which an argument rules it out.


_BORROW = "spec.preemption.borrowWithinCohort"
_MAX_NAMED = 4


class Change(NamedTuple):
    """One or two fields of one object, and what to set them to."""

    of: str
    """The name of a ClusterQueue, or empty: Kueue's own Configuration."""
    text: str
    """Each field with its value."""
    made: Callable[[Cluster], Cluster]
    fields: int = 1


def applied(cluster: Cluster, changes: Iterable[Change]) -> Cluster:
    """The cluster with changes."""
    for change in changes:
        cluster = change.made(cluster)
    return cluster


def text_of(changes: Iterable[Change]) -> str:
    """For a line of output; queues with the same change are named together."""
    queues: dict[str, list[str]] = {}
    for change in changes:
        queues.setdefault(change.text, []).append(change.of)
    return ", and ".join(f"{_named(names)}, {text}" for text, names in queues.items())


def _named(names: list[str]) -> str:
    if names == [""]:
        return "Configuration"
    if len(names) > _MAX_NAMED:
        names = [*names[: _MAX_NAMED - 1], f"{len(names) - _MAX_NAMED + 1} more"]
    *others, last = names
    return f"ClusterQueues {', '.join(others)} and {last}" if others else f"ClusterQueue {last}"


def single_fields(cluster: Cluster, names: Iterable[str]) -> Iterator[Change]:
    """Changes of one field: of these queues, then of Kueue's own configuration.

    Switching fair sharing off is not among them: other workloads would then preempt, so known loops say nothing of it.
    """
    names = set(names)
    for queue in cluster.queues:
        if queue.name in names:
            yield from (change for change in _of_queue(queue) if change.fields == 1)
    for strategies in ((ShareStrategy.FINAL_SHARE,), (ShareStrategy.INITIAL_SHARE,)):
        if cluster.fair_sharing not in (None, strategies):
            text = f"fairSharing.preemptionStrategies: [{strategies[0].value}]"
            yield Change("", text, lambda given, fair=strategies: replace(given, fair_sharing=fair))


def for_an_argument(cluster: Cluster) -> list[list[Change]]:
    """The changes of a tree after which ``arguments`` has one, each way to it; fewest fields first."""
    apart = [_leaves(queue) for queue in cluster.queues[1:]]
    own = [change for queue in cluster.queues for change in _borrows_nothing(queue)]
    reclaims = [
        _reclaims(queue, Policy.NEVER)
        for queue in cluster.queues
        if queue.preemption.reclaim_within_cohort is not Policy.NEVER
    ]
    within = [
        _preempts_within(queue, Policy.NEVER)
        for queue in cluster.queues
        if queue.preemption.within_queue is not Policy.NEVER
    ]
    return sorted((apart, own, [*reclaims, *within]), key=lambda changes: sum(each.fields for each in changes))


ALONE = "no two queues share quota"
NO_BORROWING = "no queue can borrow"
NO_PREEMPTION = "no queue preempts"


def argument(cluster: Cluster) -> str | None:
    """Why nothing can go round in any tree of the cluster's queues, whatever arrives; None: no argument applies.

    Within one queue there is no circle.  A preemptor is ahead of its victims there, by priority or age, and stays the
    head until it starts.  So of what is admitted, written down from the first in the queue's order to the last, the
    first place that changes goes from waiting to admitted; and this can happen only so many times.  What is left to
    show is that nobody outside the queue takes part: no other queue shares its quota, or none can borrow, so that each
    always has all of its own.  And where no queue preempts, nobody is evicted.

    Other configurations may be free of circles too.  These are those of which it can be said.  That others preempt
    nobody is not enough: what such a queue waits for may be kept for it in the cycle in which a preemptor's victims are
    going, and then the victims are admitted again before their preemptor.
    """
    trees: dict[Node, list[Node]] = {}
    snapshot = Snapshot(cluster)
    for queue in snapshot.queues.values():
        trees.setdefault(queue.root, []).append(queue)
    found = {_of_tree(queues, snapshot.cells) for queues in trees.values()}
    return None if None in found else "; ".join(sorted(filter(None, found)))


def _of_tree(queues: Sequence[Node], cells: Mapping[tuple[str, str], int]) -> str | None:
    preemption = [queue.settings.preemption for queue in queues]
    if all(each.reclaim_within_cohort is each.within_queue is Policy.NEVER for each in preemption):
        return NO_PREEMPTION
    if len(queues) == 1:
        return ALONE
    return None if any(_can_borrow(queue, cells) for queue in queues) else NO_BORROWING


def _can_borrow(queue: Node, cells: Mapping[tuple[str, str], int]) -> bool:
    """Whether it could get more than its own quota of something."""
    own = [
        cells[flavor.name, resource]
        for group in queue.settings.groups
        for flavor in group.flavors
        for resource in flavor.quotas
    ]
    return any(queue.potential[cell] > queue.nominal[cell] for cell in own)


def _of_queue(queue: ClusterQueue) -> Iterator[Change]:
    preemption = queue.preemption
    for policy in (Policy.LOWER_PRIORITY, Policy.NEVER):
        if preemption.within_queue not in (policy, Policy.NEVER):
            yield _preempts_within(queue, policy)
        if preemption.reclaim_within_cohort not in (policy, Policy.NEVER):
            yield _reclaims(queue, policy)
    if preemption.may_borrow:
        yield _changed(queue, f"{_BORROW}: {{policy: Never}}", _preemption(borrow_within_cohort=BorrowWithinCohort()))
    for strategy in type(queue.strategy):
        if strategy is not queue.strategy:
            made = partial(replace, strategy=strategy)
            yield _changed(queue, f"spec.queueingStrategy: {strategy.value}", made)
    if queue.cohort is not None:
        yield _leaves(queue)
        yield from _borrows_nothing(queue)


def _changed(queue: ClusterQueue, text: str, made: Callable[[ClusterQueue], ClusterQueue], fields: int = 1) -> Change:
    def of_cluster(cluster: Cluster) -> Cluster:
        queues = (made(each) if each.name == queue.name else each for each in cluster.queues)
        return replace(cluster, queues=tuple(queues))

    return Change(queue.name, text, of_cluster, fields)


def _preemption(**fields: Any) -> Callable[[ClusterQueue], ClusterQueue]:
    return lambda queue: replace(queue, preemption=replace(queue.preemption, **fields))


def _preempts_within(queue: ClusterQueue, policy: Policy) -> Change:
    return _changed(queue, f"spec.preemption.withinClusterQueue: {policy.value}", _preemption(within_queue=policy))


def _reclaims(queue: ClusterQueue, policy: Policy) -> Change:
    """Kueue's API refuses borrowWithinCohort without it: that then is a second field."""
    text = f"spec.preemption.reclaimWithinCohort: {policy.value}"
    if policy is Policy.NEVER and queue.preemption.may_borrow:
        made = _preemption(reclaim_within_cohort=policy, borrow_within_cohort=BorrowWithinCohort())
        return _changed(queue, f"{text}, {_BORROW}: {{policy: Never}}", made, 2)
    return _changed(queue, text, _preemption(reclaim_within_cohort=policy))


def _leaves(queue: ClusterQueue) -> Change:
    """Without a cohort; Kueue's API refuses limits then."""
    quotas = [quota for group in queue.groups for flavor in group.flavors for quota in flavor.quotas.values()]
    limits = sum((quota.borrowing_limit, quota.lending_limit) != (None, None) for quota in quotas)
    text = "spec.cohortName: null" + ", and no borrowingLimit or lendingLimit" * bool(limits)
    made = _with_quotas(lambda flavor, resource, quota: Quota(quota.nominal))
    return _changed(queue, text, lambda given: replace(made(given), cohort=None), 1 + limits)


def _borrows_nothing(queue: ClusterQueue) -> Iterator[Change]:
    """A borrowing limit of 0, for one resource of one flavor."""
    for group in queue.groups:
        for flavor in group.flavors:
            for resource, quota in flavor.quotas.items():
                if quota.borrowing_limit != 0:
                    text = f"spec.resourceGroups, flavor {flavor.name}, resource {resource}: borrowingLimit: 0"
                    yield _changed(queue, text, _with_quotas(partial(_none_borrowed, (flavor.name, resource))))


def _none_borrowed(which: tuple[str, str], flavor: str, resource: str, quota: Quota) -> Quota:
    return Quota(quota.nominal, 0, quota.lending_limit) if (flavor, resource) == which else quota


def _with_quotas(made: Callable[[str, str, Quota], Quota]) -> Callable[[ClusterQueue], ClusterQueue]:
    """Each quota of a queue made again from its flavor, its resource and what it was."""

    def of_flavor(flavor: FlavorQuotas) -> FlavorQuotas:
        quotas = {resource: made(flavor.name, resource, quota) for resource, quota in flavor.quotas.items()}
        return replace(flavor, quotas=quotas)

    def of_queue(queue: ClusterQueue) -> ClusterQueue:
        groups = (replace(group, flavors=tuple(map(of_flavor, group.flavors))) for group in queue.groups)
        return replace(queue, groups=tuple(groups))

    return of_queue

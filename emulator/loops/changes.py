"""Changes of a configuration that may end a circle: single fields, and those after which an argument rules it out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from emulator.policies.kueue.snapshot import Node, Snapshot
from emulator.sites.kueue import BorrowWithinCohort, Cluster, ClusterQueue, FlavorQuotas, Policy, Quota, ShareStrategy

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

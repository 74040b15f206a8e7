"""Configurations that cannot preempt in a circle, whatever arrives, with the argument why.

Within one queue there is no circle.  A preemptor is ahead of its victims there, by priority or age, and stays the head
until it starts.  So of what is admitted, written down from the first in the queue's order to the last, the first place
that changes goes from waiting to admitted; and this can happen only so many times.  What is left to show is that nobody
outside the queue takes part: no other queue shares its quota, or none can borrow, so that each always has all of its
own.  And where no queue preempts, nobody is evicted.

Other configurations may be free of circles too.  These are those of which it can be said.  That others preempt nobody
is not enough: what such a queue waits for may be kept for it in the cycle in which a preemptor's victims are going, and
then the victims are admitted again before their preemptor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from emulator.policies.kueue.snapshot import Node, Snapshot
from emulator.sites.kueue import Cluster, Policy

ALONE = "no two queues share quota"
NO_BORROWING = "no queue can borrow"
NO_PREEMPTION = "no queue preempts"


def argument(cluster: Cluster) -> str | None:
    """Why nothing can go round in any tree of the cluster's queues; None: no argument applies."""
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

"""Preemption under fair sharing: the queue with the largest share loses first.

https://kueue.sigs.k8s.io/docs/concepts/preemption/#fair-sharing.  It reads top to bottom: collect, hold a tournament,
compare shares, give back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from emulator.policies.kueue.candidates import (
    Request,
    Target,
    candidates_in,
    fits,
    give_back,
    may_reclaim,
    restore,
)
from emulator.policies.kueue.model import Reason
from emulator.policies.kueue.snapshot import NOTHING, Held, Node, Share
from emulator.sites.kueue import ShareStrategy


@dataclass(slots=True)
class _Search:
    """One search; the preemptor's request counts as its queue's usage while shares are compared."""

    request: Request
    waiting: dict[Node, list[Held]]
    """Candidates left, by queue, the next one last."""
    below: dict[Node, list[Node]] = field(default_factory=dict)
    """The part of the tree that has candidates: the children of each cohort."""
    own: frozenset[Node] = frozenset()
    """The preemptor's queue and the cohorts above it."""
    targets: list[Target] = field(default_factory=list)
    refused: dict[Node, list[Held]] = field(default_factory=dict)
    """The first that each queue refused to give."""

    def __post_init__(self) -> None:
        self.own = frozenset(self.request.node.path())
        self.look_at(self.waiting)

    def look_at(self, waiting: dict[Node, list[Held]]) -> None:
        """Begin with these candidates."""
        self.waiting, self.below = waiting, {}
        for queue in waiting:
            for node in queue.path():
                if node.parent is not None and node not in (children := self.below.setdefault(node.parent, [])):
                    children.append(node)

    def share(self, node: Node) -> Share:
        return self.request.snapshot.share(node)

    def take(self, held: Held, reason: Reason, shares: tuple[float, float] | None = None) -> bool:
        """Take a candidate away; whether that was enough."""
        request = self.request
        request.snapshot.take(held)
        self.targets.append(Target(held, reason, shares))
        request.node.remove(request.amounts)
        enough = fits(request)
        request.node.add(request.amounts)
        return enough


def fair_targets(request: Request, strategies: tuple[ShareStrategy, ...]) -> list[Target]:
    """Whom the request preempts; empty if nobody, or not enough, may go.  The snapshot is left as it was."""
    search = _Search(request, _candidates(request))
    request.node.add(request.amounts)
    enough = _first_round(search, strategies[0])
    if not enough and len(strategies) > 1:
        search.look_at(search.refused)
        enough = _second_round(search)
    request.node.remove(request.amounts)
    if enough:
        search.targets = give_back(request, search.targets)
    restore(request.snapshot, search.targets)
    return search.targets if enough else []


def _candidates(request: Request) -> dict[Node, list[Held]]:
    """By queue: its own, and of every queue in the tree that borrows something contested."""
    found: dict[Node, list[Held]] = {}
    for queue in _queues_below(request.node.root):
        borrows = not queue.is_stopped and queue.is_above(request.contested)
        if queue is request.node or (borrows and may_reclaim(request, queue)):
            held = list(candidates_in(request, queue))
            if held:
                found[queue] = held[::-1]
    return found


def _queues_below(node: Node) -> Iterator[Node]:
    if node.queue is not None:
        yield node
    yield from node.queues
    for cohort in node.cohorts:
        yield from _queues_below(cohort)


def _first_round(search: _Search, strategy: ShareStrategy) -> bool:
    own = search.request.node
    within = not own.is_above(search.request.contested)
    while (queue := _largest(search)) is not None:
        waiting = search.waiting[queue]
        if queue is own:
            if search.take(waiting.pop(), Reason.IN_CLUSTER_QUEUE):
                return True
        elif within:
            if search.take(waiting.pop(), Reason.RECLAMATION):
                return True
        elif _next_that_gives(search, strategy, queue):
            return True
    return False


def _next_that_gives(search: _Search, strategy: ShareStrategy, queue: Node) -> bool:
    """Take the queue's next candidate that the shares let go, if any; whether that was enough."""
    mine, theirs = _below_common(search.request.node, queue)
    own, before = search.share(mine), search.share(theirs)
    waiting = search.waiting[queue]
    while waiting:
        held = waiting.pop()
        if strategy is ShareStrategy.INITIAL_SHARE:
            against, gives = before, own < before
        else:
            queue.remove(held.amounts)
            against = search.share(theirs)
            queue.add(held.amounts)
            gives = own <= against
        if gives:
            return search.take(held, Reason.FAIR_SHARING, (own[1], against[1]))
        search.refused.setdefault(queue, [held])
    return False


def _second_round(search: _Search) -> bool:
    """Each queue's first refused candidate may go if its queue had more than the preemptor will have."""
    while (queue := _largest(search)) is not None:
        mine, theirs = _below_common(search.request.node, queue)
        own, before = search.share(mine), search.share(theirs)
        held = search.waiting[queue].pop()
        if own < before and search.take(held, Reason.FAIR_SHARING, (own[1], before[1])):
            return True
    return False


def _below_common(mine: Node, theirs: Node) -> tuple[Node, Node]:
    """The ancestors of both right below their lowest common cohort, the queues themselves included."""
    above = {node.parent: node for node in mine.path()}
    for node in theirs.path():
        if node.parent in above:
            return above[node.parent], node
    raise AssertionError("the queues are of one tree")


def _largest(search: _Search) -> Node | None:
    """The queue that loses next: from the root, always the child with the largest share.  None: nobody is left."""
    root = search.request.node.root
    alive = _alive(search)
    if root not in alive:
        return None
    node = root
    while node.queue is None:
        node = _largest_child(search, node, alive)
    return node


def _largest_child(search: _Search, cohort: Node, alive: dict[Node, Share]) -> Node:
    """The child with the largest share; of equal ones a cohort, else the queue with the better candidate."""
    children = [child for child in search.below[cohort] if child in alive]
    most = max(alive[child] for child in children)
    equal = [child for child in children if alive[child] == most]
    cohorts = {child.name: child for child in equal if child.queue is None}
    if not cohorts:
        return min(equal, key=lambda child: _rank(search, child))
    return cohorts[search.request.ties(sorted(cohorts)) if len(cohorts) > 1 else next(iter(cohorts))]


def _rank(search: _Search, queue: Node) -> tuple[object, ...]:
    """How soon the queue's next candidate would go; other queues' before the preemptor's own."""
    evicted, *rest = search.waiting[queue][-1].key
    return (evicted, queue is search.request.node, *rest)


def _alive(search: _Search) -> dict[Node, Share]:
    """The nodes with a candidate that borrow something, or are the preemptor's, with their shares."""
    alive: dict[Node, Share] = {}

    def look(node: Node) -> bool:
        share = search.share(node)
        if share == NOTHING and node not in search.own:
            return False
        if node.queue is not None:
            has_candidates = bool(search.waiting.get(node))
        else:
            below = [look(child) for child in search.below.get(node, ())]
            has_candidates = any(below)
        if has_candidates:
            alive[node] = share
        return has_candidates

    look(search.request.node.root)
    return alive

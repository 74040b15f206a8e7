"""Classical preemption: candidates by how close their cohort is, passes with and without borrowing.

https://kueue.sigs.k8s.io/docs/concepts/preemption/#candidates-ordering and, for cohorts of cohorts, the section on
hierarchical reclaim.  It reads top to bottom: collect, order, walk, give back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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
from emulator.policies.kueue.snapshot import Held, Node
from emulator.sites.kueue import Policy


@dataclass(frozen=True, slots=True)
class _Candidate:
    held: Held
    reason: Reason
    while_borrowing: bool
    """Whether it may go to a preemptor that borrows."""
    between: tuple[Node, ...] = ()
    """Its queue and the cohorts below the one that it shares with the preemptor."""


def classical_targets(request: Request) -> list[Target]:
    """Whom the request preempts; empty if nobody, or not enough, may go.  The snapshot is left as it was."""
    node, snapshot = request.node, request.snapshot
    hierarchical, by_priority = _elsewhere(request)
    own = [_Candidate(held, Reason.IN_CLUSTER_QUEUE, True) for held in candidates_in(request, node)]
    ordered = _ordered(hierarchical, by_priority, own)
    for may_borrow in _passes(request, bool(hierarchical), bool(hierarchical or by_priority)):
        targets: list[Target] = []
        for candidate in ordered:
            if not candidate.while_borrowing and may_borrow:
                continue
            if not all(between.is_above(request.contested) for between in candidate.between):
                continue
            snapshot.take(candidate.held)
            targets.append(Target(candidate.held, candidate.reason))
            if fits(request, may_borrow):
                targets = give_back(request, targets, may_borrow)
                restore(snapshot, targets)
                return targets
        restore(snapshot, targets)
    return []


def _passes(request: Request, has_hierarchical: bool, has_others: bool) -> tuple[bool, ...]:
    """Whether it may borrow, pass by pass."""
    node = request.node
    may_borrow = node.settings.preemption.may_borrow
    below = all(node.usage[cell] < node.nominal[cell] for cell in request.contested)
    if not has_others or (not may_borrow and not below):
        return (True,)
    if not may_borrow and not has_hierarchical:
        return (False, True)
    return (True, False)


def _elsewhere(request: Request) -> tuple[list[_Candidate], list[_Candidate]]:
    """Candidates of other queues: those that hierarchical reclaim may take, and those that priority alone lets it take.

    Going up from the queue, the part of the tree that is new at each cohort is collected.  Once the request fits the
    quota of a node below, it reclaims what is its own, and borrowing is no question any more.
    """
    hierarchical: list[_Candidate] = []
    by_priority: list[_Candidate] = []
    if not may_reclaim(request, request.node.root):
        return hierarchical, by_priority
    below, asked, has_room = request.node, dict(request.amounts), False
    while below.parent is not None:
        has_room = has_room or not below.borrows(asked)
        asked = {cell: max(0, amount - max(0, below.local[cell] - below.usage[cell])) for cell, amount in asked.items()}
        found = _in_subtree(request, below.parent, below, ())
        if has_room:
            hierarchical += (_Candidate(held, Reason.RECLAMATION, True, between) for held, between in found)
        else:
            by_priority += (_by_priority(request, held, between) for held, between in found)
        below = below.parent
    return hierarchical, by_priority


def _in_subtree(
    request: Request, cohort: Node, seen: Node, above: tuple[Node, ...]
) -> Iterator[tuple[Held, tuple[Node, ...]]]:
    """Candidates below a cohort, with the nodes between; those who are within their quota lend and are not asked."""
    for child in cohort.cohorts:
        if child is not seen and child.is_above(request.contested) and may_reclaim(request, child):
            yield from _in_subtree(request, child, seen, (*above, child))
    for queue in cohort.queues:
        if queue is request.node or queue.is_stopped:
            continue
        if queue.is_above(request.contested) and may_reclaim(request, queue):
            for held in candidates_in(request, queue):
                yield held, (queue, *above)


def _by_priority(request: Request, held: Held, between: tuple[Node, ...]) -> _Candidate:
    borrow = request.node.settings.preemption.borrow_within_cohort
    priority, most = held.workload.priority, borrow.max_priority
    may = (
        borrow.policy is not Policy.NEVER
        and priority < request.workload.priority
        and (most is None or priority <= most)
    )
    return _Candidate(held, Reason.WHILE_BORROWING if may else Reason.RECLAMATION, may, between)


def _ordered(*kinds: list[_Candidate]) -> list[_Candidate]:
    """Those whose eviction is under way first; then kind by kind, each in the order of ``Held.key``."""
    ranked = [(rank, candidate) for rank, kind in enumerate(kinds) for candidate in kind]
    ranked.sort(key=lambda each: (each[1].held.key[0], each[0], each[1].held.key))
    return [candidate for _, candidate in ranked]

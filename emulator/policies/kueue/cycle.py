"""One scheduling cycle: nominate the heads, put them in order, admit or preempt one after another.

All heads get flavors and victims on the cluster as it is at the start.  Then each in its order takes what is left by
those before it.  A preemptor is not admitted: it must win again in a later cycle, when its victims have gone.

Where admissions are blocked while pods are not ready (``waitForPodsReady.blockAdmission``), the cycle waits before each
admission.  When it goes on, it admits what it has decided before, on the cluster as it was.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from emulator.policies.kueue.assigner import nominate
from emulator.policies.kueue.candidates import Target, restore
from emulator.policies.kueue.model import Assignment, Mode, Ties, Victim
from emulator.policies.kueue.queues import Queues, Waiting
from emulator.policies.kueue.snapshot import Node, Share, Snapshot
from emulator.sites.kueue import Policy, Workload
from emulator.vocabulary import Frozen


class Outcome(StrEnum):
    """What a cycle does with a head."""

    ADMITTED = "admitted"
    PREEMPTS = "preempts"
    """Its victims are evicted, or still being so."""
    NO_ROOM = "no room"
    """No flavor can have it as the cluster is."""
    NO_VICTIMS = "no victims"
    """It would have to preempt, and whom it may preempt is not enough."""
    VICTIMS_TAKEN = "victims taken"
    """Another preemptor of the cycle has a victim of its own."""
    ROOM_TAKEN = "room taken"
    """Those before it in the cycle have taken its room."""
    EXCLUDED = "excluded"
    """Its queue does not admit workloads of its namespace."""


class Decision(Frozen):
    """What a cycle did with one head."""

    workload: Workload
    outcome: Outcome
    assignment: Assignment
    victims: tuple[Victim, ...] = ()
    evicted: tuple[str, ...] = ()
    """Those of the victims whose eviction begins now."""
    aside: bool = False
    """Whether it waits now until quota is freed."""


@dataclass(slots=True)
class _Cycle:
    snapshot: Snapshot
    victims: dict[str, Target] = field(default_factory=dict)
    """The victims of the preemptors so far."""
    counted: list[tuple[Node, Mapping[int, int]]] = field(default_factory=list)
    """Usage that is held until the cycle ends: of preemptors, and of those who found no victims."""

    def count(self, head: Waiting, amounts: Mapping[int, int]) -> None:
        head.node.add(amounts)
        self.counted.append((head.node, amounts))


RunningCycle = Generator[list[Decision], None, list[Decision]]


def run_cycle(snapshot: Snapshot, queues: Queues, number: int, ties: Ties, blocks: bool = False) -> RunningCycle:
    """Run cycle ``number`` at ``snapshot.now_ns``: changes the snapshot and the queues, and returns what it did, in the
    order it was decided.

    ``blocks``: it yields what it did so far before each admission, and goes on when pods are ready.
    """
    heads = queues.heads()
    excluded = [head for head in heads if queues.is_excluded(head)]
    for head in excluded:
        queues.exclude(head)
    heads = [head for head in heads if head not in excluded]
    for head in heads:
        _nominate(snapshot, head, number, ties)
    cycle = _Cycle(snapshot)
    outcomes: list[tuple[Waiting, Outcome, tuple[str, ...]]] = []
    yielded: list[Decision] = []
    for head in in_order(snapshot, heads):
        outcome = _decide(cycle, head)
        if outcome is Outcome.ADMITTED:
            if blocks:
                now = [_decision(*each) for each in outcomes if each[1] in (Outcome.ADMITTED, Outcome.PREEMPTS)]
                yield now[len(yielded) :]
                yielded = now
            assignment = head.nomination.assignment
            snapshot.admit(head.workload, assignment.flavors, snapshot.now_ns, assignment.counts)
        evicted = [
            target.held for target in head.nomination.targets if not target.held.evicted and outcome is Outcome.PREEMPTS
        ]
        for held in evicted:
            snapshot.evict(held)
        outcomes.append((head, outcome, tuple(held.workload.name for held in evicted)))
    for node, amounts in cycle.counted:
        node.remove(amounts)
    decisions = [_conclude(queues, *each) for each in outcomes]
    decisions = [each for each in decisions if each not in yielded]
    nothing = Assignment(Mode.NO_FIT)
    return [*decisions, *(Decision(head.workload, Outcome.EXCLUDED, nothing, aside=True) for head in excluded)]


def advance(cycle: RunningCycle) -> tuple[list[Decision], bool]:
    """What a cycle does until it waits, or ends; and whether it has ended."""
    try:
        return next(cycle), False
    except StopIteration as end:
        return end.value, True


def _nominate(snapshot: Snapshot, head: Waiting, number: int, ties: Ties) -> None:
    """Choose a head's flavors and victims; they are as in its last cycle, if nothing has changed in its tree."""
    basis = snapshot.revisions[head.node.root], head.begin(number)
    if head.basis != basis:
        head.basis, head.nomination = basis, nominate(snapshot, head.workload, ties, basis[1], head.only)
    head.goes_on, head.last_cycle, head.freed_since = head.nomination.assignment.goes_on, number, False


def _decide(cycle: _Cycle, head: Waiting) -> Outcome:
    assignment = head.nomination.assignment
    if assignment.mode is Mode.NO_FIT:
        return Outcome.NO_ROOM
    if assignment.mode is Mode.PREEMPT and not head.nomination.targets:
        if head.node.settings.preemption.reclaim_within_cohort is not Policy.ANY:
            cycle.count(head, _kept_for(head))
        return Outcome.NO_VICTIMS
    if any(target.held.workload.name in cycle.victims for target in head.nomination.targets):
        return Outcome.VICTIMS_TAKEN
    going = [*cycle.victims.values(), *head.nomination.targets]
    for target in going:
        cycle.snapshot.take(target.held)
    has_room = head.node.fits(head.nomination.amounts)
    restore(cycle.snapshot, going)
    if not has_room:
        return Outcome.ROOM_TAKEN
    if head.nomination.targets:
        cycle.victims.update((target.held.workload.name, target) for target in head.nomination.targets)
        cycle.count(head, head.nomination.amounts)
        return Outcome.PREEMPTS
    return Outcome.ADMITTED


def _kept_for(head: Waiting) -> dict[int, int]:
    """What one who found no victims keeps from those after it: its request, within what its queue may use."""
    node, kept = head.node, {}
    for cell, amount in head.nomination.amounts.items():
        limit = node.borrowing[cell]
        if head.nomination.assignment.borrow == 0:
            amount = min(amount, node.nominal[cell] - node.usage[cell])
        elif limit is not None:
            amount = min(amount, node.nominal[cell] + limit - node.usage[cell])
        kept[cell] = max(0, amount)
    return kept


def _conclude(queues: Queues, head: Waiting, outcome: Outcome, evicted: tuple[str, ...]) -> Decision:
    """Put a head back in its queue if it has not started; a preemptor will look at all flavors again."""
    aside = False
    if outcome is not Outcome.ADMITTED:
        at_once = outcome in (Outcome.PREEMPTS, Outcome.VICTIMS_TAKEN, Outcome.ROOM_TAKEN)
        if outcome is Outcome.PREEMPTS:
            head.goes_on = ()
            queues.preempts(head)
        aside = queues.back(head, at_once)
    return _decision(head, outcome, evicted, aside)


def _decision(head: Waiting, outcome: Outcome, evicted: tuple[str, ...], aside: bool = False) -> Decision:
    victims = tuple(target.victim() for target in head.nomination.targets)
    return Decision(head.workload, outcome, head.nomination.assignment, victims, evicted, aside)


def in_order(snapshot: Snapshot, heads: Sequence[Waiting]) -> Iterator[Waiting]:
    """The heads as they are served; under fair sharing each choice sees what those before it have taken.

    Classical: who borrows less high, then by priority, then by age.
    """
    if snapshot.fair is None:
        by_priority = snapshot.cluster.sorts_by_priority
        yield from sorted(heads, key=lambda head: (head.nomination.assignment.borrow, _turn(head, by_priority)))
        return
    trees: dict[Node, dict[Node, Waiting]] = {}
    for head in heads:
        trees.setdefault(head.node.root, {})[head.node] = head
    for root, left in trees.items():
        while left:
            winner = left.pop(_Tournament(snapshot, left).winner(root).node)
            yield winner


def _turn(head: Waiting, by_priority: bool) -> tuple[object, ...]:
    """Who goes first of two heads that borrow alike."""
    return head.key if by_priority else head.key[1:]


class _Tournament:
    """From the root down: who would have the lowest share after admission, those that do not borrow first."""

    def __init__(self, snapshot: Snapshot, left: dict[Node, Waiting]) -> None:
        self._snapshot = snapshot
        self._left = left
        self._by_node: dict[tuple[Node, Waiting], tuple[bool, Share]] = {}
        for head in left.values():
            self._weigh(head)

    def winner(self, root: Node) -> Waiting:
        """The head that is served next."""
        found = self._best(root)
        assert found is not None
        return found

    def _weigh(self, head: Waiting) -> None:
        requested = [cell for cell, amount in head.nomination.amounts.items() if amount]
        head.node.add(head.nomination.amounts)
        for node in head.node.path():
            self._by_node[node, head] = (node.is_above(requested), self._snapshot.share(node))
        head.node.remove(head.nomination.amounts)

    def _best(self, node: Node) -> Waiting | None:
        if node.queue is not None:
            return self._left.get(node)
        below = [(child, best) for child in (*node.cohorts, *node.queues) if (best := self._best(child)) is not None]
        if not below:
            return None
        by_priority = self._snapshot.cluster.sorts_by_priority
        return min(below, key=lambda each: (*self._by_node[each], _turn(each[1], by_priority)))[1]

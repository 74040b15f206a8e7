"""Who may be preempted for a request, and what both ways of preemption share: trying, and giving back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from emulator.policies.kueue.model import Reason, Ties, Victim
from emulator.policies.kueue.snapshot import Held, Node, Snapshot
from emulator.sites.kueue import Policy, Workload
from emulator.vocabulary import Frozen


class Request(Frozen):
    """What a workload asks for, by cell, and which of these cells have no room."""

    snapshot: Snapshot
    node: Node
    """Its queue."""
    workload: Workload
    amounts: Mapping[int, int]
    contested: frozenset[int]
    ties: Ties


class Target(Frozen):
    """A candidate that was taken, and why it could be."""

    held: Held
    reason: Reason
    shares: tuple[float, float] | None = None

    def victim(self) -> Victim:
        """It as an answer."""
        workload = self.held.workload
        return Victim(workload.name, workload.queue, self.reason, workload.priority, self.shares)


def may_preempt(request: Request) -> bool:
    """Whether anybody at all has a priority that lets the preemptor take it; most often nobody has."""
    node = request.node
    return _may_take(request, node.settings.preemption.within_queue, node) or may_reclaim(request, node.root)


def may_reclaim(request: Request, node: Node) -> bool:
    """The same for those of another queue, or below a cohort."""
    return _may_take(request, request.node.settings.preemption.reclaim_within_cohort, node)


def _may_take(request: Request, policy: Policy, node: Node) -> bool:
    if policy is Policy.NEVER:
        return False
    lowest, own = request.snapshot.lowest_priority(node), request.workload.priority
    return lowest < own or policy is Policy.ANY or (lowest == own and policy is not Policy.LOWER_PRIORITY)


def candidates_in(request: Request, queue: Node) -> Iterator[Held]:
    """The workloads of a queue that use a contested cell and that the preemptor's policy lets it take, ranked."""
    preemption = request.node.settings.preemption
    policy = preemption.within_queue if queue is request.node else preemption.reclaim_within_cohort
    if policy is Policy.NEVER:
        return
    own, now_ns = request.workload, request.snapshot.now_ns
    for held in request.snapshot.ranked(queue):
        other = held.workload
        if policy is not Policy.ANY and other.priority >= own.priority:
            may_be_newer = policy is not Policy.LOWER_PRIORITY and other.priority == own.priority
            if not may_be_newer and not held.evicted:
                return  # all after it are too high as well
            if not may_be_newer or other.created_ns <= own.created_ns:
                continue
        if held.spared_until_ns <= now_ns and not request.contested.isdisjoint(held.amounts):
            yield held


def fits(request: Request, may_borrow: bool = True) -> bool:
    """Whether the request has room now; without borrowing, within its queue's own quota of everything it asks for."""
    node, amounts = request.node, request.amounts
    return node.fits(amounts) and (may_borrow or not node.borrows(amounts))


def give_back(request: Request, targets: list[Target], may_borrow: bool = True) -> list[Target]:
    """Put back whoever need not go after all, and take the others' places.

    From the last but one to the first.  The gap is filled with the last of the list: the order is not the candidates'.
    The last one taken is needed, or the search would have ended before it.
    """
    for index in range(len(targets) - 2, -1, -1):
        request.snapshot.put(targets[index].held)
        if fits(request, may_borrow):
            targets[index] = targets[-1]
            targets.pop()
        else:
            request.snapshot.take(targets[index].held)
    return targets


def restore(snapshot: Snapshot, targets: Iterable[Target]) -> None:
    """Put all of them back."""
    for target in targets:
        snapshot.put(target.held)

"""Which containers a round takes.

The applications of a queue give from the last of its order: first what they have reserved, then their containers, those
of the largest priority number first, and of these the newest request.  A container is taken if it makes some of what is
obtained free, and fits what the round may still take; the last one may be one too many.  ApplicationMasters are exempt,
unless those of the queue hold more than its guarantee.

Before that, ``select_based_on_reserved_containers`` makes room for what is reserved, on its node.  After it,
``intra_queue`` makes the applications of a queue give to those of higher priority (``priority_first``): what the queue
holds is shared by priority, and what those of lower priority hold beyond that is asked back for what those of higher
priority lack.

(Hadoop 3.4: ``ReservedContainerCandidatesSelector``, ``FifoCandidatesSelector``, ``IntraQueueCandidatesSelector``.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from emulator.policies.resources import fits, lacking, minus, plus, total
from emulator.policies.yarn.amounts import Amounts, exact
from emulator.policies.yarn.ideal import Need, assign
from emulator.policies.yarn.options import YarnPreemption
from emulator.vocabulary import Resources


class Held(msgspec.Struct, frozen=True):
    """A container of an application, or what it has reserved for one."""

    name: str
    amount: Resources
    node: str = ""
    priority: int = 0
    """The number of its request's priority: the smallest is the most urgent."""
    request: int = 0
    """The number of its request: the largest is the newest."""
    is_master: bool = False
    number: int = 0
    """Its own number in the cluster: the largest is the newest container."""
    is_exempt: bool = False
    """Whether it is never a victim."""

    @property
    def is_spared(self) -> bool:
        """Whether it is no victim as long as its queue's ApplicationMasters hold no more than its guarantee."""
        return self.is_master or self.is_exempt


class Application(msgspec.Struct, frozen=True):
    """An application of a queue, with what it holds."""

    name: str
    priority: int
    pending: Resources
    """What it asks for, also what of it is reserved."""
    containers: Sequence[Held]
    reserved: Sequence[Held] = ()
    leaving: Sequence[Held] = ()
    """Containers that are killed already, and still on their nodes."""

    @property
    def masters(self) -> list[Held]:
        """The container of its ApplicationMaster, if it has it and may give it."""
        return [held for held in self.containers if held.is_master and not held.is_exempt]

    @property
    def victims(self) -> list[Held]:
        """Its other containers, in the order in which they go."""
        tasks = (held for held in self.containers if not held.is_spared)
        return sorted(tasks, key=lambda held: (held.priority, held.request, held.number), reverse=True)


class RoundVictims:
    """The containers that a round would take."""

    def __init__(self, amounts: Amounts) -> None:
        self.chosen: dict[str, None] = {}
        self.spent = amounts.none
        """What they hold together."""
        self.looked_at: set[str] = set()
        """Those that were looked at while there was still something to obtain."""
        self._amounts = amounts

    def take(self, name: str, frees: Resources) -> None:
        """This container goes."""
        self.chosen[name] = None
        self.spent = plus(self.spent, frees)

    def choose(
        self,
        obtained: Resources,
        allowed: Resources,
        containers: Iterable[tuple[str, Resources]],
        enough_of_any: bool = False,
    ) -> list[str]:
        """Of these containers, each with what it would make free, those that go, one after another.

        ``allowed``: how much the whole round may take.  ``enough_of_any``: none goes any more once there is enough of
        one resource.
        """
        none, found, left = self._amounts.none, list[str](), obtained
        asked = [place for place, each in enumerate(left) if each > 0]
        for name, frees in containers:
            if not self._amounts.some(left) or (enough_of_any and any(left[place] <= 0 for place in asked)):
                break
            self.looked_at.add(name)
            after = minus(left, frees)
            helps = self._amounts.more(lacking(left, none), lacking(after, none))
            if helps and name not in self.chosen and fits(plus(self.spent, frees), allowed):
                found.append(name)
                self.take(name, frees)
                left = after
        return found


class Selected(NamedTuple):
    """The containers, and what is reserved, that a round selects, by the rule that selects them."""

    for_reserved: list[str]
    across_queues: list[str]
    inside_queues: list[str]
    given_up: list[str]
    """What is reserved and given up at once, by which an application gave: also what was too large to be selected."""


def select(
    root: Need,
    applications: Mapping[str, Sequence[Application]],
    free: Mapping[str, Resources],
    preemption: YarnPreemption,
    amounts: Amounts,
) -> Selected:
    """What a round selects; sets what is computed for each queue on the way.

    ``applications``: of each leaf by its name, the last of its order first.  ``free``: what each node has free.
    """
    victims = RoundVictims(amounts)
    for_reserved: list[str] = []
    if preemption.select_based_on_reserved_containers:
        assign(root, preemption, True, amounts)
        for_reserved = _for_reserved(root, applications, free, victims)
    allowed = assign(root, preemption, preemption.additional_res_balance_based_on_reserved_containers, amounts)
    _deduct_chosen(root, applications, victims, amounts)
    across = [
        name for leaf in root.leaves for name in _across(leaf, applications[leaf.name], allowed, victims, amounts)
    ]
    inside: list[str] = []
    if preemption.intra_queue:
        demanded = [
            (leaf, *_demanded(leaf, applications[leaf.name], allowed, victims, preemption, amounts))
            for leaf in root.leaves
            if amounts.some(leaf.pending)
        ]
        _deduct_chosen(root, applications, victims, amounts)
        for leaf, givers, amount in demanded:
            tasks = _victims_of(each for each in applications[leaf.name] if each.name in givers)
            inside += victims.choose(amount, allowed, tasks, enough_of_any=True)
    reserved = (each.name for leaf in root.leaves for one in applications[leaf.name] for each in one.reserved)
    return Selected(for_reserved, across, inside, [name for name in reserved if name in victims.looked_at])


def _victims_of(applications: Iterable[Application]) -> Iterator[tuple[str, Resources]]:
    return ((held.name, held.amount) for application in applications for held in application.victims)


def _deduct_chosen(
    root: Need, applications: Mapping[str, Sequence[Application]], victims: RoundVictims, amounts: Amounts
) -> None:
    """What is chosen of a queue already is not obtained once more: each container that is less than what is."""
    for leaf in root.leaves:
        held = (each for application in applications[leaf.name] for each in application.containers)
        for each in held:
            if each.name in victims.chosen and amounts.more(leaf.to_obtain, each.amount):
                leaf.to_obtain = minus(leaf.to_obtain, each.amount)


def _across(
    queue: Need,
    applications: Sequence[Application],
    allowed: Resources,
    victims: RoundVictims,
    amounts: Amounts,
) -> list[str]:
    """What a queue gives."""
    held = [(each.name, each.amount) for one in applications for each in (*one.reserved, *one.victims)]
    masters = [each for application in applications for each in application.masters]
    together = total((each.amount for each in masters), amounts.none)
    for each in masters:
        if not amounts.more(together, queue.guaranteed):
            break
        held.append((each.name, each.amount))
        together = minus(together, each.amount)
    return victims.choose(queue.to_obtain, allowed, held)


# ---- for what is reserved ----


def _for_reserved(
    root: Need,
    applications: Mapping[str, Sequence[Application]],
    free: Mapping[str, Resources],
    victims: RoundVictims,
) -> list[str]:
    """On each node with something reserved, the newest containers that make room for it; first where least goes."""
    left = {queue.name: queue.to_obtain for queue in root.leaves}
    held = [
        (queue, each)
        for queue, ones in applications.items()
        for one in ones
        for each in (*one.containers, *one.leaving)
    ]
    held.sort(key=lambda pair: pair[1].number, reverse=True)
    rooms = [
        _room(lacking(each.amount, free[each.node]), [pair for pair in held if pair[1].node == each.node], left)
        for ones in applications.values()
        for one in ones
        for each in one.reserved
    ]
    found: list[str] = []
    for room in sorted(rooms, key=lambda room: total((each.amount for _, each in room), ())):
        if all(fits(each.amount, left[queue]) for queue, each in room):
            for queue, each in room:
                left[queue] = minus(left[queue], each.amount)
                victims.take(each.name, each.amount)
                found.append(each.name)
    return found


def _room(
    lacks: Resources, on_node: Iterable[tuple[str, Held]], to_obtain: Mapping[str, Resources]
) -> list[tuple[str, Held]]:
    """Of these containers, the first that make free what is lacking; none if they cannot."""
    room, left = list[tuple[str, Held]](), dict(to_obtain)
    for queue, each in on_node:
        if any(lacks) and not each.is_spared and fits(each.amount, left[queue]):
            left[queue] = minus(left[queue], each.amount)
            lacks = lacking(lacks, each.amount)
            room.append((queue, each))
    return [] if any(lacks) else room


# ---- the applications of a queue ----


class Claim(msgspec.Struct):
    """One application of a queue, for what they give each other."""

    name: str
    priority: int
    tasks: Resources
    """What its containers hold, its ApplicationMaster's left out."""
    pending: Resources
    chosen: Resources
    """What of its containers goes already."""
    lacks: Resources = ()
    can_give: Resources = ()
    gives: Resources = ()


def _demanded(
    queue: Need,
    applications: Sequence[Application],
    allowed: Resources,
    victims: RoundVictims,
    preemption: YarnPreemption,
    amounts: Amounts,
) -> tuple[set[str], Resources]:
    none = amounts.none
    claims = [
        Claim(
            application.name,
            application.priority,
            total((held.amount for held in application.victims), none),
            application.pending,
            total((held.amount for held in application.victims if held.name in victims.chosen), none),
        )
        for application in applications
    ]
    # An application without a container waits for that of its ApplicationMaster, which counts as held.
    masters = [
        total((held.amount for held in application.containers if held.is_spared), none)
        if application.containers
        else application.pending
        for application in applications
    ]
    return demanded(queue, claims, total(masters, none), lacking(allowed, victims.spent), preemption, amounts)


def demanded(
    queue: Need,
    claims: Sequence[Claim],
    masters: Resources,
    round_left: Resources,
    preemption: YarnPreemption,
    amounts: Amounts,
) -> tuple[set[str], Resources]:
    """The applications of a queue that give to those of higher priority, and how much in total.

    ``claims``: the last of the queue's order first; ``masters``: what their ApplicationMasters hold or wait for;
    ``round_left``: how much the round may still take.
    """
    threshold = exact(preemption.intra_queue_minimum_threshold)
    if len(claims) < 2 or not amounts.some(queue.guaranteed):
        return set(), amounts.none
    if amounts.ratio(queue.used, queue.guaranteed) < threshold:
        return set(), amounts.none
    most = amounts.part(queue.guaranteed, exact(preemption.intra_queue_max_allowable_limit))
    limit = amounts.smaller(lacking(most, queue.to_obtain), round_left)
    from_lowest = sorted(claims, key=lambda claim: claim.priority)
    _share_by_priority(from_lowest, minus(minus(queue.used, queue.to_obtain), masters), limit, amounts)
    for high in reversed(from_lowest):
        for low in from_lowest:
            if low.priority < high.priority:
                given = amounts.smaller(high.lacks, minus(low.can_give, low.gives))
                high.lacks, low.gives = minus(high.lacks, given), plus(low.gives, given)
    givers = [claim for claim in claims if amounts.some(claim.gives)]
    return {claim.name for claim in givers}, total((claim.gives for claim in givers), amounts.none)


def _share_by_priority(claims: Sequence[Claim], left: Resources, limit: Resources, amounts: Amounts) -> None:
    """Set what each lacks and can give; ``claims``: of the lowest priority first."""
    none = amounts.none
    ideals: dict[str, Resources] = {}
    for claim in reversed(claims):
        keeps, ideal = minus(claim.tasks, claim.chosen), none
        if min(left) > 0:
            ideal = amounts.smaller(left, plus(keeps, claim.pending))
        claim.lacks = minus(ideal, keeps) if amounts.more(ideal, keeps) else none
        claim.can_give = claim.gives = none
        left, ideals[claim.name] = lacking(left, ideal), ideal
    for claim in claims:
        if amounts.some(limit):
            beyond = lacking(lacking(lacking(claim.tasks, ideals[claim.name]), claim.chosen), none)
            claim.can_give = amounts.smaller(beyond, limit)
            limit = lacking(limit, claim.can_give)

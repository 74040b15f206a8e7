"""Which flavors a workload gets (https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/#flavors-and-resources).

Podset by podset, group by group, flavors in the queue's order.  A flavor is as good as its worst resource.  The search
ends at one that is good enough for the queue's ``flavorFungibility``; where none is, it takes the best.

Where all pods of a workload neither fit nor find victims, it may do with fewer (``nominate``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from msgspec.structs import replace

from emulator.policies.kueue.candidates import Request, Target, may_preempt, restore
from emulator.policies.kueue.classical import classical_targets
from emulator.policies.kueue.fair import fair_targets
from emulator.policies.kueue.model import Assignment, Counts, Flavors, Mode, Ties, Tried
from emulator.policies.kueue.snapshot import Node, Snapshot, amounts_of
from emulator.sites.kubernetes import Effect, Taint
from emulator.sites.kueue import Flavor, FlavorPolicy, PodSet, Policy, ResourceGroup, Workload

FROM_THE_FIRST: Mapping[tuple[int, int], int] = {}


@dataclass(slots=True)
class _Search:
    """The flavors found so far for one workload."""

    snapshot: Snapshot
    node: Node
    workload: Workload
    ties: Ties
    begin: Mapping[tuple[int, int], int]
    only: Flavors
    taken: dict[int, int] = field(default_factory=dict)
    """By cell, for the podsets before."""
    flavors: list[dict[str, str]] = field(default_factory=list)
    contested: dict[tuple[str, str], None] = field(default_factory=dict)
    tried: list[Tried] = field(default_factory=list)
    goes_on: list[tuple[int, int, int]] = field(default_factory=list)
    mode: Mode = Mode.FIT
    borrow: int = 0

    def result(self) -> Assignment:
        mode = Mode.PREEMPT if Mode.NO_FIT < self.mode < Mode.FIT else self.mode
        flavors = tuple(self.flavors) if mode is not Mode.NO_FIT else ()
        return Assignment(mode, flavors, tuple(self.contested), self.borrow, tuple(self.tried), tuple(self.goes_on))


def targets_of(request: Request) -> list[Target]:
    """Whom a request preempts, in either way."""
    if not may_preempt(request):
        return []
    strategies = request.snapshot.fair
    return classical_targets(request) if strategies is None else fair_targets(request, strategies)


def assign_flavors(
    snapshot: Snapshot,
    workload: Workload,
    ties: Ties,
    begin: Mapping[tuple[int, int], int] = FROM_THE_FIRST,
    only: Flavors = (),
    counts: Counts = (),
) -> Assignment:
    """The flavors of a workload.

    Args:
        snapshot: the cluster.
        workload: who asks.
        ties: chooses among equal cohorts.
        begin: by podset and group, the flavor to begin with if not the first.
        only: the flavors that it must get, if it is not free to choose.
        counts: how many pods of each podset it asks for, if not for all.
    """
    search = _Search(snapshot, snapshot.queues[workload.queue], workload, ties, begin, only)
    for number, podset in enumerate(workload.podsets):
        if not _assign_podset(search, number, podset, counts[number] if counts else podset.count):
            search.mode = Mode.NO_FIT
            search.goes_on = [each for each in search.goes_on if each[0] != number]
            break
    return search.result()


class Nomination(NamedTuple):
    """The flavors of a workload, and whom it preempts for them."""

    assignment: Assignment
    amounts: Mapping[int, int] = MappingProxyType({})
    """What it asks for, by cell."""
    targets: Sequence[Target] = ()

    @property
    def may_start(self) -> bool:
        """Whether it fits, now or when its victims are gone."""
        return self.assignment.mode is Mode.FIT or bool(self.targets)


def nominate(
    snapshot: Snapshot,
    workload: Workload,
    ties: Ties,
    begin: Mapping[tuple[int, int], int] = FROM_THE_FIRST,
    only: Flavors = (),
) -> Nomination:
    """Flavors and victims of a workload; with fewer pods, if all of them neither fit nor find victims.

    The number of pods goes down in steps, from all to the fewest that each podset can do with.  As in Kueue, the first
    step that is enough is searched by halving, so it is the first only if all after it are enough too.
    """

    def nomination(counts: Counts) -> Nomination:
        assignment = assign_flavors(snapshot, workload, ties, begin, only, counts)
        if assignment.mode is Mode.NO_FIT:
            return Nomination(assignment)
        amounts = amounts_of(workload.podsets, assignment.flavors, snapshot.cells, counts)
        if assignment.mode is Mode.FIT:
            return Nomination(assignment, amounts)
        contested = frozenset(snapshot.cells[pair] for pair in assignment.contested)
        request = Request(snapshot, snapshot.queues[workload.queue], workload, amounts, contested, ties)
        return Nomination(assignment, amounts, targets_of(request))

    found = nomination(())
    spare = [podset.spare for podset in workload.podsets]
    steps = sum(spare)
    if found.may_start or not steps:
        return found

    def at(step: int) -> Counts:
        return tuple(podset.count - few * step // steps for podset, few in zip(workload.podsets, spare, strict=True))

    tried = dict[int, Nomination]()
    last = bisect_left(range(steps + 1), True, key=lambda step: tried.setdefault(step, nomination(at(step))).may_start)
    if last > steps:
        return found
    fewer = tried[last]
    return fewer._replace(assignment=replace(fewer.assignment, counts=at(last)))


def _assign_podset(search: _Search, number: int, podset: PodSet, count: int) -> bool:
    """Whether each of its resources got a flavor."""
    chosen: dict[str, str] = {}
    requests = podset.requests
    for index, group in enumerate(search.node.settings.groups):
        asked = {resource: count * requests[resource] for resource in group.resources if resource in requests}
        if asked:
            best = _best_flavor(search, (number, index), podset, group, asked)
            if best is None:
                return False
            chosen.update(dict.fromkeys(asked, best))
    if len(chosen) < len(requests) and any(count * requests[each] for each in requests.keys() - chosen.keys()):
        return False
    for resource, flavor in chosen.items():
        cell = search.snapshot.cells[flavor, resource]
        search.taken[cell] = search.taken.get(cell, 0) + count * requests[resource]
    search.flavors.append(chosen)
    return True


class _Found(NamedTuple):
    """A flavor's resources as they were found."""

    flavor: str
    worst: Tried
    modes: Mapping[str, Mode]
    borrow: int
    """The level of the resource that borrows highest."""


def _rank(node: Node, found: Tried) -> tuple[int, int, int]:
    """How good a flavor is, or a resource in it, for the workloads of a queue."""
    if not node.settings.fungibility.prefers_preemption or found.mode <= Mode.NO_CANDIDATES:
        return (found.mode, -found.borrow, 0)
    return (Mode.PREEMPT, -found.borrow, found.mode)


def _best_flavor(
    search: _Search, place: tuple[int, int], podset: PodSet, group: ResourceGroup, asked: Mapping[str, int]
) -> str | None:
    """The flavor for a group's resources; None if none fits."""
    best: _Found | None = None
    last = len(group.flavors) - 1
    bound = search.only[place[0]].values() if search.only else None
    for index in range(search.begin.get(place, 0), len(group.flavors)):
        name = group.flavors[index].name
        if bound is not None and name not in bound:
            continue
        flavor = search.snapshot.flavors.get(name)
        if flavor is not None and (why := why_excluded(flavor, podset)):
            search.tried.append(Tried(podset.name, name, Mode.NO_FIT, 0, group.resources[0], 0, 0, why))
            continue
        found = _look_at(search, podset.name, name, asked)
        search.tried.append(found.worst)
        ends = _is_good_enough(search.node, found.worst)
        if best is None or ends or _rank(search.node, found.worst) > _rank(search.node, best.worst):
            best = found
        if ends:
            if index < last and bound is None:
                search.goes_on.append((*place, index + 1))
            break
    if best is None or best.worst.mode is Mode.NO_FIT:
        return None
    search.mode = min(search.mode, best.worst.mode)
    search.borrow = max(search.borrow, best.borrow)
    search.contested.update({(best.flavor, each): None for each, mode in best.modes.items() if mode is not Mode.FIT})
    return best.flavor


def _is_good_enough(node: Node, found: Tried) -> bool:
    """Whether the search ends here."""
    fungibility = node.settings.fungibility
    if found.mode <= Mode.NO_CANDIDATES:
        return False
    if found.mode < Mode.FIT and fungibility.when_can_preempt is FlavorPolicy.TRY_NEXT_FLAVOR:
        return False
    return found.borrow == 0 or fungibility.when_can_borrow is FlavorPolicy.MAY_STOP_SEARCH


def _look_at(search: _Search, podset: str, flavor: str, asked: Mapping[str, int]) -> _Found:
    """One flavor for all of a group's resources, with what earlier podsets take of it."""
    modes: dict[str, Mode] = {}
    worst: Tried | None = None
    highest = 0
    for resource, amount in asked.items():
        cell = search.snapshot.cells[flavor, resource]
        amount += search.taken.get(cell, 0)
        room = search.node.available(cell)
        mode, borrow = _mode(search, cell, amount, room)
        modes[resource] = mode
        highest = max(highest, borrow)
        tried = Tried(podset, flavor, mode, borrow, resource, amount, room)
        if worst is None or _rank(search.node, tried) < _rank(search.node, worst):
            worst = tried
    assert worst is not None
    return _Found(flavor, worst, modes, highest)


def _mode(search: _Search, cell: int, amount: int, room: int) -> tuple[Mode, int]:
    """How well one resource fits, and how high it borrows; the preemptor is asked for this resource alone."""
    node, preemption = search.node, search.node.settings.preemption
    borrow, below_root = node.lowest_with_room(cell, amount)
    if amount > node.potential[cell]:
        return Mode.NO_FIT, borrow
    if amount <= room:
        return Mode.FIT, borrow
    by_fairness = search.snapshot.fair is not None and preemption.reclaim_within_cohort is not Policy.NEVER
    if not (amount <= node.nominal[cell] or below_root or preemption.may_borrow or by_fairness):
        return Mode.NO_FIT, borrow
    request = Request(search.snapshot, node, search.workload, {cell: amount}, frozenset((cell,)), search.ties)
    targets = targets_of(request)
    if not targets:
        return Mode.NO_CANDIDATES, borrow
    for target in targets:
        search.snapshot.take(target.held)
    borrow, _ = node.lowest_with_room(cell, amount)
    restore(search.snapshot, targets)
    own = any(target.held.node is node for target in targets)
    return Mode.PREEMPT if own else Mode.RECLAIM, borrow


# ---- which flavors a podset may have at all: those whose nodes its pods do not exclude ----
#
# https://kueue.sigs.k8s.io/docs/concepts/resource_flavor/ and https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/.
# Kueue 0.19.2 looks, for a flavor, at the labels that this flavor itself has.  What a podset wants of another label is
# ignored there, even if other flavors of its queue have the label; earlier versions looked at the labels of all.


def why_excluded(flavor: Flavor, podset: PodSet) -> str:
    """Why the podset may not have the flavor, in words; empty: it may."""
    for taint in flavor.taints:
        if taint.effect is not Effect.PREFER_NO_SCHEDULE and not _is_tolerated(taint, flavor, podset):
            return f"its pods do not tolerate the taint {taint.key}={taint.value}:{taint.effect}"
    for key, value in podset.selector.items():
        if flavor.labels.get(key, value) != value:
            return f"its pods select nodes with {key}={value}, and these have {flavor.labels[key]}"
    if not _meets_affinity(flavor, podset):
        return "the node affinity of its pods excludes these nodes"
    return ""


def _is_tolerated(taint: Taint, flavor: Flavor, podset: PodSet) -> bool:
    return any(each.tolerates(taint) for each in (*podset.tolerations, *flavor.tolerations))


def _meets_affinity(flavor: Flavor, podset: PodSet) -> bool:
    """Whether one of the terms holds.  Only what is about the flavor's own labels counts; one left empty holds."""
    if not podset.affinity:
        return True
    terms = [[each for each in term.expressions if each.key in flavor.labels] for term in podset.affinity]
    if not all(terms):
        return True
    return any(all(each.matches(flavor.labels[each.key]) for each in term) for term in terms)

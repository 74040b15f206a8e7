"""The cluster while a decision is made: what is on each node, and who is nominated to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import TypeVar

from emulator.policies.kubernetes.filters import Domain, DryRun, FitError, conflicts, fit_error
from emulator.policies.kubernetes.memory import MAX_SHAPES, Shape, View, shape_of
from emulator.policies.kubernetes.terms import IN_KUBERNETES, Terms
from emulator.sites.kubernetes import ZONE, Bound, Budget, BudgetSpec, Node, Pending, Pod, State

AnswerT = TypeVar("AnswerT")


class NodeInfo:
    """A node with its pods, in the order in which they came."""

    __slots__ = ("bound", "budgets", "defaulted", "node", "nominated", "priorities", "used")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.bound: dict[str, Bound] = {}
        self.nominated: dict[str, Pod] = {}
        """Pods that wait for this node."""
        self.used: Counter[str] = Counter()
        self.defaulted: Counter[str] = Counter()
        """How many pods request nothing of a resource."""
        self.priorities: Counter[int] = Counter()
        """How many pods have each."""
        self.budgets: Counter[str] = Counter()
        """How many pods each counts."""

    def add(self, bound: Bound, sign: int = 1) -> None:
        """A pod comes; with ``sign`` -1 it goes."""
        if sign > 0:
            self.bound[bound.pod.name] = bound
        else:
            del self.bound[bound.pod.name]
        self.priorities[bound.pod.priority] += sign
        requests = bound.pod.requests
        for resource, amount in requests.items():
            self.used[resource] += sign * amount
        for resource in ("cpu", "memory"):
            if resource not in requests:
                self.defaulted[resource] += sign


class Snapshot:
    """All nodes, in the order in which kube-scheduler looks at them."""

    def __init__(self, state: State, terms: Terms = IN_KUBERNETES) -> None:
        self.terms = terms
        self.rooms = {node.name: NodeInfo(node) for node in in_turn(state.nodes)}
        self.groups = {group.name: group for group in state.groups}
        self.members: Counter[str] = Counter()
        """How many bound pods each group has."""
        self.healthy: Counter[str] = Counter()
        """How many bound pods that do not terminate each budget counts."""
        self._budgets = state.budgets
        self._changes: list[str] = []
        """The nodes of which something changed, one after another."""
        self._moves: list[tuple[Bound, int]] = []
        """Who came (1) and went (-1), one after another."""
        self._moves_of_unsociable: list[tuple[Bound, int]] = []
        """Those of pods with an anti-affinity of their own."""
        self._views: dict[tuple[Shape, frozenset[tuple[Domain, int]]], View] = {}
        self._closed: dict[Shape, tuple[int, Counter[Domain]]] = {}
        self._counted: dict[str, tuple[str, ...]] = {}
        """The budgets of each bound pod."""
        self._nodes: dict[str, str] = {}
        """The node of each bound pod."""
        self._labels_matter = False
        """Some pod has, or had, an anti-affinity."""
        for bound in state.bound:
            self.add(bound)
        for pending in state.waiting:
            self.nominate(pending.pod, None, pending.nominated)

    def copy(self) -> Snapshot:
        """One to try things in."""
        rooms = self.rooms.values()
        waiting = (Pending(pod, room.node.name) for room in rooms for pod in room.nominated.values())
        nodes = tuple(room.node for room in rooms)
        state = State(nodes, tuple(self.bound()), tuple(waiting), self._budgets, tuple(self.groups.values()))
        return Snapshot(state, self.terms)

    @property
    def budgets(self) -> tuple[Budget, ...]:
        """As they stand."""
        return self._budgets

    def restand(self, specs: Iterable[BudgetSpec]) -> None:
        """The budgets allow more or less than before, for the pods that are healthy now."""
        budgets = tuple(each.standing(self.healthy[each.name]) for each in specs)
        changed = [new.name for old, new in zip(self._budgets, budgets, strict=True) if old != new]
        self._budgets = budgets
        if changed:
            self._changes += (name for name, room in self.rooms.items() if any(map(room.budgets.get, changed)))

    def __getitem__(self, name: str) -> Bound:
        """A bound pod."""
        return self.rooms[self._nodes[name]].bound[name]

    def __contains__(self, name: str) -> bool:
        return name in self._nodes

    def bound(self) -> Iterator[Bound]:
        """All bound pods."""
        return (bound for room in self.rooms.values() for bound in room.bound.values())

    def add(self, bound: Bound) -> None:
        """A pod is bound."""
        name = bound.pod.name
        self.rooms[bound.node].add(bound)
        self._nodes[name] = bound.node
        self._counted[name] = tuple(each.name for each in self._budgets if each.counts(bound.pod))
        self._count(bound, 1)

    def remove(self, name: str) -> Bound:
        """A pod has gone."""
        bound = self[name]
        self.rooms[bound.node].add(bound, -1)
        self._count(bound, -1)
        del self._nodes[name], self._counted[name]
        return bound

    def _count(self, bound: Bound, sign: int) -> None:
        self._changes.append(bound.node)
        self._moves.append((bound, sign))
        if bound.pod.group:
            self.members[bound.pod.group] += sign
        if bound.pod.anti_affinity:
            self._moves_of_unsociable.append((bound, sign))
            self._labels_matter = True
        for budget in self._counted[bound.pod.name]:
            self.rooms[bound.node].budgets[budget] += sign
            self.healthy[budget] += sign * (not bound.terminating)

    def change(self, bound: Bound) -> None:
        """A bound pod is the same but for its state."""
        name, room = bound.pod.name, self.rooms[bound.node]
        for budget in self._counted[name]:
            self.healthy[budget] += room.bound[name].terminating - bound.terminating
        room.bound[name] = bound
        self._changes.append(bound.node)

    def nominate(self, pod: Pod, before: str | None, after: str | None) -> None:
        """A waiting pod's nominated node changes."""
        self._labels_matter |= bool(pod.anti_affinity)
        if before in self.rooms:
            self.rooms[before].nominated.pop(pod.name, None)
            self._changes.append(before)
        if after in self.rooms:
            self.rooms[after].nominated[pod.name] = pod
            self._changes.append(after)

    def view(self, pod: Pod) -> View:
        """What is known of the nodes for a pod, as for any of its shape that is nominated nowhere."""
        shape = shape_of(pod, self._labels_matter)
        closed = self.closed(pod, shape)
        key = shape, frozenset(closed.items())
        view = self._views.get(key)
        if view is None:
            if len(self._views) >= MAX_SHAPES:
                del self._views[next(iter(self._views))]
            view = self._views[key] = View(pod, closed)
        return view

    def fit_errors(self, view: View) -> Mapping[str, FitError | None]:
        """Why such a pod does not fit on each node; None: it fits."""
        return view.misfits.now(
            self.rooms, self._changes, lambda name: self.fit_error(self.rooms[name], view.pod, view.closed)
        )

    def victims(self, view: View, ask: Callable[[str], AnswerT]) -> Mapping[str, AnswerT]:
        """What ``ask`` answers for such a pod on each node."""
        return view.victims.now(self.rooms, self._changes, ask)

    def closed(self, pod: Pod, shape: Shape) -> Counter[Domain]:
        """How many reasons close a domain to a pod: its own anti-affinity, or that of those placed."""
        if not (self._labels_matter or pod.anti_affinity):
            return Counter()
        moves = self._moves if pod.anti_affinity else self._moves_of_unsociable
        seen, found = self._closed.get(shape, (0, Counter[Domain]()))
        if seen < len(moves):
            found = found.copy()
            for bound, sign in moves[seen:]:
                for domain in conflicts(pod, bound.pod, self.rooms[bound.node].node):
                    found[domain] += sign
            found = +found
            self._closed[shape] = len(moves), found
        return found

    def fit_error(self, room: NodeInfo, pod: Pod, closed: Counter[Domain]) -> FitError | None:
        """Why a pod does not fit on a node as it is."""
        if room.nominated:
            return self.dry_run(room, pod, closed).fit_error()
        return fit_error(room.node, pod, room.used, len(room.bound), closed)

    def dry_run(self, room: NodeInfo, pod: Pod, closed: Counter[Domain]) -> DryRun:
        """A node for a pod, with those nominated there as if placed, if their priority is at least the pod's."""
        trial = DryRun(room.node, pod, room.used, len(room.bound), closed)
        trial.put(each for each in room.nominated.values() if each.priority >= pod.priority and each.name != pod.name)
        return trial


def in_turn(nodes: tuple[Node, ...]) -> Iterator[Node]:
    """One node of each zone in turn; those without a zone are one zone."""
    zones: dict[str | None, list[Node]] = {}
    for node in nodes:
        zones.setdefault(node.label(ZONE), []).append(node)
    for turn in zip_longest(*zones.values()):
        yield from (node for node in turn if node is not None)

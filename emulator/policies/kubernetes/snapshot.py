"""The cluster while a decision is made: what is on each node, and who is nominated to it.

How pods of one shape fit on each node is remembered, and looked at again only where something has changed: a scheduler
looks at the same pods again and again, because whoever waits is woken whenever a pod leaves any node.  What is
remembered equals what would be found by looking at all nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from emulator.policies.kubernetes.filters import Domain, DryRun, FitError, conflicts, fit_error
from emulator.policies.kubernetes.terms import IN_KUBERNETES, Terms
from emulator.sites.kubernetes import HOSTNAME, ZONE, Bound, Budget, BudgetSpec, Node, Pending, Pod, State

AnswerT = TypeVar("AnswerT")
Shape = str
MAX_SHAPES = 2000
"""Remembered at once: one with a hundred nodes takes some ten thousand bytes."""
_HIGHEST = 1 << 31
"""A priority above all others."""


def shape_of(pod: Pod, labels_matter: bool) -> Shape:
    """All of a pod that decides where it fits and whom it preempts; its labels only where somebody avoids some."""
    labels = pod.labels if labels_matter or pod.anti_affinity else {}
    return repr(replace(pod, name="", labels=labels))


class Answers(Generic[AnswerT]):
    """One answer for each node.  A mapping that was given out stays as it is."""

    __slots__ = ("_by_node", "_seen")

    def __init__(self) -> None:
        self._by_node: dict[str, AnswerT] = {}
        self._seen = 0

    def now(
        self, nodes: Mapping[str, object], changes: Sequence[str], ask: Callable[[str], AnswerT]
    ) -> Mapping[str, AnswerT]:
        """The answers, of which those are asked for that are not known or may have changed.

        Args:
            nodes: all, in the order of the answers.
            changes: the nodes that have changed, one after another from the beginning.
            ask: gives the answer of a node.
        """
        if not self._by_node:
            self._by_node = {name: ask(name) for name in nodes}
        elif self._seen < len(changes):
            self._by_node = {**self._by_node, **{name: ask(name) for name in dict.fromkeys(changes[self._seen :])}}
        self._seen = len(changes)
        return self._by_node


class View:
    """What is known of the nodes for pods of one shape."""

    __slots__ = ("closed", "derived", "fit_errors", "pod", "victims")

    def __init__(self, pod: Pod, closed: Counter[Domain]) -> None:
        self.pod = replace(pod, name="")
        """Any of them, that waits for no node."""
        self.closed = closed
        """The domains that are closed to them."""
        self.fit_errors: Answers[FitError | None] = Answers()
        """None: they fit."""
        self.victims: Answers[Any] = Answers()
        """What ``preemption`` found."""
        self.derived: dict[str, tuple[Mapping[str, Any], Any]] = {}
        """By name: from which answers something was made, and what."""

    def made_of(self, name: str, answers: Mapping[str, AnswerT], make: Callable[[Mapping[str, AnswerT]], Any]) -> Any:
        """What ``make`` makes of these answers; made once while they stay the same."""
        known = self.derived.get(name)
        if known is None or known[0] is not answers:
            known = self.derived[name] = answers, make(answers)
        return known[1]


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
        self.node_infos = {node.name: NodeInfo(node) for node in in_turn(state.nodes)}
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
        self._shapes: dict[str, tuple[Pod, bool, Shape]] = {}
        """Of pods that were tried, made with labels or without."""
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
        rooms = self.node_infos.values()
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
            self._changes += (name for name, room in self.node_infos.items() if any(map(room.budgets.get, changed)))

    def __getitem__(self, name: str) -> Bound:
        """A bound pod."""
        return self.node_infos[self._nodes[name]].bound[name]

    def __contains__(self, name: str) -> bool:
        return name in self._nodes

    def bound(self) -> Iterator[Bound]:
        """All bound pods."""
        return (bound for room in self.node_infos.values() for bound in room.bound.values())

    def add(self, bound: Bound) -> None:
        """A pod is bound."""
        name = bound.pod.name
        self.node_infos[bound.node].add(bound)
        self._nodes[name] = bound.node
        self._counted[name] = tuple(each.name for each in self._budgets if each.covers(bound.pod))
        self._count(bound, 1)

    def remove(self, name: str) -> Bound:
        """A pod has gone."""
        bound = self[name]
        self.node_infos[bound.node].add(bound, -1)
        self._count(bound, -1)
        del self._nodes[name], self._counted[name]
        return bound

    def hold_stopped(self, pod: Pod, node: Node) -> Pod:
        """Keep what a pod whose process is stopped on ``node`` goes on holding of it, as a pod that nobody can evict.

        Returns the pod that waits to resume: it fits on no other node, and requests what it does not hold.
        """
        host = node.label(HOSTNAME) or node.name
        self.add(Bound(Pod(_held_name(pod.name), _HIGHEST, requests=self.terms.held(pod)), node.name))
        return replace(self.terms.freed(pod), selector={**pod.selector, HOSTNAME: host})

    def release_stopped(self, pod: str) -> None:
        """What the stopped pod of this name holds is free; a no-op, if it was not to resume yet."""
        if _held_name(pod) in self:
            self.remove(_held_name(pod))

    def _count(self, bound: Bound, sign: int) -> None:
        self._changes.append(bound.node)
        self._moves.append((bound, sign))
        if bound.pod.group:
            self.members[bound.pod.group] += sign
        if bound.pod.anti_affinity:
            self._moves_of_unsociable.append((bound, sign))
            self._labels_matter = True
        for budget in self._counted[bound.pod.name]:
            self.node_infos[bound.node].budgets[budget] += sign
            self.healthy[budget] += sign * (not bound.terminating)

    def change(self, bound: Bound) -> None:
        """A bound pod is the same but for its state."""
        name, room = bound.pod.name, self.node_infos[bound.node]
        for budget in self._counted[name]:
            self.healthy[budget] += room.bound[name].terminating - bound.terminating
        room.bound[name] = bound
        self._changes.append(bound.node)

    def nominate(self, pod: Pod, before: str | None, after: str | None) -> None:
        """A waiting pod's nominated node changes."""
        self._labels_matter |= bool(pod.anti_affinity)
        if before in self.node_infos:
            self.node_infos[before].nominated.pop(pod.name, None)
            self._changes.append(before)
        if after in self.node_infos:
            self.node_infos[after].nominated[pod.name] = pod
            self._changes.append(after)

    def view(self, pod: Pod) -> View:
        """What is known of the nodes for a pod, as for any of its shape that is nominated nowhere."""
        shape = self._shape(pod)
        closed = self.closed(pod, shape)
        key = shape, frozenset(closed.items())
        view = self._views.get(key)
        if view is None:
            if len(self._views) >= MAX_SHAPES:
                del self._views[next(iter(self._views))]
            view = self._views[key] = View(pod, closed)
        return view

    def _shape(self, pod: Pod) -> Shape:
        known = self._shapes.get(pod.name)
        if known is None or known[0] is not pod or known[1] is not self._labels_matter:
            known = self._shapes[pod.name] = pod, self._labels_matter, shape_of(pod, self._labels_matter)
        return known[2]

    def fit_errors(self, view: View) -> Mapping[str, FitError | None]:
        """Why such a pod does not fit on each node; None: it fits."""
        return view.fit_errors.now(
            self.node_infos, self._changes, lambda name: self.fit_error(self.node_infos[name], view.pod, view.closed)
        )

    def victims(self, view: View, ask: Callable[[str], AnswerT]) -> Mapping[str, AnswerT]:
        """What ``ask`` answers for such a pod on each node."""
        return view.victims.now(self.node_infos, self._changes, ask)

    def closed(self, pod: Pod, shape: Shape) -> Counter[Domain]:
        """How many reasons close a domain to a pod: its own anti-affinity, or that of those placed."""
        if not (self._labels_matter or pod.anti_affinity):
            return Counter()
        moves = self._moves if pod.anti_affinity else self._moves_of_unsociable
        seen, found = self._closed.get(shape, (0, Counter[Domain]()))
        if seen < len(moves):
            found = found.copy()
            for bound, sign in moves[seen:]:
                for domain in conflicts(pod, bound.pod, self.node_infos[bound.node].node):
                    found[domain] += sign
            found = +found
            self._closed[shape] = len(moves), found
        return found

    def fit_error(self, node_info: NodeInfo, pod: Pod, closed: Counter[Domain]) -> FitError | None:
        """Why a pod does not fit on a node as it is."""
        if node_info.nominated:
            return self.dry_run(node_info, pod, closed).fit_error()
        return fit_error(node_info.node, pod, node_info.used, len(node_info.bound), closed)

    def dry_run(self, node_info: NodeInfo, pod: Pod, closed: Counter[Domain]) -> DryRun:
        """A node for a pod, with those nominated there as if placed, if their priority is at least the pod's."""
        trial = DryRun(node_info.node, pod, node_info.used, len(node_info.bound), closed)
        others = (each for each in node_info.nominated.values() if each.name != pod.name)
        trial.put(each for each in others if each.priority >= pod.priority)
        return trial


def in_turn(nodes: tuple[Node, ...]) -> Iterator[Node]:
    """One node of each zone in turn; those without a zone are one zone."""
    zones: dict[str | None, list[Node]] = {}
    for node in nodes:
        zones.setdefault(node.label(ZONE), []).append(node)
    for turn in zip_longest(*zones.values()):
        yield from (node for node in turn if node is not None)


def _held_name(pod: str) -> str:
    return f"{pod} (stopped)"

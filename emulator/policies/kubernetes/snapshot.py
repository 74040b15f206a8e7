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

from emulator.policies.kubernetes.filters import FitError, Usage, fit_error_of_node
from emulator.policies.kubernetes.terms import IN_KUBERNETES, Terms
from emulator.policies.kubernetes.topology import Domain, Topology, TopologyChange
from emulator.sites.kubernetes import HOSTNAME, ZONE, Bound, Budget, BudgetSpec, Node, Pending, Pod, State

AnswerT = TypeVar("AnswerT")
Shape = str
MAX_SHAPES = 2000
"""Remembered at once: one with a hundred nodes takes some ten thousand bytes."""
_HIGHEST = 1 << 31
"""A priority above all others."""


def shape_of(pod: Pod, labels_matter: bool) -> Shape:
    """All of a pod that decides where it fits and whom it preempts; its labels only where somebody looks at them."""
    is_required = pod.affinity or any(each.is_required for each in pod.spread)
    labels = pod.labels if labels_matter or is_required else {}
    return repr(replace(pod, name="", labels=labels))


class Answers(Generic[AnswerT]):
    """One answer for each node.  A mapping that was given out stays as it is."""

    __slots__ = ("_by_node", "_forgotten", "_seen")

    def __init__(self) -> None:
        self._by_node: dict[str, AnswerT] = {}
        self._forgotten: set[str] = set()
        self._seen = 0

    def forget(self, nodes: Iterable[str] | None) -> None:
        """The answers of these nodes may have changed; None: of all."""
        if nodes is None:
            self._by_node = {}
        else:
            self._forgotten.update(nodes)

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
        elif self._seen < len(changes) or self._forgotten:
            changed = {*changes[self._seen :], *self._forgotten}
            self._by_node = {**self._by_node, **{name: ask(name) for name in changed}}
        self._forgotten.clear()
        self._seen = len(changes)
        return self._by_node


class View:
    """What is known of the nodes for pods of one shape."""

    __slots__ = ("_followed", "derived", "fit_errors", "pod", "topology", "victims")

    def __init__(self, pod: Pod, nodes: Iterable[Node]) -> None:
        self.pod = replace(pod, name="")
        """Any of them, that waits for no node."""
        self.topology = Topology(self.pod, nodes)
        self._followed = 0
        self.fit_errors: Answers[FitError | None] = Answers()
        """None: they fit."""
        self.victims: Answers[Any] = Answers()
        """What ``preemption`` found."""
        self.derived: dict[str, tuple[Mapping[str, Any], Any]] = {}
        """By name: from which answers something was made, and what."""

    def follow(self, moves: Sequence[tuple[Bound, int, Node]], nodes_of: Callable[[Domain], Iterable[str]]) -> None:
        """Count whoever came and went since the last time, of all moves, and forget what has changed by that."""
        if self._followed == len(moves):
            return
        domains = self.topology.follow(moves[self._followed :])
        self._followed = len(moves)
        nodes = None if domains is None else [name for domain in domains for name in nodes_of(domain)]
        self.fit_errors.forget(nodes)
        self.victims.forget(nodes)

    def made_of(self, name: str, answers: Mapping[str, AnswerT], make: Callable[[Mapping[str, AnswerT]], Any]) -> Any:
        """What ``make`` makes of these answers; made once while they stay the same."""
        known = self.derived.get(name)
        if known is None or known[0] is not answers:
            known = self.derived[name] = answers, make(answers)
        return known[1]


class NodeInfo:
    """A node with its pods, in the order in which they came."""

    __slots__ = ("bound", "budgets", "defaulted", "node", "nominated", "priorities", "usage")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.bound: dict[str, Bound] = {}
        self.nominated: dict[str, Pod] = {}
        """Pods that wait for this node."""
        self.usage = Usage()
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
        self.usage.put(bound.pod, sign)
        for resource in ("cpu", "memory"):
            if resource not in bound.pod.requests:
                self.defaulted[resource] += sign


class DryRun:
    """A node for one pod, with others taken away or put back.

    Pods that wait for the node, of at least the pod's priority, count as placed; and the pod has to fit without them
    too, as it must not lean on them.
    """

    __slots__ = ("_node", "_runs", "_topology")

    def __init__(self, node_info: NodeInfo, pod: Pod, topology: Topology) -> None:
        """Nothing of what it takes is changed."""
        self._node, self._topology = node_info.node, topology
        self._runs = [(node_info.usage.copy(), TopologyChange())]
        others = [each for each in node_info.nominated.values() if each.name != pod.name]
        nominated = [each for each in others if each.priority >= pod.priority]
        if nominated and pod.affinity:
            self._runs.append((node_info.usage.copy(), TopologyChange()))
        self._put(nominated, 1, self._runs[:1])

    def put(self, others: Iterable[Pod], sign: int = 1) -> None:
        """Put pods onto the node; with ``sign`` -1 take them away."""
        self._put(others, sign, self._runs)

    def _put(self, others: Iterable[Pod], sign: int, runs: Sequence[tuple[Usage, TopologyChange]]) -> None:
        for other in others:
            for usage, change in runs:
                usage.put(other, sign)
                self._topology.change(change, other, self._node, sign)

    def fit_error(self) -> FitError | None:
        """Why the pod does not fit as it is now."""
        found = (fit_error(self._node, usage, self._topology, change) for usage, change in self._runs)
        return next((error for error in found if error is not None), None)


def fit_error(node: Node, usage: Usage, topology: Topology, change: TopologyChange | None = None) -> FitError | None:
    """Why the pod of ``topology`` does not fit on a node; None: it fits."""
    pod = topology.pod
    return fit_error_of_node(node, pod) or usage.fit_error(node, pod) or topology.fit_error(node, change)


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
        self.first = state.first
        """The number of the node that is looked at first, in their order."""
        self._moves: list[tuple[Bound, int, Node]] = []
        """Who came (1) and went (-1), one after another, and where."""
        self._moves_with_terms: list[tuple[Bound, int, Node]] = []
        """Those of pods that have terms about others."""
        self._views: dict[Shape, View] = {}
        self._nodes_by_label: dict[str, dict[str, list[str]]] = {}
        self._counted: dict[str, tuple[str, ...]] = {}
        """The budgets of each bound pod."""
        self._shapes: dict[str, tuple[Pod, bool, Shape]] = {}
        """Of pods that were tried, made with labels or without."""
        self._nodes: dict[str, str] = {}
        """The node of each bound pod."""
        self._labels_matter = False
        """Some pod has, or had, terms about others."""
        for bound in state.bound:
            self.add(bound)
        for pending in state.waiting:
            self.nominate(pending.pod, None, pending.nominated)

    def copy(self) -> Snapshot:
        """One to try things in."""
        rooms = self.node_infos.values()
        waiting = (Pending(pod, room.node.name) for room in rooms for pod in room.nominated.values())
        nodes = tuple(room.node for room in rooms)
        groups = tuple(self.groups.values())
        state = State(nodes, tuple(self.bound()), tuple(waiting), self._budgets, groups, self.first)
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
        self._record_move(bound, sign)
        if bound.pod.group:
            self.members[bound.pod.group] += sign
        for budget in self._counted[bound.pod.name]:
            self.node_infos[bound.node].budgets[budget] += sign
            self.healthy[budget] += sign * (not bound.terminating)

    def _record_move(self, bound: Bound, sign: int) -> None:
        move = bound, sign, self.node_infos[bound.node].node
        self._moves.append(move)
        if _has_terms(bound.pod):
            self._moves_with_terms.append(move)
            self._labels_matter = True

    def change(self, bound: Bound) -> None:
        """A bound pod is the same but for its state."""
        name, room = bound.pod.name, self.node_infos[bound.node]
        for budget in self._counted[name]:
            self.healthy[budget] += room.bound[name].terminating - bound.terminating
        self._record_move(room.bound[name], -1)
        room.bound[name] = bound
        self._record_move(bound, 1)
        self._changes.append(bound.node)

    def nominate(self, pod: Pod, before: str | None, after: str | None) -> None:
        """A waiting pod's nominated node changes."""
        self._labels_matter |= _has_terms(pod)
        if before in self.node_infos:
            self.node_infos[before].nominated.pop(pod.name, None)
            self._changes.append(before)
        if after in self.node_infos:
            self.node_infos[after].nominated[pod.name] = pod
            self._changes.append(after)

    def view(self, pod: Pod) -> View:
        """What is known of the nodes for a pod, as for any of its shape that is nominated nowhere."""
        shape = self._shape(pod)
        view = self._views.get(shape)
        if view is None:
            if len(self._views) >= MAX_SHAPES:
                del self._views[next(iter(self._views))]
            view = self._views[shape] = View(pod, [each.node for each in self.node_infos.values()])
        view.follow(self._moves if view.topology.follows_all else self._moves_with_terms, self._nodes_of)
        return view

    def _nodes_of(self, domain: Domain) -> Iterable[str]:
        key, value = domain
        if key not in self._nodes_by_label:
            by_value = self._nodes_by_label[key] = dict[str, list[str]]()
            for each in self.node_infos.values():
                if (label := each.node.label(key)) is not None:
                    by_value.setdefault(label, []).append(each.node.name)
        return self._nodes_by_label[key].get(value, ())

    def _shape(self, pod: Pod) -> Shape:
        known = self._shapes.get(pod.name)
        if known is None or known[0] is not pod or known[1] is not self._labels_matter:
            known = self._shapes[pod.name] = pod, self._labels_matter, shape_of(pod, self._labels_matter)
        return known[2]

    def fit_errors(self, view: View) -> Mapping[str, FitError | None]:
        """Why such a pod does not fit on each node; None: it fits."""
        return view.fit_errors.now(
            self.node_infos, self._changes, lambda name: self.fit_error(self.node_infos[name], view.pod, view.topology)
        )

    def victims(self, view: View, ask: Callable[[str], AnswerT]) -> Mapping[str, AnswerT]:
        """What ``ask`` answers for such a pod on each node."""
        return view.victims.now(self.node_infos, self._changes, ask)

    def fit_error(self, node_info: NodeInfo, pod: Pod, topology: Topology) -> FitError | None:
        """Why a pod does not fit on a node as it is."""
        if node_info.nominated:
            return DryRun(node_info, pod, topology).fit_error()
        return fit_error(node_info.node, node_info.usage, topology)


def _has_terms(pod: Pod) -> bool:
    return bool(pod.affinity or pod.anti_affinity or pod.prefers_pods)


def in_turn(nodes: tuple[Node, ...]) -> Iterator[Node]:
    """One node of each zone in turn; those without a zone are one zone."""
    zones: dict[str | None, list[Node]] = {}
    for node in nodes:
        zones.setdefault(node.label(ZONE), []).append(node)
    for turn in zip_longest(*zones.values()):
        yield from (node for node in turn if node is not None)


def _held_name(pod: str) -> str:
    return f"{pod} (stopped)"

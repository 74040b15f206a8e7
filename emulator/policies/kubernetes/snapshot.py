"""The cluster while a decision is made: what is on each node, and who is nominated to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest

from emulator.policies.kubernetes.filters import Domain, Misfit, Trial, conflicts, misfit
from emulator.policies.kubernetes.model import ZONE, Bound, Budget, Node, Pod, State


class Room:
    """A node with its pods, in the order in which they came."""

    __slots__ = ("bound", "defaulted", "node", "nominated", "priorities", "used")

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

    def __init__(self, state: State) -> None:
        self.rooms = {node.name: Room(node) for node in in_turn(state.nodes)}
        self.budgets: tuple[Budget, ...] = state.budgets
        self._nodes: dict[str, str] = {}
        """Of each bound pod."""
        self._unsociable: dict[str, None] = {}
        """Bound pods with an anti-affinity of their own."""
        for bound in state.bound:
            self.add(bound)
        for pending in state.waiting:
            self.nominate(pending.pod, None, pending.nominated)

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
        if bound.pod.anti_affinity:
            self._unsociable[name] = None

    def remove(self, name: str) -> Bound:
        """A pod has gone."""
        bound = self[name]
        self.rooms[bound.node].add(bound, -1)
        del self._nodes[name]
        self._unsociable.pop(name, None)
        return bound

    def change(self, bound: Bound) -> None:
        """A bound pod is the same but for its state."""
        self.rooms[bound.node].bound[bound.pod.name] = bound

    def nominate(self, pod: Pod, before: str | None, after: str | None) -> None:
        """A waiting pod's nominated node changes."""
        if before in self.rooms:
            self.rooms[before].nominated.pop(pod.name, None)
        if after in self.rooms:
            self.rooms[after].nominated[pod.name] = pod

    def closed(self, pod: Pod) -> Counter[Domain]:
        """How many reasons close a domain to a pod: its own anti-affinity, or that of those placed."""
        found: Counter[Domain] = Counter()
        for bound in self.bound() if pod.anti_affinity else map(self.__getitem__, self._unsociable):
            found.update(conflicts(pod, bound.pod, self.rooms[bound.node].node))
        return found

    def misfit(self, room: Room, pod: Pod, closed: Counter[Domain]) -> Misfit | None:
        """Why a pod does not fit on a node as it is."""
        if room.nominated:
            return self.trial(room, pod, closed).misfit()
        return misfit(room.node, pod, room.used, len(room.bound), closed)

    def trial(self, room: Room, pod: Pod, closed: Counter[Domain]) -> Trial:
        """A node for a pod, with those nominated there as if placed, if their priority is at least the pod's."""
        trial = Trial(room.node, pod, room.used, len(room.bound), closed)
        trial.put(each for each in room.nominated.values() if each.priority >= pod.priority and each.name != pod.name)
        return trial


def in_turn(nodes: tuple[Node, ...]) -> Iterator[Node]:
    """One node of each zone in turn; those without a zone are one zone."""
    zones: dict[str | None, list[Node]] = {}
    for node in nodes:
        zones.setdefault(node.label(ZONE), []).append(node)
    for turn in zip_longest(*zones.values()):
        yield from (node for node in turn if node is not None)

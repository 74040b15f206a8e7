"""Whether a pod fits on a node, and if not, why and whether the preemption of others could help.

The filters run in kube-scheduler's order, and the first that fails counts: unschedulable, taints, node selector,
resources, required anti-affinity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum

from emulator.sites.kubernetes import Effect, Node, Pod, Taint
from emulator.sites.labels import NodeTerm
from emulator.vocabulary import Frozen

PODS = "pods"
CORDONED = Taint("node.kubernetes.io/unschedulable", Effect.NO_SCHEDULE)
"""The taint of a cordoned node."""
Domain = tuple[str, str]
"""A node label's key and value: the nodes that have it."""


class Filter(StrEnum):
    """What keeps a pod off a node."""

    UNSCHEDULABLE = "unschedulable"
    TAINT = "taint"
    SELECTOR = "selector"
    NODE_AFFINITY = "node affinity"
    RESOURCES = "resources"
    ANTI_AFFINITY = "anti-affinity"


class FitError(Frozen):
    """Why a pod does not fit on a node."""

    filter: Filter
    is_hard: bool
    """It would not fit with all others gone either."""
    what: str = ""
    """The taint, label, resource or topology."""
    asked: int = 0
    room: int = 0
    """What is free of the resource."""


def fit_error_of_node(node: Node, pod: Pod) -> FitError | None:
    """The filters that do not depend on other pods."""
    if node.unschedulable and not pod.tolerates(CORDONED):
        return FitError(Filter.UNSCHEDULABLE, True)
    for taint in node.taints:
        if taint.effect is not Effect.PREFER_NO_SCHEDULE and not pod.tolerates(taint):
            return FitError(Filter.TAINT, True, taint.key)
    for key, value in pod.selector.items():
        if node.label(key) != value:
            return FitError(Filter.SELECTOR, True, f"{key}={value}")
    if pod.node_affinity and not node.meets(pod.node_affinity):
        return FitError(Filter.NODE_AFFINITY, True, _in_words(pod.node_affinity))
    return None


def _in_words(terms: Iterable[NodeTerm]) -> str:
    return " or ".join(", ".join(map(str, (*each.expressions, *each.fields))) or "nothing" for each in terms)


def conflicts(pod: Pod, other: Pod, node: Node) -> Iterator[Domain]:
    """The domains that ``other`` on its node closes to ``pod``: by the anti-affinity of either."""
    for these, those in ((pod, other), (other, pod)):
        for term in these.anti_affinity:
            value = node.label(term.topology)
            if value is not None and term.matches(those):
                yield term.topology, value


def fit_error(
    node: Node, pod: Pod, used: Mapping[str, int], count: int, closed: Mapping[Domain, int]
) -> FitError | None:
    """Why a pod does not fit on a node; None: it fits.

    ``used`` and ``count`` are what the node's pods take and how many they are; ``closed`` says how many reasons close
    each domain to the pod, from all nodes.
    """
    return fit_error_of_node(node, pod) or _fit_error(node, pod, used, count) or _with_others(node, closed)


def _fit_error(node: Node, pod: Pod, used: Mapping[str, int], count: int) -> FitError | None:
    allocatable, soft = node.allocatable, None
    limit = allocatable.get(PODS)
    if limit is not None and count + 1 > limit:
        soft = FitError(Filter.RESOURCES, False, PODS, 1, limit - count)
    for resource, asked in pod.requests.items():
        most = allocatable.get(resource, 0)
        if asked > most:
            return FitError(Filter.RESOURCES, True, resource, asked, most)
        room = most - used.get(resource, 0)
        if soft is None and asked > 0 and asked > room:
            soft = FitError(Filter.RESOURCES, False, resource, asked, room)
    return soft


def _with_others(node: Node, closed: Mapping[Domain, int]) -> FitError | None:
    for (key, value), count in closed.items():
        if count > 0 and node.label(key) == value:
            return FitError(Filter.ANTI_AFFINITY, False, key)
    return None


class DryRun:
    """A node for one pod, with others taken away or put back."""

    __slots__ = ("_closed", "_count", "_node", "_pod", "_used")

    def __init__(self, node: Node, pod: Pod, used: Counter[str], count: int, closed: Counter[Domain]) -> None:
        """With what ``fit_error`` takes; nothing of it is changed."""
        self._node, self._pod = node, pod
        self._used, self._count, self._closed = used.copy(), count, closed.copy()

    def put(self, others: Iterable[Pod], sign: int = 1) -> None:
        """Put pods onto the node; with ``sign`` -1 take them away."""
        for other in others:
            self._count += sign
            for resource, amount in other.requests.items():
                self._used[resource] += sign * amount
            if self._pod.anti_affinity or other.anti_affinity:
                for domain in conflicts(self._pod, other, self._node):
                    self._closed[domain] += sign

    def fit_error(self) -> FitError | None:
        """Why the pod does not fit as it is now."""
        return fit_error(self._node, self._pod, self._used, self._count, self._closed)

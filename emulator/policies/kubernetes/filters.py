"""Whether a pod fits on a node, and if not, why and whether the preemption of others could help.

The filters run in kube-scheduler's order, and the first that fails counts: unschedulable, taints, node selector and
affinity, host ports, resources, volumes; then those that look at other pods (``topology``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

from emulator.sites.kubernetes import Effect, HostPort, Node, Pod, Taint
from emulator.sites.labels import NodeTerm
from emulator.vocabulary import Frozen

PODS = "pods"
CORDONED = Taint("node.kubernetes.io/unschedulable", Effect.NO_SCHEDULE)
"""The taint of a cordoned node."""


class Filter(StrEnum):
    """What keeps a pod off a node."""

    UNSCHEDULABLE = "unschedulable"
    TAINT = "taint"
    SELECTOR = "selector"
    NODE_AFFINITY = "node affinity"
    PORTS = "ports"
    RESOURCES = "resources"
    VOLUMES = "volumes"
    SPREAD = "spread"
    AFFINITY = "affinity"
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
        if not pod.tolerates_all((taint,)):
            return FitError(Filter.TAINT, True, taint.key)
    for key, value in pod.selector.items():
        if node.label(key) != value:
            return FitError(Filter.SELECTOR, True, f"{key}={value}")
    if pod.node_affinity and not node.meets(pod.node_affinity):
        return FitError(Filter.NODE_AFFINITY, True, _in_words(pod.node_affinity))
    return None


def _in_words(terms: Iterable[NodeTerm]) -> str:
    return " or ".join(", ".join(map(str, (*each.expressions, *each.fields))) or "nothing" for each in terms)


class Usage:
    """What the pods of a node take together."""

    __slots__ = ("amounts", "count", "ports")

    def __init__(self) -> None:
        self.amounts: Counter[str] = Counter()
        self.count = 0
        """How many pods there are."""
        self.ports: Counter[HostPort] = Counter()

    def put(self, pod: Pod, sign: int = 1) -> None:
        """A pod comes; with ``sign`` -1 it goes."""
        self.count += sign
        for resource, amount in pod.requests.items():
            self.amounts[resource] += sign * amount
        for port in pod.ports:
            self.ports[port] += sign

    def copy(self) -> Usage:
        """One to try things with."""
        other = Usage()
        other.amounts, other.count, other.ports = self.amounts.copy(), self.count, self.ports.copy()
        return other

    def fit_error(self, node: Node, pod: Pod) -> FitError | None:
        """What of its node keeps a pod off that others take: ports, then resources; then its own volumes."""
        for port in pod.ports:
            if any(count and port.conflicts(other) for other, count in self.ports.items()):
                return FitError(Filter.PORTS, False, f"{port.port}/{port.protocol}")
        error = self._resource_error(node, pod)
        if error is None and not all(node.meets(terms) for terms in pod.volumes):
            return FitError(Filter.VOLUMES, True)
        return error

    def _resource_error(self, node: Node, pod: Pod) -> FitError | None:
        allocatable, soft = node.allocatable, None
        limit = allocatable.get(PODS)
        if limit is not None and self.count + 1 > limit:
            soft = FitError(Filter.RESOURCES, False, PODS, 1, limit - self.count)
        for resource, asked in pod.requests.items():
            most = allocatable.get(resource, 0)
            if asked > most:
                return FitError(Filter.RESOURCES, True, resource, asked, most)
            room = most - self.amounts.get(resource, 0)
            if soft is None and asked > 0 and asked > room:
                soft = FitError(Filter.RESOURCES, False, resource, asked, room)
        return soft

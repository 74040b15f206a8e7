"""A cluster of Kubernetes: nodes, classes, budgets, the pods that are bound or wait, and those that arrive.

Amounts are whole numbers in one unit for each resource (cpu in thousandths, memory in bytes).  Times are nanoseconds.
The names are those of Kubernetes' API (v1, scheduling.k8s.io/v1, policy/v1); its defaults are the defaults here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from msgspec.structs import replace

from emulator.sites import refuse_twice
from emulator.sites.basis import Basis
from emulator.sites.labels import Expression, LabelOperator, NodeTerm, Selector
from emulator.vocabulary import Details, Frozen

HOSTNAME = "kubernetes.io/hostname"
"""The label in which each node has its name."""
ZONE = "topology.kubernetes.io/zone"


class Effect(StrEnum):
    """What a taint does to pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    NO_EXECUTE = "NoExecute"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"


class Operator(StrEnum):
    """How a toleration compares its value with the taint's."""

    EQUAL = "Equal"
    EXISTS = "Exists"


class Policy(StrEnum):
    """``preemptionPolicy``: whether a pod may preempt at all."""

    LOWER_PRIORITY = "PreemptLowerPriority"
    NEVER = "Never"


class Taint(Frozen):
    """A node's mark that keeps pods away."""

    key: str
    effect: Effect
    value: str = ""


class Toleration(Frozen):
    """Lets a pod onto nodes with the taint.  No key: of every key; no effect: of every effect."""

    key: str = ""
    operator: Operator = Operator.EQUAL
    value: str = ""
    effect: Effect | None = None

    def tolerates(self, taint: Taint) -> bool:
        """Whether it is about this taint."""
        if self.effect not in (None, taint.effect) or self.key not in ("", taint.key):
            return False
        return self.operator is Operator.EXISTS or self.value == taint.value


class Node(Frozen):
    """A machine.  ``allocatable`` without ``pods``: no limit on their number."""

    name: str
    allocatable: Mapping[str, int]
    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    """It is cordoned."""

    def label(self, key: str) -> str | None:
        """A label's value; its name as its hostname, unless it is labelled otherwise."""
        return self.labels.get(key, self.name if key == HOSTNAME else None)

    def meets(self, terms: Iterable[NodeTerm]) -> bool:
        """Whether one of the terms holds for it."""
        labels = self.labels if HOSTNAME in self.labels else {**self.labels, HOSTNAME: self.name}
        return any(each.matches(self.name, labels) for each in terms)


class AffinityTerm(Frozen):
    """Other pods, with which a pod is to be, or not to be, in one domain of the topology (a node label's key)."""

    selector: Selector
    topology: str
    namespaces: tuple[str, ...] = ()
    """Where these pods are; none: in any."""

    def matches(self, pod: PodTemplate) -> bool:
        """Whether the pod is one of them."""
        return (not self.namespaces or pod.namespace in self.namespaces) and self.selector.matches(pod.labels)


class PreferredPods(Frozen):
    """A preference for nodes by the pods in their domain; with a weight below 0 against them."""

    term: AffinityTerm
    weight: int


class PreferredNodes(Frozen):
    """A preference for nodes by their labels."""

    term: NodeTerm
    weight: int


class Spread(Frozen):
    """A topology spread constraint: the pods that match are to be spread over the domains of a node label's key.

    With ``is_required`` the counts of two domains must not differ by more than ``max_skew``; else it is a preference.
    """

    topology: str
    max_skew: int
    selector: Selector
    is_required: bool = True
    min_domains: int = 1
    ignores_affinity: bool = False
    """``nodeAffinityPolicy`` Ignore: nodes count that the pod's selector and node affinity exclude."""
    honors_taints: bool = False
    """``nodeTaintsPolicy`` Honor: nodes do not count whose taints the pod does not tolerate."""
    is_default: bool = False
    """It is the scheduler's own, of a pod that has none: nodes without the label count, too."""

    def matches(self, pod: PodTemplate, other: PodTemplate) -> bool:
        """Whether ``other`` is one of those among which ``pod``, which has the constraint, is spread."""
        return pod.namespace == other.namespace and self.selector.matches(other.labels)


def default_spread(
    labels: Mapping[str, str], services: Iterable[Selector], owner: Selector | None
) -> tuple[Spread, ...]:
    """The constraints of the default profile for a pod that has none: over the pods of its services and its owner.

    Args:
        labels: the pod's.
        services: the selectors of the services of its namespace; those count that match it.
        owner: the selector of its ReplicaSet, StatefulSet or ReplicationController, whether it matches or not.
    """
    merged: dict[str, str] = {}
    for service in services:
        if service.matches(labels):
            merged |= service.labels
    own = () if owner is None else (*_as_expressions(owner.labels), *owner.expressions)
    selector = Selector(merged, own)
    if selector.is_empty:
        return ()
    return tuple(Spread(key, skew, selector, False, is_default=True) for key, skew in ((HOSTNAME, 3), (ZONE, 5)))


def _as_expressions(labels: Mapping[str, str]) -> Iterator[Expression]:
    return (Expression(key, LabelOperator.IN, (value,)) for key, value in labels.items())


def own_values(selector: Selector, keys: Iterable[str], labels: Mapping[str, str]) -> Selector:
    """A selector with ``matchLabelKeys``: of those of these labels that a pod has, others must have the pod's value."""
    more = _as_expressions({key: labels[key] for key in keys if key in labels})
    return replace(selector, expressions=(*selector.expressions, *more))


ANY_ADDRESS = "0.0.0.0"


class HostPort(Frozen):
    """A port of its node that a pod takes."""

    port: int
    protocol: str = "TCP"
    address: str = ANY_ADDRESS

    def conflicts(self, other: HostPort) -> bool:
        """Whether only one of both can be on a node."""
        if (self.port, self.protocol) != (other.port, other.protocol):
            return False
        return self.address == other.address or ANY_ADDRESS in (self.address, other.address)


class PodTemplate(Frozen, kw_only=True):
    """A pod as its owner wants it, but for its name and its priority."""

    namespace: str = ""
    policy: Policy = Policy.LOWER_PRIORITY
    requests: Mapping[str, int] = {}
    labels: Mapping[str, str] = {}
    selector: Mapping[str, str] = {}
    node_affinity: tuple[NodeTerm, ...] = ()
    """Required: one of these has to hold; none: any node will do."""
    prefers_nodes: tuple[PreferredNodes, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    affinity: tuple[AffinityTerm, ...] = ()
    """Required: together with pods that match all of these."""
    anti_affinity: tuple[AffinityTerm, ...] = ()
    """Required: not together with pods that match any of these."""
    prefers_pods: tuple[PreferredPods, ...] = ()
    spread: tuple[Spread, ...] = ()
    ports: tuple[HostPort, ...] = ()
    volumes: tuple[tuple[NodeTerm, ...], ...] = ()
    """For each of its volumes that has a place, the terms of which one has to hold for the node."""
    group: str = ""
    """Its PodGroup, with which it is placed if the state has that."""

    @property
    def template(self) -> dict[str, Any]:
        """These of its fields."""
        return {name: getattr(self, name) for name in PodTemplate.__struct_fields__}


class Pod(PodTemplate):
    """A pod.  Its name is unique; namespaces are not told apart."""

    name: str
    priority: int = 0
    saves_ns: int | None = None
    """How often it saves its work by itself, which Kubernetes does not know; None: never."""

    def tolerates(self, taint: Taint) -> bool:
        """Whether any of its tolerations is about this taint."""
        return any(each.tolerates(taint) for each in self.tolerations)

    def tolerates_all(self, taints: Iterable[Taint]) -> bool:
        """Whether none of the taints keeps it away."""
        return all(taint.effect is Effect.PREFER_NO_SCHEDULE or self.tolerates(taint) for taint in taints)

    def may_be_on(self, node: Node) -> bool:
        """Whether its node selector and its required node affinity allow a node."""
        if any(node.label(key) != value for key, value in self.selector.items()):
            return False
        return not self.node_affinity or node.meets(self.node_affinity)


class Replacement(StrEnum):
    """When a new pod comes in an evicted one's place."""

    TERMINATING = "terminating"
    """At once."""
    GONE = "gone"
    """When it has left its node."""
    NEVER = "never"


class PodDetails(Details, PodTemplate, tag_field="kind", tag="kubernetes"):
    """What a job is to kube-scheduler: a pod, whose name and priority are the job's, and whose requests are exact."""

    grace_ns: int = 0
    """From its eviction until it is gone."""
    replacement: Replacement = Replacement.TERMINATING
    node: str | None = None
    """Where it is from the beginning; None: it waits to be placed."""
    since_ns: int = 0
    """The time since which it is there, in the job's time."""
    endless: bool = False
    """Whether it does not end by itself."""

    def pod(self, name: str, priority: int, saves_ns: int | None) -> Pod:
        """The pod of a job with these facts; ``saves_ns``: how often it saves its work by itself."""
        return Pod(name, priority, saves_ns, **self.template)


class Arrival(Frozen):
    """A pod, when it is created, and how long it runs."""

    pod: Pod
    submit_ns: int
    duration_ns: int | None = None
    """None: it never ends by itself."""
    grace_ns: int = 0
    """From its eviction until it is gone."""
    replacement: Replacement = Replacement.TERMINATING
    node: str | None = None
    """Where it is from the beginning; None: it waits to be placed."""

    @property
    def details(self) -> PodDetails:
        """What its job is to kube-scheduler."""
        times = 0 if self.node is None else self.submit_ns, self.duration_ns is None
        return PodDetails(self.grace_ns, self.replacement, self.node, *times, **self.pod.template)


class Group(Frozen):
    """A PodGroup: pods that start together or not at all."""

    name: str
    priority: int = 0
    is_whole: bool = False
    """``disruptionMode`` PodGroup: its pods are preempted together."""
    min_count: int = 1
    """``minCount``: so many of them at least have to run at once."""


class Bound(Frozen):
    """A pod on its node.  ``start_ns`` None: as if it started just now."""

    pod: Pod
    node: str
    start_ns: int | None = None
    terminating: bool = False
    """It is deleted and not gone yet: it still holds its room."""
    preempted: bool = False
    """It terminates because the scheduler preempted it."""


class Pending(Frozen):
    """A pod that waits, with what the scheduler knows of it."""

    pod: Pod
    nominated: str | None = None
    """The node where it made room."""
    failures: int = 0
    """How many of its attempts failed, which were all so far."""
    since_ns: int = 0
    """Its last attempt, or its creation."""
    aside: bool = False
    """It waits for a change in the cluster."""
    refused: tuple[str, ...] = ()
    """The filters that refused it on some node, where it may fit when others come or leave."""


class PriorityClass(Frozen):
    """A named priority, with the policy of the pods in it."""

    name: str
    value: int
    policy: Policy = Policy.LOWER_PRIORITY
    is_default: bool = False
    """``globalDefault``: of pods that name none."""

    def of(self, pod: Pod) -> Pod:
        """The pod as Kubernetes admits it in this class."""
        return replace(pod, priority=self.value, policy=self.policy)


class Budget(Frozen):
    """A PodDisruptionBudget as it stands.  An empty selector is about no pod."""

    name: str
    selector: Selector
    allowed: int
    """``disruptionsAllowed``."""
    disrupted: tuple[str, ...] = ()
    """Pods that it has counted already."""
    namespace: str = ""

    def covers(self, pod: Pod) -> bool:
        """Whether it is about this pod."""
        return not self.selector.is_empty and pod.namespace == self.namespace and self.selector.matches(pod.labels)

    def counts(self, pod: Pod) -> bool:
        """Whether an eviction of this pod takes one from ``allowed``, which one of a pod without labels never does."""
        return bool(pod.labels) and self.covers(pod) and pod.name not in self.disrupted


class BudgetSpec(Frozen):
    """A PodDisruptionBudget as its owner wants it: so many of its pods stay."""

    name: str
    selector: Selector
    min_available: int
    namespace: str = ""

    def now(self, bound: Iterable[Bound]) -> Budget:
        """The budget as it stands with these pods; those that terminate count as gone."""
        budget = self.standing(0)
        return self.standing(sum(budget.covers(each.pod) and not each.terminating for each in bound))

    def standing(self, healthy: int) -> Budget:
        """The budget as it stands with so many of its pods."""
        return Budget(self.name, self.selector, max(healthy - self.min_available, 0), namespace=self.namespace)


class Context(Frozen):
    """What objects other than pods and nodes say about pods that come."""

    namespaces: Mapping[str, Mapping[str, str]] = {}
    """The labels of each."""
    services: Mapping[str, tuple[Selector, ...]] = {}
    """Their selectors, by namespace."""
    owners: Mapping[str, Selector] = {}
    """The selectors of what makes pods, by kind, namespace and name: ``ReplicaSet shop/web``."""
    volumes: Mapping[str, tuple[NodeTerm, ...]] = {}
    """By namespace and name of a claim that is bound to a volume: the terms of which one holds for its nodes."""


class State(Frozen):
    """A cluster at one instant.  The order of nodes and pods is that in which the scheduler learnt of them."""

    nodes: tuple[Node, ...]
    bound: tuple[Bound, ...] = ()
    waiting: tuple[Pending, ...] = ()
    budgets: tuple[Budget, ...] = ()
    groups: tuple[Group, ...] = ()
    first: int = 0
    """The number of the node that the scheduler looks at first, in its order: of each zone one in turn."""


class Kubernetes(Frozen):
    """What natjam knows of a cluster.  The times of ``state`` count from the latest time in the files.

    Raises ValueError if two things have one name, or a pod is on an unknown node.
    """

    state: State
    classes: tuple[PriorityClass, ...] = ()
    budgets: tuple[BudgetSpec, ...] = ()
    arrivals: tuple[Arrival, ...] = ()
    partial: Mapping[str, tuple[str, ...]] = {}
    """By pod that waits: its fields that decide and are not modelled, with what that means."""
    basis: Basis = Basis()
    context: Context = Context()

    def __post_init__(self) -> None:
        nodes, pods = [each.name for each in self.state.nodes], (*self.state.bound, *self.state.waiting)
        there = set(nodes)
        placed = [("state.bound", each.pod.name, each.node) for each in self.state.bound]
        placed += [("arrivals", each.pod.name, each.node) for each in self.arrivals if each.node is not None]
        for where, name, node in placed:
            if node not in there:
                raise ValueError(f"{where}: {name}: its node is not one of state.nodes")
        refuse_twice("state.nodes", nodes)
        refuse_twice("state", [each.pod.name for each in pods])
        refuse_twice("arrivals", [each.pod.name for each in self.arrivals])

"""A cluster of Kubernetes: nodes, classes, budgets, the pods that are bound or wait, and those that arrive.

Amounts are whole numbers in one unit for each resource (cpu in thousandths, memory in bytes).  Times are nanoseconds.
The names are those of Kubernetes' API (v1, scheduling.k8s.io/v1, policy/v1); its defaults are the defaults here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from msgspec.structs import replace

from emulator.sites import refuse_twice
from emulator.sites.basis import Basis
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


class AntiAffinity(Frozen):
    """Required: not together with pods that have these labels, in one domain of the topology (a node label's key)."""

    labels: Mapping[str, str]
    topology: str


class PodTemplate(Frozen, kw_only=True):
    """A pod as its owner wants it, but for its name and its priority."""

    policy: Policy = Policy.LOWER_PRIORITY
    requests: Mapping[str, int] = {}
    labels: Mapping[str, str] = {}
    selector: Mapping[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    anti_affinity: tuple[AntiAffinity, ...] = ()
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
    may_fit: bool = False
    """On some node it would fit if others left."""


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
    selector: Mapping[str, str]
    allowed: int
    """``disruptionsAllowed``."""
    disrupted: tuple[str, ...] = ()
    """Pods that it has counted already."""

    def counts(self, pod: Pod) -> bool:
        """Whether an eviction of this pod takes one from ``allowed``."""
        return bool(self.selector) and matches(self.selector, pod.labels) and pod.name not in self.disrupted


class BudgetSpec(Frozen):
    """A PodDisruptionBudget as its owner wants it: so many of its pods stay."""

    name: str
    selector: Mapping[str, str]
    min_available: int

    def now(self, bound: Iterable[Bound]) -> Budget:
        """The budget as it stands with these pods; those that terminate count as gone."""
        budget = Budget(self.name, self.selector, 0)
        return self.standing(sum(budget.counts(each.pod) and not each.terminating for each in bound))

    def standing(self, healthy: int) -> Budget:
        """The budget as it stands with so many of its pods."""
        return Budget(self.name, self.selector, max(healthy - self.min_available, 0))


class State(Frozen):
    """A cluster at one instant.  The order of nodes and pods is that in which the scheduler learnt of them."""

    nodes: tuple[Node, ...]
    bound: tuple[Bound, ...] = ()
    waiting: tuple[Pending, ...] = ()
    budgets: tuple[Budget, ...] = ()
    groups: tuple[Group, ...] = ()


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


def matches(wanted: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Whether the labels have all that is wanted."""
    return all(labels.get(key) == value for key, value in wanted.items())

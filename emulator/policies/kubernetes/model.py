"""What kube-scheduler decides about: nodes, classes, budgets, and the pods that are bound or wait.

Amounts are whole numbers in one unit for each resource (cpu in thousandths, memory in bytes).  Times are nanoseconds.
The names are those of Kubernetes' API (v1, scheduling.k8s.io/v1, policy/v1); its defaults are the defaults here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum

from msgspec.structs import replace

from emulator.vocabulary import Frozen

HOSTNAME = "kubernetes.io/hostname"
"""The label in which each node has its name."""
ZONE = "topology.kubernetes.io/zone"

Ties = Callable[[Sequence[tuple[str, int]]], str]
"""Chooses a node among those with the highest score.  It gets the nodes in the scheduler's order, each with its score,
the lower ones too: kube-scheduler takes the head of its heap, which depends on all."""


def first_of_best(scored: Sequence[tuple[str, int]]) -> str:
    """The choice of a caller who wants the same answer each time."""
    return max(scored, key=lambda each: each[1])[0]


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


class Victims(StrEnum):
    """Which pods of one priority go first; budgets and priorities come before."""

    IMPORTANCE = "importance"
    """Those that started last, as in Kubernetes."""
    LEAST_WORK_LOST = "least-work-lost"
    """Those with the least time since their start, or since they last saved by themselves, all that go together."""
    LEAST_RESTORE_TIME = "least-restore-time"
    """Those that request the least memory, all that go together."""


class Terms(Frozen):
    """How victims are chosen, and what of theirs stays."""

    victims: Victims = Victims.IMPORTANCE
    holds: tuple[str, ...] = ()
    """Resources that a victim goes on holding: none if it is deleted."""

    def freed(self, pod: Pod) -> Pod:
        """What the eviction of a pod frees, as a pod that requests this."""
        if not self.holds:
            return pod
        return replace(pod, requests={name: n for name, n in pod.requests.items() if name not in self.holds})

    def held(self, pod: Pod) -> dict[str, int]:
        """What a pod that was evicted goes on holding."""
        return {name: n for name, n in pod.requests.items() if name in self.holds}

    def cost(self, bound: Bound, now_ns: int) -> int:
        """What its eviction costs, in the unit of ``victims``."""
        if self.victims is Victims.LEAST_RESTORE_TIME:
            return bound.pod.requests.get("memory", 0)
        ran_ns = 0 if bound.start_ns is None else now_ns - bound.start_ns
        return ran_ns if bound.pod.saves_ns is None else ran_ns % bound.pod.saves_ns


IN_KUBERNETES = Terms()
"""Victims are deleted."""


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


class Pod(Frozen):
    """A pod as its owner wants it.  Its name is unique; namespaces are not told apart."""

    name: str
    priority: int = 0
    policy: Policy = Policy.LOWER_PRIORITY
    requests: Mapping[str, int] = {}
    labels: Mapping[str, str] = {}
    selector: Mapping[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    anti_affinity: tuple[AntiAffinity, ...] = ()
    group: str = ""
    """Its PodGroup, with which it is placed if the state has that."""
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
    """Of its attempts, which were all so far."""
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


def matches(wanted: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Whether the labels have all that is wanted."""
    return all(labels.get(key) == value for key, value in wanted.items())

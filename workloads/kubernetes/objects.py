"""The kinds of Kubernetes that are read, with the fields that are; and what Kueue's have in common with them.

Fields have the names of the API, or say where they stand (``at``): ``spec.nodeName`` is the field ``nodeName`` of the
object ``spec``.  What other fields do to an answer is in the table of settings, in the list with the kind's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, TypeVar

import msgspec

from workloads.kubernetes.quantities import Quantity

ValueT = TypeVar("ValueT")


def at(path: str, default: ValueT) -> ValueT:
    """A field of the struct that stands inside of other objects."""
    return msgspec.field(name=path, default=default)


class Struct(msgspec.Struct, frozen=True):
    """A struct of the API, with the fields of it that are read."""


class Object(Struct, frozen=True):
    """One object of any kind."""

    GROUP: ClassVar[str] = ""
    """The group of the API that has the kind, which is called as the class; the version does not matter."""
    COUNTED: ClassVar[str] = "objects"
    """What such objects are called where they are counted."""
    ONLY_IN: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """By field that only some versions have: those versions.  The API rejects it in another."""

    apiVersion: str
    kind: str
    name: str = at("metadata.name", "")
    namespace: str = at("metadata.namespace", "")
    creationTimestamp: str = at("metadata.creationTimestamp", "")

    @property
    def full_name(self) -> str:
        """Its name with the namespace, if there is one."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def in_namespace(self) -> str:
        """The namespace in which the API server puts it."""
        return self.namespace or "default"


class Resources(Struct, frozen=True):
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}


class Container(Struct, frozen=True):
    resources: Resources = Resources()
    restartPolicy: str = ""


class Requesting(Struct, frozen=True):
    """A pod's spec: what it requests."""

    containers: tuple[Container, ...] = ()
    initContainers: tuple[Container, ...] = ()
    overhead: dict[str, Quantity] = {}
    resources: Resources = Resources()
    """What is requested for the whole pod."""


class Condition(Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    lastTransitionTime: str = ""


class PriorityClass(Object, frozen=True):
    GROUP: ClassVar[str] = "scheduling.k8s.io"
    value: int = 0
    globalDefault: bool = False
    preemptionPolicy: str = "PreemptLowerPriority"


class NodeTaint(Struct, frozen=True):
    key: str
    effect: str
    value: str = ""


class Node(Object, frozen=True):
    COUNTED: ClassVar[str] = "nodes"

    labels: dict[str, str] = at("metadata.labels", {})
    taints: tuple[NodeTaint, ...] = at("spec.taints", ())
    unschedulable: bool = at("spec.unschedulable", False)
    allocatable: dict[str, Quantity] = at("status.allocatable", {})


class OwnerReference(Struct, frozen=True):
    kind: str = ""
    name: str = ""
    controller: bool = False


class Owned(Object, frozen=True):
    """An object that others may own."""

    labels: dict[str, str] = at("metadata.labels", {})
    ownerReferences: tuple[OwnerReference, ...] = at("metadata.ownerReferences", ())


class Expression(Struct, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Struct, frozen=True):
    matchLabels: dict[str, str] = {}
    matchExpressions: tuple[Expression, ...] = ()


class AffinityTerm(Struct, frozen=True):
    topologyKey: str = ""
    labelSelector: LabelSelector | None = None
    matchLabelKeys: tuple[str, ...] = ()
    mismatchLabelKeys: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    namespaceSelector: LabelSelector | None = None


class NodeSelectorTerm(Struct, frozen=True):
    matchExpressions: tuple[Expression, ...] = ()
    matchFields: tuple[Expression, ...] = ()


class NodeSelector(Struct, frozen=True):
    nodeSelectorTerms: tuple[NodeSelectorTerm, ...] = ()


class PreferredNodes(Struct, frozen=True):
    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class PreferredPods(Struct, frozen=True):
    weight: int = 0
    podAffinityTerm: AffinityTerm = AffinityTerm()


class SpreadConstraint(Struct, frozen=True):
    maxSkew: int = 1
    topologyKey: str = ""
    whenUnsatisfiable: str = ""
    labelSelector: LabelSelector | None = None
    minDomains: int | None = None
    nodeAffinityPolicy: str = "Honor"
    nodeTaintsPolicy: str = "Ignore"
    matchLabelKeys: tuple[str, ...] = ()


class Ephemeral(Struct, frozen=True):
    """A claim that is made for the pod."""


class PodVolume(Struct, frozen=True):
    name: str = ""
    claimName: str = at("persistentVolumeClaim.claimName", "")
    ephemeral: Ephemeral | None = None


class Toleration(Struct, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    tolerationSeconds: int | None = None


class Gate(Struct, frozen=True):
    name: str = ""


class Port(Struct, frozen=True):
    containerPort: int = 0
    hostPort: int = 0
    protocol: str = "TCP"
    hostIP: str = ""


class PortContainer(Container, frozen=True):
    ports: tuple[Port, ...] = ()


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class PodSpec(Requesting, frozen=True):
    LISTED_IN: ClassVar[dict[str, str]] = {"of": "Pod", "key": "spec", "counted": "pods"}
    """Its list of settings, and its place there, also where it is the template of an owner."""

    containers: tuple[PortContainer, ...] = ()
    initContainers: tuple[PortContainer, ...] = ()
    hostNetwork: bool = False
    nodeName: str = ""
    schedulerName: str = "default-scheduler"
    priority: int | None = None
    priorityClassName: str = ""
    preemptionPolicy: str = ""
    runtimeClassName: str = ""
    nodeSelector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    nodeAffinity: NodeSelector | None = at(f"affinity.nodeAffinity.{_REQUIRED}", None)
    preferredNodes: tuple[PreferredNodes, ...] = at(f"affinity.nodeAffinity.{_PREFERRED}", ())
    podAffinity: tuple[AffinityTerm, ...] = at(f"affinity.podAffinity.{_REQUIRED}", ())
    preferredPods: tuple[PreferredPods, ...] = at(f"affinity.podAffinity.{_PREFERRED}", ())
    podAntiAffinity: tuple[AffinityTerm, ...] = at(f"affinity.podAntiAffinity.{_REQUIRED}", ())
    avoidedPods: tuple[PreferredPods, ...] = at(f"affinity.podAntiAffinity.{_PREFERRED}", ())
    topologySpreadConstraints: tuple[SpreadConstraint, ...] = ()
    volumes: tuple[PodVolume, ...] = ()
    terminationGracePeriodSeconds: int = 30
    schedulingGates: tuple[Gate, ...] = ()
    podGroupName: str = at("schedulingGroup.podGroupName", "")


class ContainerStatus(Struct, frozen=True):
    finishedAt: str = at("state.terminated.finishedAt", "")


class Pod(Owned, frozen=True):
    COUNTED: ClassVar[str] = "pods"

    deletionTimestamp: str = at("metadata.deletionTimestamp", "")
    spec: PodSpec = PodSpec()
    phase: str = at("status.phase", "Pending")
    startTime: str = at("status.startTime", "")
    nominatedNodeName: str = at("status.nominatedNodeName", "")
    conditions: tuple[Condition, ...] = at("status.conditions", ())
    containerStatuses: tuple[ContainerStatus, ...] = at("status.containerStatuses", ())


class Owner(Owned, frozen=True):
    """An object that makes pods from a template."""

    podLabels: dict[str, str] = at("spec.template.metadata.labels", {})
    podSpec: PodSpec = at("spec.template.spec", PodSpec())


class Replicated(Owner, frozen=True):
    """One whose pods are all alike, and are spread by default."""

    selector: LabelSelector | None = at("spec.selector", None)


class Deployment(Replicated, frozen=True):
    GROUP: ClassVar[str] = "apps"
    COUNTED: ClassVar[str] = "deployments"

    replicas: int = at("spec.replicas", 1)


class ReplicaSet(Replicated, frozen=True):
    """Of one whose pods are in the files, what they are spread by; none are made of it."""

    GROUP: ClassVar[str] = "apps"
    COUNTED: ClassVar[str] = "replica sets"


class PersistentVolumeClaim(Object, frozen=True):
    """A claim of a volume."""

    COUNTED: ClassVar[str] = "claims"

    volumeName: str = at("spec.volumeName", "")
    accessModes: tuple[str, ...] = at("spec.accessModes", ())


class ClaimTemplate(Struct, frozen=True):
    """A claim that is made for each pod of a set."""

    name: str = at("metadata.name", "")


class StatefulSet(Replicated, frozen=True):
    GROUP: ClassVar[str] = "apps"
    COUNTED: ClassVar[str] = "stateful sets"

    replicas: int = at("spec.replicas", 1)
    claims: tuple[ClaimTemplate, ...] = at("spec.volumeClaimTemplates", ())
    podManagementPolicy: str = at("spec.podManagementPolicy", "OrderedReady")
    firstNumber: int = at("spec.ordinals.start", 0)


class DaemonSet(Owner, frozen=True):
    GROUP: ClassVar[str] = "apps"
    COUNTED: ClassVar[str] = "daemon sets"


class Service(Object, frozen=True):
    COUNTED: ClassVar[str] = "services"

    selector: dict[str, str] = at("spec.selector", {})


class Job(Owner, frozen=True):
    GROUP: ClassVar[str] = "batch"
    COUNTED: ClassVar[str] = "jobs"

    parallelism: int = at("spec.parallelism", 1)
    completions: int | None = at("spec.completions", None)
    suspend: bool = at("spec.suspend", False)
    podReplacementPolicy: str = at("spec.podReplacementPolicy", "TerminatingOrFailed")
    active: int = at("status.active", 0)
    succeeded: int = at("status.succeeded", 0)
    failed: int = at("status.failed", 0)


class PodDisruptionBudget(Object, frozen=True):
    GROUP: ClassVar[str] = "policy"
    COUNTED: ClassVar[str] = "budgets"

    selector: LabelSelector | None = at("spec.selector", None)
    minAvailable: str | int | None = at("spec.minAvailable", None)
    maxUnavailable: str | int | None = at("spec.maxUnavailable", None)
    disruptionsAllowed: int | None = at("status.disruptionsAllowed", None)
    expectedPods: int | None = at("status.expectedPods", None)
    disruptedPods: dict[str, str] = at("status.disruptedPods", {})


class PodGroup(Object, frozen=True):
    GROUP: ClassVar[str] = "scheduling.k8s.io"
    COUNTED: ClassVar[str] = "pod groups"

    minCount: int = at("spec.schedulingPolicy.gang.minCount", 1)
    """Left out: its pods need not start together, so one is enough."""
    disruptionMode: str = at("spec.disruptionMode", "")
    priorityClassName: str = at("spec.priorityClassName", "")
    priority: int | None = at("spec.priority", None)


class Namespace(Object, frozen=True):
    COUNTED: ClassVar[str] = "namespaces"

    labels: dict[str, str] = at("metadata.labels", {})


class ClaimReference(Struct, frozen=True):
    namespace: str = ""
    name: str = ""


class PersistentVolume(Object, frozen=True):
    COUNTED: ClassVar[str] = "volumes"

    nodeAffinity: NodeSelector | None = at("spec.nodeAffinity.required", None)
    claimRef: ClaimReference | None = at("spec.claimRef", None)


class KubeSchedulerConfiguration(Object, frozen=True):
    """The scheduler's own configuration, of which nothing is read but what it would decide."""

    GROUP: ClassVar[str] = "kubescheduler.config.k8s.io"
    COUNTED: ClassVar[str] = "settings"


MAKERS = (Job, Deployment, ReplicaSet, StatefulSet, DaemonSet)
"""What makes pods from a template."""
KINDS: tuple[type[Object], ...] = (
    *(Node, Pod, PriorityClass, PodDisruptionBudget, Job, Deployment, PodGroup, Namespace, PersistentVolume),
    *(PersistentVolumeClaim, Service, ReplicaSet, StatefulSet, DaemonSet, KubeSchedulerConfiguration),
)

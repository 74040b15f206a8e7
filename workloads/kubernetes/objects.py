"""The kinds of Kubernetes that are read, with the fields that are."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from workloads.kubernetes.api import (
    NODE,
    PRIORITY_CLASS,
    Condition,
    LabelledMetadata,
    Node,
    Object,
    PriorityClass,
    Requesting,
    Silent,
    Struct,
)
from workloads.kubernetes.reading import Kind


class OwnerReference(Silent, frozen=True):
    kind: str = ""
    name: str = ""
    controller: bool = False


class Metadata(LabelledMetadata, frozen=True):
    ownerReferences: tuple[OwnerReference, ...] = ()
    deletionTimestamp: str = ""


class Expression(Silent, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Struct, frozen=True):
    matchLabels: dict[str, str] = msgspec.field(default_factory=dict)
    matchExpressions: tuple[Expression, ...] = ()


class AntiAffinityTerm(Struct, frozen=True):
    topologyKey: str = ""
    labelSelector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespaceSelector: LabelSelector | None = None


class PodAntiAffinity(Struct, frozen=True):
    requiredDuringSchedulingIgnoredDuringExecution: tuple[AntiAffinityTerm, ...] = ()


class NodeSelectorTerm(Struct, frozen=True):
    matchExpressions: tuple[Expression, ...] = ()
    matchFields: tuple[Expression, ...] = ()


class NodeSelector(Struct, frozen=True):
    nodeSelectorTerms: tuple[NodeSelectorTerm, ...] = ()


class NodeAffinity(Struct, frozen=True):
    requiredDuringSchedulingIgnoredDuringExecution: NodeSelector | None = None


class Affinity(Struct, frozen=True):
    nodeAffinity: NodeAffinity = NodeAffinity()
    podAntiAffinity: PodAntiAffinity = PodAntiAffinity()


class Toleration(Silent, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class Volume(Silent, frozen=True):
    """Only those that bind a pod to nodes are listed."""

    LISTED: ClassVar[frozenset[str]] = frozenset(
        ("persistentVolumeClaim", "ephemeral", "awsElasticBlockStore", "azureDisk", "gcePersistentDisk", "iscsi", "rbd")
    )


class Gate(Silent, frozen=True):
    name: str = ""


class SchedulingGroup(Silent, frozen=True):
    podGroupName: str = ""


class PodSpec(Requesting, frozen=True):
    LISTED: ClassVar[frozenset[str]] = frozenset(("topologySpreadConstraints", "resourceClaims"))

    nodeName: str = ""
    schedulerName: str = "default-scheduler"
    priority: int | None = None
    priorityClassName: str = ""
    preemptionPolicy: str = ""
    nodeSelector: dict[str, str] = msgspec.field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    affinity: Affinity = Affinity()
    terminationGracePeriodSeconds: int = 30
    schedulingGates: tuple[Gate, ...] = ()
    schedulingGroup: SchedulingGroup = SchedulingGroup()
    volumes: tuple[Volume, ...] = ()


class Terminated(Silent, frozen=True):
    finishedAt: str = ""


class ContainerState(Silent, frozen=True):
    terminated: Terminated | None = None


class ContainerStatus(Silent, frozen=True):
    state: ContainerState = ContainerState()


class PodStatus(Silent, frozen=True):
    phase: str = "Pending"
    startTime: str = ""
    nominatedNodeName: str = ""
    conditions: tuple[Condition, ...] = ()
    containerStatuses: tuple[ContainerStatus, ...] = ()


class Pod(Object, frozen=True):
    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class PodTemplate(Silent, frozen=True):
    metadata: LabelledMetadata = LabelledMetadata()
    spec: PodSpec = PodSpec()


class DeploymentSpec(Silent, frozen=True):
    template: PodTemplate = PodTemplate()
    replicas: int = 1


class Deployment(Object, frozen=True):
    spec: DeploymentSpec = DeploymentSpec()


class JobSpec(Silent, frozen=True):
    template: PodTemplate = PodTemplate()
    parallelism: int = 1
    completions: int | None = None
    suspend: bool = False
    podReplacementPolicy: str = "TerminatingOrFailed"


class JobStatus(Silent, frozen=True):
    active: int = 0
    succeeded: int = 0
    failed: int = 0


class Job(Object, frozen=True):
    metadata: Metadata = Metadata()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class BudgetSpec(Struct, frozen=True):
    selector: LabelSelector | None = None
    minAvailable: str | int | None = None
    maxUnavailable: str | int | None = None


class BudgetStatus(Silent, frozen=True):
    disruptionsAllowed: int | None = None
    expectedPods: int | None = None
    disruptedPods: dict[str, str] = msgspec.field(default_factory=dict)


class PodDisruptionBudget(Object, frozen=True):
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()


class GangPolicy(Silent, frozen=True):
    minCount: int = 1


class GroupPolicy(Silent, frozen=True):
    gang: GangPolicy = GangPolicy()
    """Left out: its pods need not start together, so one is enough."""


class PodGroupSpec(Silent, frozen=True):
    LISTED: ClassVar[frozenset[str]] = frozenset(("schedulingConstraints", "resourceClaims"))

    schedulingPolicy: GroupPolicy = GroupPolicy()
    disruptionMode: str = ""
    priorityClassName: str = ""
    priority: int | None = None


class PodGroup(Object, frozen=True):
    spec: PodGroupSpec = PodGroupSpec()


POD: Kind = ("", "Pod")
BUDGET: Kind = ("policy", "PodDisruptionBudget")
JOB: Kind = ("batch", "Job")
DEPLOYMENT: Kind = ("apps", "Deployment")
POD_GROUP: Kind = ("scheduling.k8s.io", "PodGroup")

KINDS: dict[Kind, type[msgspec.Struct]] = {
    NODE: Node,
    POD: Pod,
    PRIORITY_CLASS: PriorityClass,
    BUDGET: PodDisruptionBudget,
    JOB: Job,
    DEPLOYMENT: Deployment,
    POD_GROUP: PodGroup,
}

"""The kinds of Kueue that are read, with the fields that are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from workloads.kubernetes.objects import (
    Condition,
    LabelSelector,
    Namespace,
    Node,
    NodeSelector,
    NodeTaint,
    Object,
    PriorityClass,
    Requesting,
    Struct,
    Toleration,
    at,
)
from workloads.kubernetes.quantities import Quantity

_BEFORE, _NOW = ("v1beta1",), ("v1beta2", "v1")
"""Versions that have a field."""


class KueueObject(Object, frozen=True):
    """An object of Kueue's own API."""

    GROUP: ClassVar[str] = "kueue.x-k8s.io"


class ResourceQuota(Struct, frozen=True):
    name: str
    nominalQuota: Quantity
    borrowingLimit: Quantity | None = None
    lendingLimit: Quantity | None = None


class FlavorQuotas(Struct, frozen=True):
    name: str
    resources: tuple[ResourceQuota, ...] = ()


class ResourceGroup(Struct, frozen=True):
    coveredResources: tuple[str, ...] = ()
    flavors: tuple[FlavorQuotas, ...] = ()


class CheckRule(Struct, frozen=True):
    name: str
    onFlavors: tuple[str, ...] = ()


class ClusterQueue(KueueObject, frozen=True):
    COUNTED: ClassVar[str] = "queues"
    ONLY_IN: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "spec.cohort": _BEFORE,
        "spec.admissionChecks": _BEFORE,
        "spec.cohortName": _NOW,
        "spec.concurrentAdmissionPolicy": _NOW,
    }

    resourceGroups: tuple[ResourceGroup, ...] = at("spec.resourceGroups", ())
    cohort: str = at("spec.cohort", "")
    """In v1beta1."""
    cohortName: str = at("spec.cohortName", "")
    queueingStrategy: str = at("spec.queueingStrategy", "BestEffortFIFO")
    withinClusterQueue: str = at("spec.preemption.withinClusterQueue", "Never")
    reclaimWithinCohort: str = at("spec.preemption.reclaimWithinCohort", "Never")
    borrowWithinCohort: str = at("spec.preemption.borrowWithinCohort.policy", "Never")
    maxPriorityThreshold: int | None = at("spec.preemption.borrowWithinCohort.maxPriorityThreshold", None)
    whenCanBorrow: str = at("spec.flavorFungibility.whenCanBorrow", "MayStopSearch")
    whenCanPreempt: str = at("spec.flavorFungibility.whenCanPreempt", "TryNextFlavor")
    preference: str = at("spec.flavorFungibility.preference", "BorrowingOverPreemption")
    stopPolicy: str = at("spec.stopPolicy", "None")
    namespaceSelector: LabelSelector | None = at("spec.namespaceSelector", None)
    admissionChecks: tuple[str, ...] = at("spec.admissionChecks", ())
    """In v1beta1."""
    checkRules: tuple[CheckRule, ...] = at("spec.admissionChecksStrategy.admissionChecks", ())
    weight: Quantity = at("spec.fairSharing.weight", 1)
    conditions: tuple[Condition, ...] = at("status.conditions", ())


class Cohort(KueueObject, frozen=True):
    COUNTED: ClassVar[str] = "cohorts"
    ONLY_IN: ClassVar[Mapping[str, tuple[str, ...]]] = {"spec.parent": ("v1alpha1",)}

    parent: str = at("spec.parent", "")
    """In v1alpha1."""
    parentName: str = at("spec.parentName", "")
    resourceGroups: tuple[ResourceGroup, ...] = at("spec.resourceGroups", ())
    weight: Quantity = at("spec.fairSharing.weight", 1)


class LocalQueue(KueueObject, frozen=True, kw_only=True):
    COUNTED: ClassVar[str] = "local queues"

    clusterQueue: str = msgspec.field(name="spec.clusterQueue")
    stopPolicy: str = at("spec.stopPolicy", "None")
    conditions: tuple[Condition, ...] = at("status.conditions", ())


class ResourceFlavor(KueueObject, frozen=True):
    COUNTED: ClassVar[str] = "flavors"

    nodeLabels: dict[str, str] = at("spec.nodeLabels", {})
    nodeTaints: tuple[NodeTaint, ...] = at("spec.nodeTaints", ())
    tolerations: tuple[Toleration, ...] = at("spec.tolerations", ())


class PodSpec(Requesting, frozen=True):
    """What Kueue reads of a pod's spec."""

    nodeSelector: dict[str, str] = at("nodeSelector", {})
    nodeAffinity: NodeSelector | None = at("affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution", None)
    tolerations: tuple[Toleration, ...] = at("tolerations", ())


class PodSet(Struct, frozen=True):
    name: str = "main"
    count: int = 1
    minCount: int | None = None
    podSpec: PodSpec = at("template.spec", PodSpec())


class CheckState(Struct, frozen=True):
    name: str = ""
    state: str = ""
    lastTransitionTime: str = ""


class Workload(KueueObject, frozen=True):
    COUNTED: ClassVar[str] = "workloads"
    ONLY_IN: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "spec.priorityClassName": _BEFORE,
        "spec.priorityClassSource": _BEFORE,
        "spec.priorityClassRef": _NOW,
        "spec.preemptionGates": _NOW,
    }

    queueName: str = at("spec.queueName", "")
    priority: int | None = at("spec.priority", None)
    priorityClassName: str = at("spec.priorityClassName", "")
    """In v1beta1."""
    priorityClass: str = at("spec.priorityClassRef.name", "")
    podSets: tuple[PodSet, ...] = at("spec.podSets", ())
    active: bool = at("spec.active", True)
    maximumExecutionTimeSeconds: int | None = at("spec.maximumExecutionTimeSeconds", None)
    conditions: tuple[Condition, ...] = at("status.conditions", ())
    checks: tuple[CheckState, ...] = at("status.admissionChecks", ())


class WorkloadPriorityClass(KueueObject, frozen=True):
    value: int = 0


class FairSharing(Struct, frozen=True):
    enable: bool | None = None
    """In v1beta1, where it is false if it is left out; in v1beta2 there is fair sharing if there is this object."""
    preemptionStrategies: tuple[str, ...] = ()


class Transformation(Struct, frozen=True):
    input: str
    strategy: str = "Retain"
    multiplyBy: str = ""
    outputs: dict[str, Quantity] = msgspec.field(default_factory=dict)


class Configuration(Object, frozen=True):
    """Kueue's own configuration."""

    GROUP: ClassVar[str] = f"config.{KueueObject.GROUP}"
    COUNTED: ClassVar[str] = "settings"
    ONLY_IN: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "fairSharing.enable": _BEFORE,
        "waitForPodsReady.enable": _BEFORE,
        "queueVisibility": _BEFORE,
        "visibilityServer": _NOW,
        "resources.quotaCheckStrategy": _NOW,
    }

    featureGates: dict[str, str] = at("featureGates", {})
    waitsForPods: bool | None = at("waitForPodsReady.enable", None)
    """Whether Kueue looks at pods that are ready, in v1beta1; later it always does."""
    podsTimeout: str = at("waitForPodsReady.timeout", "")
    blockAdmission: bool | None = at("waitForPodsReady.blockAdmission", None)
    requeuingTimestamp: str = at("waitForPodsReady.requeuingStrategy.timestamp", "Eviction")
    backoffLimitCount: int | None = at("waitForPodsReady.requeuingStrategy.backoffLimitCount", None)
    backoffBaseSeconds: int = at("waitForPodsReady.requeuingStrategy.backoffBaseSeconds", 60)
    backoffMaxSeconds: int = at("waitForPodsReady.requeuingStrategy.backoffMaxSeconds", 3600)
    excludeResourcePrefixes: tuple[str, ...] = at("resources.excludeResourcePrefixes", ())
    transformations: tuple[Transformation, ...] = at("resources.transformations", ())
    fairSharing: FairSharing | None = None

    @property
    def is_before(self) -> bool:
        """Whether it is in v1beta1, which has other defaults."""
        return self.apiVersion.endswith("/v1beta1")

    @property
    def fair_sharing(self) -> FairSharing | None:
        """Its fair sharing; None: there is none."""
        fair = self.fairSharing
        if fair is None:
            return None
        is_on = not self.is_before if fair.enable is None else fair.enable
        return fair if is_on else None


KINDS: tuple[type[Object], ...] = (
    *(ClusterQueue, Cohort, LocalQueue, ResourceFlavor, Workload, WorkloadPriorityClass, PriorityClass, Configuration),
    *(Node, Namespace),
)

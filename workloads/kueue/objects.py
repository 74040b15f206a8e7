"""The kinds of Kueue that are read, with the fields that are."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from workloads.kubernetes.api import (
    NODE,
    PRIORITY_CLASS,
    Condition,
    Node,
    Object,
    PriorityClass,
    Requesting,
    Silent,
    Struct,
)
from workloads.kubernetes.quantities import Quantity
from workloads.kubernetes.reading import Kind

GROUP = "kueue.x-k8s.io"


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


class BorrowWithinCohort(Struct, frozen=True):
    policy: str = "Never"
    maxPriorityThreshold: int | None = None


class Preemption(Struct, frozen=True):
    withinClusterQueue: str = "Never"
    reclaimWithinCohort: str = "Never"
    borrowWithinCohort: BorrowWithinCohort = BorrowWithinCohort()


class FlavorFungibility(Struct, frozen=True):
    whenCanBorrow: str = "MayStopSearch"
    whenCanPreempt: str = "TryNextFlavor"


class Weight(Struct, frozen=True):
    weight: Quantity = 1


class ClusterQueueSpec(Struct, frozen=True):
    resourceGroups: tuple[ResourceGroup, ...] = ()
    cohort: str = ""
    """In v1beta1."""
    cohortName: str = ""
    queueingStrategy: str = "BestEffortFIFO"
    preemption: Preemption = Preemption()
    flavorFungibility: FlavorFungibility = FlavorFungibility()
    fairSharing: Weight = Weight()


class CohortSpec(Struct, frozen=True):
    parent: str = ""
    """In v1alpha1."""
    parentName: str = ""
    resourceGroups: tuple[ResourceGroup, ...] = ()
    fairSharing: Weight = Weight()


class LocalQueueSpec(Struct, frozen=True):
    clusterQueue: str


class PodTemplate(Silent, frozen=True):
    spec: Requesting = Requesting()


class PodSet(Struct, frozen=True):
    name: str = "main"
    count: int = 1
    template: PodTemplate = PodTemplate()


class PriorityClassRef(Silent, frozen=True):
    name: str = ""


class WorkloadSpec(Struct, frozen=True):
    queueName: str = ""
    priority: int | None = None
    priorityClassName: str = ""
    """In v1beta1."""
    priorityClassRef: PriorityClassRef = PriorityClassRef()
    podSets: tuple[PodSet, ...] = ()
    active: bool = True


class WorkloadStatus(Silent, frozen=True):
    conditions: tuple[Condition, ...] = ()


class ClusterQueue(Object, frozen=True):
    spec: ClusterQueueSpec = ClusterQueueSpec()


class Cohort(Object, frozen=True):
    spec: CohortSpec = CohortSpec()


class LocalQueue(Object, frozen=True, kw_only=True):
    spec: LocalQueueSpec


class ResourceFlavorSpec(Struct, frozen=True):
    nodeLabels: dict[str, str] = msgspec.field(default_factory=dict)


class ResourceFlavor(Object, frozen=True):
    spec: ResourceFlavorSpec = ResourceFlavorSpec()


class Workload(Object, frozen=True):
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


class FairSharing(Struct, frozen=True):
    enable: bool | None = None
    """In v1beta1, where it is false if it is left out; in v1beta2 there is fair sharing if there is this object."""
    preemptionStrategies: tuple[str, ...] = ()


class Configuration(Object, frozen=True):
    """Kueue's own configuration; the many other fields say nothing about preemption."""

    LISTED: ClassVar[frozenset[str]] = frozenset(("resources", "waitForPodsReady", "admissionFairSharing"))

    fairSharing: FairSharing | None = None

    @property
    def fair_sharing(self) -> FairSharing | None:
        """Its fair sharing; None: there is none."""
        fair = self.fairSharing
        if fair is None:
            return None
        is_on = not self.apiVersion.endswith("/v1beta1") if fair.enable is None else fair.enable
        return fair if is_on else None


CLUSTER_QUEUE: Kind = (GROUP, "ClusterQueue")
COHORT: Kind = (GROUP, "Cohort")
LOCAL_QUEUE: Kind = (GROUP, "LocalQueue")
RESOURCE_FLAVOR: Kind = (GROUP, "ResourceFlavor")
WORKLOAD: Kind = (GROUP, "Workload")
WORKLOAD_PRIORITY_CLASS: Kind = (GROUP, "WorkloadPriorityClass")
CONFIGURATION: Kind = (f"config.{GROUP}", "Configuration")

KINDS: dict[Kind, type[msgspec.Struct]] = {
    CLUSTER_QUEUE: ClusterQueue,
    COHORT: Cohort,
    LOCAL_QUEUE: LocalQueue,
    RESOURCE_FLAVOR: ResourceFlavor,
    WORKLOAD: Workload,
    WORKLOAD_PRIORITY_CLASS: PriorityClass,
    PRIORITY_CLASS: PriorityClass,
    CONFIGURATION: Configuration,
    NODE: Node,
}

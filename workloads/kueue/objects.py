"""The kinds of Kueue that are read, with the fields that are.

Fields have the names of the API.  In a struct with ``SILENT`` other fields are not listed as left out: they say nothing
about quotas and preemption, or are what Kubernetes keeps for itself.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from workloads.kubernetes.quantities import Quantity
from workloads.kubernetes.reading import Kind
from workloads.kubernetes.reading import Metadata as _Metadata

GROUP = "kueue.x-k8s.io"


class Struct(msgspec.Struct, frozen=True):
    """One struct of the API."""


class Metadata(_Metadata, frozen=True):
    """Names and the creation time; labels and annotations are not read."""

    SILENT: ClassVar[bool] = True


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


class Resources(Struct, frozen=True):
    SILENT: ClassVar[bool] = True
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}


class Container(Struct, frozen=True):
    SILENT: ClassVar[bool] = True
    resources: Resources = Resources()
    restartPolicy: str = ""


class PodSpec(Struct, frozen=True):
    SILENT: ClassVar[bool] = True
    containers: tuple[Container, ...] = ()
    initContainers: tuple[Container, ...] = ()
    overhead: dict[str, Quantity] = {}


class PodTemplate(Struct, frozen=True):
    SILENT: ClassVar[bool] = True
    spec: PodSpec = PodSpec()


class PodSet(Struct, frozen=True):
    name: str = "main"
    count: int = 1
    template: PodTemplate = PodTemplate()


class PriorityClassRef(Struct, frozen=True):
    SILENT: ClassVar[bool] = True
    name: str = ""


class WorkloadSpec(Struct, frozen=True):
    queueName: str = ""
    priority: int | None = None
    priorityClassName: str = ""
    """In v1beta1."""
    priorityClassRef: PriorityClassRef = PriorityClassRef()
    podSets: tuple[PodSet, ...] = ()
    active: bool = True


class Condition(Struct, frozen=True):
    SILENT: ClassVar[bool] = True
    type: str = ""
    status: str = ""
    lastTransitionTime: str = ""


class WorkloadStatus(Struct, frozen=True):
    SILENT: ClassVar[bool] = True
    conditions: tuple[Condition, ...] = ()


class _Object(Struct, frozen=True):
    apiVersion: str
    kind: str
    metadata: Metadata = Metadata()


class ClusterQueue(_Object, frozen=True):
    SILENT: ClassVar[bool] = True
    spec: ClusterQueueSpec = ClusterQueueSpec()


class Cohort(_Object, frozen=True):
    SILENT: ClassVar[bool] = True
    spec: CohortSpec = CohortSpec()


class LocalQueue(_Object, frozen=True, kw_only=True):
    SILENT: ClassVar[bool] = True
    spec: LocalQueueSpec


class ResourceFlavor(_Object, frozen=True):
    """Only that it exists: quotas name it."""

    SILENT: ClassVar[bool] = True


class Workload(_Object, frozen=True):
    SILENT: ClassVar[bool] = True
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


class PriorityClass(_Object, frozen=True):
    SILENT: ClassVar[bool] = True
    value: int = 0


class FairSharing(Struct, frozen=True):
    enable: bool = True
    preemptionStrategies: tuple[str, ...] = ()


class Configuration(Struct, frozen=True):
    """Kueue's own configuration; the many other fields say nothing about preemption."""

    SILENT: ClassVar[bool] = True
    fairSharing: FairSharing | None = None


CLUSTER_QUEUE: Kind = (GROUP, "ClusterQueue")
COHORT: Kind = (GROUP, "Cohort")
LOCAL_QUEUE: Kind = (GROUP, "LocalQueue")
RESOURCE_FLAVOR: Kind = (GROUP, "ResourceFlavor")
WORKLOAD: Kind = (GROUP, "Workload")
WORKLOAD_PRIORITY_CLASS: Kind = (GROUP, "WorkloadPriorityClass")
PRIORITY_CLASS: Kind = ("scheduling.k8s.io", "PriorityClass")
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
}

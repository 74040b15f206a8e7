"""What the kinds of Kubernetes and Kueue that are read have in common, with the fields that are.

Fields have the names of the API.  In a struct with ``SILENT`` other fields are not listed as left out, but for those in
``LISTED``: the rest says nothing about scheduling, or is what Kubernetes keeps for itself.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from workloads.kubernetes.quantities import Quantity
from workloads.kubernetes.reading import Kind

PRIORITY_CLASS: Kind = ("scheduling.k8s.io", "PriorityClass")
NODE: Kind = ("", "Node")


class Struct(msgspec.Struct, frozen=True):
    """One struct of the API."""


class Silent(Struct, frozen=True):
    """One of which few fields matter."""

    SILENT: ClassVar[bool] = True


class Metadata(Silent, frozen=True):
    """Names and the creation time; annotations are not read."""

    name: str = ""
    namespace: str = ""
    creationTimestamp: str = ""

    @property
    def full_name(self) -> str:
        """With the namespace, if there is one."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class LabelledMetadata(Metadata, frozen=True):
    """With the labels, where selectors look at them."""

    labels: dict[str, str] = {}


class Object(Silent, frozen=True):
    """One object of any kind."""

    apiVersion: str
    kind: str
    metadata: Metadata = Metadata()


class Resources(Silent, frozen=True):
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}


class Port(Silent, frozen=True):
    LISTED: ClassVar[frozenset[str]] = frozenset({"hostPort"})


class Container(Silent, frozen=True):
    resources: Resources = Resources()
    restartPolicy: str = ""
    ports: tuple[Port, ...] = ()


class Requesting(Silent, frozen=True):
    """A pod's spec: what it requests."""

    containers: tuple[Container, ...] = ()
    initContainers: tuple[Container, ...] = ()
    overhead: dict[str, Quantity] = {}
    resources: Resources = Resources()
    """Of the whole pod."""


class Condition(Silent, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    lastTransitionTime: str = ""


class PriorityClass(Object, frozen=True):
    value: int = 0
    globalDefault: bool = False
    preemptionPolicy: str = "PreemptLowerPriority"


class NodeTaint(Silent, frozen=True):
    key: str
    effect: str
    value: str = ""


class NodeSpec(Silent, frozen=True):
    taints: tuple[NodeTaint, ...] = ()
    unschedulable: bool = False


class NodeStatus(Silent, frozen=True):
    allocatable: dict[str, Quantity] = {}


class Node(Object, frozen=True):
    metadata: LabelledMetadata = LabelledMetadata()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

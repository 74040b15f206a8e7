"""Nodes as Kueue's flavors see them, and where quotas promise more than the nodes have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from emulator.errors import printable
from emulator.sites.kueue import Cluster, FlavorNode
from workloads.kubernetes.pods import node_of
from workloads.kubernetes.quantities import quantity
from workloads.kubernetes.reading import Objects
from workloads.kueue import objects as api
from workloads.saved import NotTaken


def nodes_of(found: Objects) -> tuple[tuple[FlavorNode, ...], list[NotTaken]]:
    """The nodes that take pods, and those that were left out.  Raises ConfigError: a bad quantity or taint."""
    labels = {each.value.metadata.name: each.value.spec.nodeLabels for each in found.of(api.RESOURCE_FLAVOR)}
    nodes: list[FlavorNode] = []
    left_out: list[NotTaken] = []
    for each in found.of(api.NODE):
        node = node_of(each)
        flavors = tuple(name for name, wanted in labels.items() if wanted.items() <= node.labels.items())
        if node.unschedulable or not flavors:
            why = "is cordoned" if node.unschedulable else "has the labels of no ResourceFlavor"
            left_out.append(each.not_taken(f"it {why}"))
        else:
            nodes.append(FlavorNode(node.name, flavors, node.allocatable))
    return tuple(nodes), left_out


def shortages(cluster: Cluster, nodes: Sequence[FlavorNode]) -> Iterator[str]:
    """Flavors whose nominal quotas, over all queues and cohorts, are above what their nodes have, in words."""
    quotas, there = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for of in (*cluster.cohorts, *cluster.queues):
        for flavor in (flavor for group in of.groups for flavor in group.flavors):
            quotas.update({(flavor.name, resource): quota.nominal for resource, quota in flavor.quotas.items()})
    for node in nodes:
        for flavor in node.flavors:
            there.update({(flavor, resource): amount for resource, amount in node.allocatable.items()})
    for (flavor, resource), promised in quotas.items():
        if promised > there[flavor, resource]:
            has = quantity(resource, there[flavor, resource])
            yield (
                f"ResourceFlavor {printable(flavor)}: quotas of {quantity(resource, promised)} {printable(resource)},"
                f" its nodes have {has}"
            )

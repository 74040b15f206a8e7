"""Fit: which node a new container gets, of those that have room for it."""

from __future__ import annotations

from emulator.policies.policy import Axis, FitPolicy
from emulator.policies.resources import WHOLE_PPM
from emulator.policies.views import ClusterView, NodeView
from emulator.vocabulary import Resources


def offered(view: ClusterView, request: Resources, nodes: tuple[NodeView, ...], offer: NodeView) -> str:
    """The node whose heartbeat offers its room; the others have their turn."""
    return offer.name


def first_fit(view: ClusterView, request: Resources, nodes: tuple[NodeView, ...], offer: NodeView) -> str:
    """The first node, in the order of the cluster, that has room."""
    return nodes[0].name


def best_fit(view: ClusterView, request: Resources, nodes: tuple[NodeView, ...], offer: NodeView) -> str:
    """The node that has the least left afterwards: the mean over its resources, each as a share of the node."""
    return min(nodes, key=lambda node: _mean_left_ppm(node, request)).name


def worst_fit(view: ClusterView, request: Resources, nodes: tuple[NodeView, ...], offer: NodeView) -> str:
    """The node that has the most left afterwards: the mean over its resources, each as a share of the node."""
    return max(nodes, key=lambda node: _mean_left_ppm(node, request)).name


def dominant_resource(view: ClusterView, request: Resources, nodes: tuple[NodeView, ...], offer: NodeView) -> str:
    """The node that has the least left afterwards of the resource of which the container takes the largest share there.

    Of several the best fit.
    """
    return min(nodes, key=lambda node: (_dominant_left_ppm(node, request), _mean_left_ppm(node, request))).name


def _vectors(node: NodeView, request: Resources) -> list[tuple[int, int, int]]:
    """For each resource that the node has: all of it, what is charged, and what is requested.  Equal containers
    are the only resource."""
    if not node.resources:
        return [(node.capacity, node.capacity - node.free, 1)]
    return [each for each in zip(node.resources, node.charged, request, strict=True) if each[0]]


def _left_ppm(has: int, charged: int, need: int) -> int:
    return (has - charged - need) * WHOLE_PPM // has


def _mean_left_ppm(node: NodeView, request: Resources) -> int:
    left = [_left_ppm(*each) for each in _vectors(node, request)]
    return sum(left) // len(left)


def _dominant_left_ppm(node: NodeView, request: Resources) -> int:
    return _left_ppm(*max(_vectors(node, request), key=lambda each: each[2] * WHOLE_PPM // each[0]))


OFFERED = FitPolicy("offered", offered, "natjam, section 3.2; YARN", takes_the_offer=True)
FIT: Axis[FitPolicy] = Axis(
    "fit",
    (
        OFFERED,
        FitPolicy("first-fit", first_fit, "Johnson, Fast Algorithms for Bin Packing, 1974"),
        FitPolicy("best-fit", best_fit, "Johnson 1974; kube-scheduler's MostAllocated"),
        FitPolicy("worst-fit", worst_fit, "Johnson 1974; kube-scheduler's LeastAllocated"),
        FitPolicy("dominant-resource", dominant_resource, "ours; dominant resources: Ghodsi et al., NSDI 2011"),
    ),
    FitPolicy,
)

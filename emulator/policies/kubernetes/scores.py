"""How good a node is for a pod: the parts of the default profile that distinguish nodes.

A mean over cpu and memory, as the default profile weighs them; other resources count in the filters only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from emulator.policies.kubernetes.snapshot import NodeInfo
from emulator.sites.kubernetes import Effect, Node, Pod
from emulator.vocabulary import Frozen

DEFAULTS = {"cpu": 100, "memory": 200 << 20}
"""What a pod without a request is taken to use when nodes are scored by what is left."""
TAINT_WEIGHT = 3


class Score(Frozen):
    """A node's score for a pod, in its parts."""

    least_allocated: int
    """Mean percentage left with the pod."""
    balanced: int
    """Whether the shares of cpu and memory are closer together with the pod than without it."""
    taints: int
    """Fewer PreferNoSchedule taints that the pod does not tolerate."""

    @property
    def total(self) -> int:
        """The sum decides."""
        return self.least_allocated + self.balanced + self.taints


def score(rooms: Sequence[NodeInfo], pod: Pod) -> dict[str, Score]:
    """The scores of the nodes where the pod fits, by name, in their order."""
    disliked = [_disliked(room.node, pod) for room in rooms]
    most = max(disliked, default=0)
    return {
        room.node.name: Score(
            _least_allocated(room, pod),
            _balanced(room, pod),
            TAINT_WEIGHT * (100 - (100 * count // most if most else 0)),
        )
        for room, count in zip(rooms, disliked, strict=True)
    }


def scored_requests(pod: Pod) -> Mapping[str, int]:
    """The pod's cpu and memory, with the defaults for what it does not request."""
    return {resource: pod.requests.get(resource, default) for resource, default in DEFAULTS.items()}


def _disliked(node: Node, pod: Pod) -> int:
    return sum(taint.effect is Effect.PREFER_NO_SCHEDULE and not pod.tolerates(taint) for taint in node.taints)


def _least_allocated(room: NodeInfo, pod: Pod) -> int:
    parts = []
    for resource, asked in scored_requests(pod).items():
        capacity = room.node.allocatable.get(resource, 0)
        if capacity:
            left = capacity - room.used[resource] - room.defaulted[resource] * DEFAULTS[resource] - asked
            parts.append(max(left, 0) * 100 // capacity)
    return sum(parts) // len(parts) if parts else 0


def _balanced(room: NodeInfo, pod: Pod) -> int:
    if not any(pod.requests.get(resource) for resource in DEFAULTS):
        return 0
    before, after = _evenness(room, {}), _evenness(room, pod.requests)
    return 50 + int((50 + after - before) / 2)


def _evenness(room: NodeInfo, asked: Mapping[str, int]) -> int:
    """100: cpu and memory are used in the same share; 50: one fully, the other not at all."""
    shares = [
        min((room.used[resource] + asked.get(resource, 0)) / capacity, 1.0)
        for resource in DEFAULTS
        if (capacity := room.node.allocatable.get(resource, 0))
    ]
    apart = abs(shares[0] - shares[1]) / 2 if len(shares) == 2 else 0.0
    return int((1 - apart) * 100)

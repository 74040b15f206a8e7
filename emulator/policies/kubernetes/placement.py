"""Where a pod goes: the nodes where it fits, the best of them, and why not the others.

How good a node is for a pod follows the parts of the default profile that distinguish nodes.  They take a mean over cpu
and memory, as the default profile weighs them; other resources count in the filters only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from emulator.policies.kubernetes.filters import FitError
from emulator.policies.kubernetes.snapshot import NodeInfo, Snapshot
from emulator.policies.kubernetes.terms import Ties
from emulator.sites.kubernetes import Effect, Node, Pod
from emulator.vocabulary import Frozen


class Placement(Frozen):
    """The answer for one pod."""

    pod: Pod
    node: str | None
    """None: it fits nowhere."""
    scores: Mapping[str, Score] = {}
    """The score of each node where it fits, in the scheduler's order; none if there was no choice."""
    fit_errors: Mapping[str, FitError] = {}
    """Why it does not fit on the others."""
    was_nominated: bool = False
    """It has made room on this node before, and gets it whatever the scores."""


def place_in(snapshot: Snapshot, pod: Pod, nominated: str | None, ties: Ties) -> Placement:
    """The node for a pod as the cluster is.

    Above 100 nodes kube-scheduler looks for some that fit and scores these only; here all are looked at.
    """
    view = snapshot.view(pod)
    answers = snapshot.fit_errors(view)
    if nominated in snapshot.node_infos:
        own = snapshot.fit_error(snapshot.node_infos[nominated], pod, view.closed)
        if own is None:
            return Placement(pod, nominated, was_nominated=True)
        answers = {**answers, nominated: own}
    fitting, fit_errors = view.made_of("fits", answers, _split)
    if len(fitting) < 2:
        return Placement(pod, fitting[0] if fitting else None, {}, fit_errors)
    scores = score([snapshot.node_infos[name] for name in fitting], pod)
    node = ties([(name, each.total) for name, each in scores.items()])
    return Placement(pod, node, scores, fit_errors)


def _split(answers: Mapping[str, FitError | None]) -> tuple[list[str], Mapping[str, FitError]]:
    """The nodes that fit, and why the others do not."""
    fit_errors = {name: misfit for name, misfit in answers.items() if misfit is not None}
    return [name for name in answers if name not in fit_errors], fit_errors


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


def score(node_infos: Sequence[NodeInfo], pod: Pod) -> dict[str, Score]:
    """The scores of the nodes where the pod fits, by name, in their order."""
    disliked = [_disliked(room.node, pod) for room in node_infos]
    most = max(disliked, default=0)
    return {
        room.node.name: Score(
            _least_allocated(room, pod),
            _balanced(room, pod),
            TAINT_WEIGHT * (100 - (100 * count // most if most else 0)),
        )
        for room, count in zip(node_infos, disliked, strict=True)
    }


def scored_requests(pod: Pod) -> Mapping[str, int]:
    """The pod's cpu and memory, with the defaults for what it does not request."""
    return {resource: pod.requests.get(resource, default) for resource, default in DEFAULTS.items()}


def _disliked(node: Node, pod: Pod) -> int:
    return sum(taint.effect is Effect.PREFER_NO_SCHEDULE and not pod.tolerates(taint) for taint in node.taints)


def _least_allocated(node_info: NodeInfo, pod: Pod) -> int:
    parts = []
    for resource, asked in scored_requests(pod).items():
        capacity = node_info.node.allocatable.get(resource, 0)
        if capacity:
            left = capacity - node_info.used[resource] - node_info.defaulted[resource] * DEFAULTS[resource] - asked
            parts.append(max(left, 0) * 100 // capacity)
    return sum(parts) // len(parts) if parts else 0


def _balanced(node_info: NodeInfo, pod: Pod) -> int:
    if not any(pod.requests.get(resource) for resource in DEFAULTS):
        return 0
    before, after = _evenness(node_info, {}), _evenness(node_info, pod.requests)
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

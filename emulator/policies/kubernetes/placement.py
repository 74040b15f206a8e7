"""Where a pod goes: the nodes where it fits, the best of them, and why not the others.

How good a node is for a pod follows the parts of the default profile that distinguish nodes.  They take a mean over cpu
and memory, as the default profile weighs them; other resources count in the filters only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log

from emulator.policies.kubernetes.filters import FitError
from emulator.policies.kubernetes.snapshot import NodeInfo, Snapshot
from emulator.policies.kubernetes.terms import Ties
from emulator.policies.kubernetes.topology import Topology, domains_of, spread_score
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
    looked: int = 0
    """How many nodes were looked at."""


def place_in(snapshot: Snapshot, pod: Pod, nominated: str | None, ties: Ties) -> Placement:
    """The node for a pod as the cluster is.

    Nodes are looked at from the snapshot's first one around, until enough fit, and only these have scores.  A pod whose
    node affinity names nodes is tried on these only.
    """
    view = snapshot.view(pod)
    answers = snapshot.fit_errors(view)
    own = None
    if nominated in snapshot.node_infos:
        own = snapshot.fit_error(snapshot.node_infos[nominated], pod, view.topology)
        if own is None:
            return Placement(pod, nominated, was_nominated=True, looked=1)
        answers = {**answers, nominated: own}
    fitting, fit_errors = view.made_of("fits", answers, _split)
    named, among = _named(pod), answers
    if named is not None:
        among = {name: answers[name] for name in answers if name in named}
    first = snapshot.first % len(among) if among else 0
    looked = len({*among, nominated}) if own is not None else len(among)
    if len(fitting) > (enough := enough_nodes(len(among))):
        fitting, fit_errors = _sample(among, first, enough)
        if own is not None and nominated is not None:
            fit_errors[nominated] = own
        looked = len(fitting) + len(fit_errors)
    elif first and len(fitting) > 1:
        place = {name: number for number, name in enumerate(among)}
        fitting = sorted(fitting, key=lambda name: (place[name] - first) % len(place))
    if len(fitting) < 2:
        return Placement(pod, fitting[0] if fitting else None, {}, fit_errors, looked=looked)
    scores = score([snapshot.node_infos[name] for name in fitting], pod, view.topology)
    node = ties([(name, each.total) for name, each in scores.items()])
    return Placement(pod, node, scores, fit_errors, looked=looked)


def enough_nodes(nodes: int) -> int:
    """How many that fit are enough, of so many nodes (percentageOfNodesToScore in the default profile)."""
    return max(_MIN_NODES, nodes * max(5, 50 - nodes // 125) // 100)


def _named(pod: Pod) -> set[str] | None:
    """The only nodes that the terms of a pod's node affinity name; None: not all of them do."""
    names = [each.names for each in pod.node_affinity]
    return {name for each in names for name in each or ()} if names and None not in names else None


def _split(answers: Mapping[str, FitError | None]) -> tuple[list[str], dict[str, FitError]]:
    """The nodes that fit, and why the others do not."""
    fit_errors = {name: misfit for name, misfit in answers.items() if misfit is not None}
    return [name for name in answers if name not in fit_errors], fit_errors


def _sample(answers: Mapping[str, FitError | None], first: int, enough: int) -> tuple[list[str], dict[str, FitError]]:
    """The nodes that fit, and those that do not, until one more than enough fits."""
    fitting, fit_errors = list[str](), dict[str, FitError]()
    order = list(answers)
    for name in (*order[first:], *order[:first]):
        error = answers[name]
        if error is not None:
            fit_errors[name] = error
        elif len(fitting) == enough:
            break
        else:
            fitting.append(name)
    return fitting, fit_errors


_MIN_NODES = 100
"""So many nodes that fit are looked for at least."""
DEFAULTS = {"cpu": 100, "memory": 200 << 20}
"""What a pod without a request is taken to use when nodes are scored by what is left."""
TAINT_WEIGHT = 3
TOPOLOGY_WEIGHT = 2
"""Of preferred nodes, spread, and preferred pods, each."""


class Score(Frozen):
    """A node's score for a pod, in its parts."""

    least_allocated: int
    """Mean percentage left with the pod."""
    balanced: int
    """Whether the shares of cpu and memory are closer together with the pod than without it."""
    taints: int
    """Fewer PreferNoSchedule taints that the pod does not tolerate."""
    node_affinity: int = 0
    """The weights of the node affinity's preferences that hold."""
    spread: int = 0
    """Fewer pods in its domains that match the constraints that are preferred."""
    pod_affinity: int = 0
    """The weights of preferences for and against pods in its domains."""

    @property
    def total(self) -> int:
        """The sum decides."""
        of_others = self.node_affinity + self.spread + self.pod_affinity
        return self.least_allocated + self.balanced + self.taints + of_others


def score(node_infos: Sequence[NodeInfo], pod: Pod, topology: Topology) -> dict[str, Score]:
    """The scores of the nodes where the pod fits, by name, in their order."""
    nodes = [room.node for room in node_infos]
    disliked = [_disliked(node, pod) for node in nodes]
    most = max(disliked, default=0)
    preferred = _node_preferences(nodes, pod)
    spread = _spread(nodes, topology)
    together = _pod_preferences(nodes, topology)
    return {
        room.node.name: Score(
            _least_allocated(room, pod),
            _balanced(room, pod),
            TAINT_WEIGHT * (100 - (100 * count // most if most else 0)),
            *(TOPOLOGY_WEIGHT * each for each in of_others),
        )
        for room, count, *of_others in zip(node_infos, disliked, preferred, spread, together, strict=True)
    }


def _node_preferences(nodes: Sequence[Node], pod: Pod) -> Sequence[int]:
    """The weights of the preferred node affinity that hold, of 100."""
    if not pod.prefers_nodes:
        return [0] * len(nodes)
    weights = [sum(each.weight for each in pod.prefers_nodes if node.meets((each.term,))) for node in nodes]
    most = max(weights)
    return [100 * weight // most if most else 0 for weight in weights]


def _pod_preferences(nodes: Sequence[Node], topology: Topology) -> Sequence[int]:
    """The weights for the pods in each node's domains: 0 for the lowest, 100 for the highest."""
    if not topology.preferences:
        return [0] * len(nodes)
    sums = [topology.preference(node) for node in nodes]
    lowest, highest = min(sums), max(sums)
    return [int(100 * ((each - lowest) / (highest - lowest))) if highest > lowest else 0 for each in sums]


def _spread(nodes: Sequence[Node], topology: Topology) -> Sequence[int]:
    """How few pods that match are in each node's domains, by the constraints that are preferred; 0 without a label."""
    constraints = topology.preferred_spread
    if not constraints:
        return [0] * len(nodes)
    sums: dict[str, int] = {}
    weighed = [(each, log(domains + 2)) for each, domains in domains_of(constraints, nodes)]
    for node in nodes:
        found = spread_score(weighed, node)
        if found is not None:
            sums[node.name] = found
    lowest, highest = min(sums.values(), default=0), max(sums.values(), default=0)
    return [
        0 if node.name not in sums else 100 * (highest + lowest - sums[node.name]) // highest if highest else 100
        for node in nodes
    ]


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
            left = (
                capacity
                - node_info.usage.amounts[resource]
                - node_info.defaulted[resource] * DEFAULTS[resource]
                - asked
            )
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
        min((room.usage.amounts[resource] + asked.get(resource, 0)) / capacity, 1.0)
        for resource in DEFAULTS
        if (capacity := room.node.allocatable.get(resource, 0))
    ]
    apart = abs(shares[0] - shares[1]) / 2 if len(shares) == 2 else 0.0
    return int((1 - apart) * 100)

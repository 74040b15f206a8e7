"""Small workloads for a configuration, drawn so that they contend: a few queues of one tree, sizes near the quotas.

Where flavors have labels and taints, some select a flavor's nodes and most tolerate all taints.  Where workloads are
known, half of those that are drawn ask for what one of these does.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from random import Random
from typing import Any

from msgspec.structs import replace

from emulator.policies.kueue.snapshot import Node, Snapshot
from emulator.sites.kubernetes import Operator, Toleration
from emulator.sites.kueue import Arrival, Cluster, PodSet, Policy, ResourceGroup, Workload
from emulator.vocabulary import SECOND_NS, Frozen

PRIORITIES = (0, 1, 2)
"""Drawn where the configuration names none."""
_MAX_WORKLOADS = 12
_MAX_QUEUES = 4
_MAX_STEPS = 12
"""In how many parts the largest amount is cut, if the quotas suggest no larger part."""
_ENDS = 0.25
"""The part of the workloads that end; the others run for ever."""
_LIKE_KNOWN = 0.5
"""The part of the workloads that ask for what a known one does."""
_TOLERATE, _SELECT = 0.7, 0.3
"""The parts of the others that tolerate all taints, and that select nodes by a label."""


class Plan(Frozen):
    """A tree of queues, and what arrives in it."""

    cluster: Cluster
    arrivals: tuple[Arrival, ...]
    release_ns: int = 0
    """From an eviction to the quota being free."""


class Drawer:
    """Draws plans for one configuration."""

    def __init__(self, cluster: Cluster, priorities: Sequence[int] = (), like: Sequence[Workload] = ()) -> None:
        """
        Args:
            cluster: the configuration.
            priorities: those of its priority classes; a workload without a class has 0.
            like: workloads that are known.
        """
        self._like = [each for each in like if len(each.podsets) == 1]
        self._labels = [each.labels for each in cluster.flavors if each.labels]
        self._has_taints = any(each.taints for each in cluster.flavors)
        self._snapshot = Snapshot(cluster)
        trees: dict[Node, list[Node]] = {}
        for node in self._snapshot.queues.values():
            if _groups(node):
                trees.setdefault(node.root, []).append(node)
        preempting = {root: queues for root, queues in trees.items() if any(map(_preempts, queues))}
        self._trees = [(self._alone(cluster, root), queues) for root, queues in (preempting or trees).items()]
        limits = [queue.preemption.borrow_within_cohort.max_priority for queue in cluster.queues]
        about = {limit + more for limit in limits if limit is not None for more in (0, 1)}
        self._priorities = sorted({0, *(priorities or PRIORITIES), *about})

    def _alone(self, cluster: Cluster, root: Node) -> Cluster:
        """The tree below a root, without the others: they cannot touch each other."""
        return replace(
            cluster,
            queues=tuple(each for each in cluster.queues if self._snapshot.queues[each.name].root is root),
            cohorts=tuple(each for each in cluster.cohorts if self._snapshot.cohorts[each.name].root is root),
        )

    @property
    def can_draw(self) -> bool:
        """Whether any queue has quota."""
        return bool(self._trees)

    def draw(self, random: Random) -> Plan:
        """One plan; the same for a random source of the same state."""
        cluster, tree = random.choice(self._trees)
        preempts = [queue for queue in tree if _preempts(queue)]
        queues = random.sample(tree, min(len(tree), random.randint(2, _MAX_QUEUES)))
        if preempts and not any(map(_preempts, queues)):
            queues[0] = random.choice(preempts)
        index = random.randrange(min(len(_groups(queue)) for queue in queues))
        alone = random.random() < 0.6
        priorities = random.sample(self._priorities, min(len(self._priorities), random.randint(1, 4)))
        names = {each.name for each in tree}
        arrivals, at_s = [], 0
        for number in range(random.randint(3, _MAX_WORKLOADS)):
            at_s += random.randint(1, 20)
            queue = random.choice(queues)
            podset = PodSet("main", 1, self._requests(random, tree, queue, index, alone), **self._choice(random))
            workload = Workload(f"w{number:02d}", queue.name, (podset,), random.choice(priorities), at_s * SECOND_NS)
            like = [each for each in self._like if each.queue in names]
            if like and random.random() < _LIKE_KNOWN:
                workload = _as(workload, random.choice(like))
            ends = random.random() < _ENDS
            arrivals.append(Arrival(workload, random.randint(20, 200) * SECOND_NS if ends else None))
        return Plan(cluster, tuple(arrivals), random.choice((0, 0, 5)) * SECOND_NS)

    def _requests(self, random: Random, tree: list[Node], queue: Node, index: int, alone: bool) -> dict[str, int]:
        """Amounts of one resource group, in the steps of the quotas; ``alone``: of its first resource only."""
        group = _groups(queue)[index]
        flavor = random.choice(group.flavors).name
        requests: dict[str, int] = {}
        for resource in group.resources[:1] if alone else group.resources:
            cell = self._snapshot.cells[flavor, resource]
            most = queue.potential[cell]
            if most <= 0 or (requests and random.random() < 0.3):
                continue
            step = gcd(*(node.nominal[cell] for node in tree)) or most
            step *= max(1, -(-most // (step * _MAX_STEPS)))
            requests[resource] = min(most, step * random.randint(1, max(1, most // step)))
        return requests or {group.resources[0]: 1}

    def _choice(self, random: Random) -> dict[str, Any]:
        """What its pods may choose from."""
        choice: dict[str, Any] = {}
        if self._has_taints and random.random() < _TOLERATE:
            choice["tolerations"] = (Toleration(operator=Operator.EXISTS),)
        if self._labels and random.random() < _SELECT:
            key, value = random.choice(sorted(random.choice(self._labels).items()))
            choice["selector"] = {key: value}
        return choice


def _as(workload: Workload, other: Workload) -> Workload:
    """A workload in the queue of another, with its priority and what it asks for, in one pod."""
    (podset,) = other.podsets
    requests = {name: podset.count * amount for name, amount in podset.requests.items()}
    one = replace(podset, name="main", count=1, requests=requests, min_count=None)
    return replace(workload, queue=other.queue, priority=other.priority, podsets=(one,))


def _groups(queue: Node) -> list[ResourceGroup]:
    return [group for group in queue.settings.groups if group.resources and group.flavors]


def _preempts(queue: Node) -> bool:
    preemption = queue.settings.preemption
    return preemption.within_queue is not Policy.NEVER or preemption.reclaim_within_cohort is not Policy.NEVER

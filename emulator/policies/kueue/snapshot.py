"""The tree of quotas with what is admitted, to try additions and removals on.

A *cell* is one resource in one flavor, by number.  A node keeps back what it does not lend (``local``); what it uses
beyond that counts in its parent too.  A change walks up from one queue only, so a question costs the depth of the tree
and not the number of queues.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf

from emulator.policies.kueue.model import Counts, Flavors
from emulator.sites.kueue import Cluster, ClusterQueue, Cohort, PodSet, StopPolicy, Workload

Amounts = Mapping[int, int]
"""By cell."""
Share = tuple[bool, float]
"""Whether it is infinite (weight 0), and the value in thousandths; compared as tuples.

Kueue computes in thousandths, so which shares are equal, and which differ in the last bit, depends on it.
"""
NOTHING: Share = (False, 0.0)


class Held:
    """An admitted workload with what it uses, by cell."""

    __slots__ = ("amounts", "evicted", "flavors", "key", "node", "reserved_ns", "spared_until_ns", "workload")

    def __init__(
        self, workload: Workload, flavors: Flavors, reserved_ns: int, node: Node, amounts: dict[int, int]
    ) -> None:
        self.workload = workload
        self.flavors = flavors
        self.reserved_ns = reserved_ns
        self.node = node
        self.amounts = amounts
        self.evicted = False
        """Whether its eviction is under way: it still holds its quota."""
        self.key = (True, workload.priority, -reserved_ns, workload.name)
        """Who goes first among candidates of one kind."""
        self.spared_until_ns = 0
        """Nobody may preempt it before: it has not run for its minimum."""


class Node:
    """A queue or a cohort."""

    __slots__ = (
        *("borrowing", "cohorts", "freed", "height", "is_stopped", "lendable", "lending", "local", "name", "nominal"),
        *("parent", "potential", "queue", "queues", "root", "settings", "share_at", "subtree", "usage", "version"),
        "weight",
    )

    def __init__(self, name: str, weight: float, queue: ClusterQueue | None, size: int) -> None:
        self.name = name
        self.weight = weight
        self.queue = queue
        """None: a cohort."""
        if queue is not None:
            self.settings: ClusterQueue = queue
        self.is_stopped = queue is not None and queue.stop is not StopPolicy.NONE
        """It admits nobody, and loses nobody to others; its quota and what it uses of it count as ever."""
        self.parent: Node | None = None
        self.root = self
        self.cohorts: list[Node] = []
        self.queues: list[Node] = []
        self.height = 0
        self.nominal = [0] * size
        self.borrowing: list[int | None] = [None] * size
        self.lending: list[int | None] = [None] * size
        self.local = [0] * size
        """Own and not lent."""
        self.subtree = [0] * size
        """Its nominal quota and what its children lend."""
        self.potential = [0] * size
        """What it could get with nothing used."""
        self.lendable: dict[str, int] = {}
        """``potential`` by resource, over flavors."""
        self.freed = 0
        """How often quota was freed in the tree, if this is a root."""
        self.usage = [0] * size
        self.version = 0
        """Changes with the usage."""
        self.share_at: tuple[int, Share] = (-1, NOTHING)
        """The share, and of which version."""

    def path(self) -> Iterator[Node]:
        """This node and those above it, the root last."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent

    def add(self, amounts: Amounts) -> None:
        """Count usage of it here and above."""
        for cell, amount in amounts.items():
            node: Node | None = self
            while node is not None and amount > 0:
                local_left = node.local[cell] - node.usage[cell]
                node.usage[cell] += amount
                node.version += 1
                amount -= max(0, local_left)
                node = node.parent

    def remove(self, amounts: Amounts) -> None:
        """Reclaim ``add``."""
        for cell, amount in amounts.items():
            node: Node | None = self
            while node is not None and amount > 0:
                above = node.usage[cell] - node.local[cell]
                node.usage[cell] -= amount
                node.version += 1
                amount = min(amount, above)
                node = node.parent

    def available(self, cell: int) -> int:
        """What it can still use; negative where the quota was lowered below the usage."""
        if self.parent is None:
            return self.subtree[cell] - self.usage[cell]
        left = self.parent.available(cell)
        local, limit = self.local[cell], self.borrowing[cell]
        if not local and limit is None:
            return left
        over = self.usage[cell] - local
        if limit is not None:
            left = min(left, self.subtree[cell] - local + limit - max(0, over))
        return left - over if over < 0 else left

    def fits(self, amounts: Amounts) -> bool:
        """Whether there is room for all of it."""
        return all(amount <= self.available(cell) for cell, amount in amounts.items())

    def borrows(self, amounts: Amounts) -> bool:
        """Whether it would be above its quota in some cell with this."""
        return any(self.usage[cell] + amount > self.subtree[cell] for cell, amount in amounts.items())

    def is_above(self, cells: Iterable[int]) -> bool:
        """Whether it uses more than its quota of some cell."""
        usage, subtree = self.usage, self.subtree
        for cell in cells:  # noqa: SIM110 - asked of every queue for every workload
            if usage[cell] > subtree[cell]:
                return True
        return False

    def lowest_with_room(self, cell: int, amount: int) -> tuple[int, bool]:
        """Height of the lowest subtree whose quota has room for it, and whether that is below the root."""
        node = self
        while node.usage[cell] + amount > node.subtree[cell]:
            if node.parent is None:
                return node.height, False
            amount -= max(0, node.local[cell] - node.usage[cell])
            node = node.parent
        return node.height, node.parent is not None

    def share(self, resource_of: Sequence[str]) -> Share:
        """Its dominant share: the largest part, of what its parent could get, that it uses above its own quota."""
        if self.share_at[0] != self.version:
            self.share_at = self.version, self._share(resource_of)
        return self.share_at[1]

    def _share(self, resource_of: Sequence[str]) -> Share:
        if self.parent is None:
            return NOTHING
        over: dict[str, int] = {}
        for resource, used, quota in zip(resource_of, self.usage, self.subtree, strict=True):
            if used > quota:
                over[resource] = over.get(resource, 0) + used - quota
        ratio, lendable = 0.0, self.parent.lendable
        for resource, amount in over.items():
            if lendable.get(resource, 0) > 0:
                ratio = max(ratio, amount * 1000.0 / lendable[resource])
        if self.weight == 0:
            return (ratio > 0, ratio)
        return (False, ratio / self.weight)


class Snapshot:
    """The tree, and the admitted workloads of each queue."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.fair = cluster.fair_sharing
        self.flavors = {each.name: each for each in cluster.flavors}
        self.cells = _cells(cluster)
        self.resource_of = [resource for _, resource in self.cells]
        self.queues: dict[str, Node] = {}
        self.cohorts: dict[str, Node] = {}
        self._build()
        self.held: dict[str, dict[str, Held]] = {name: {} for name in self.queues}
        """By queue, by workload."""
        self.now_ns = 0
        """The time of the present cycle."""
        self.revisions: Counter[Node] = Counter()
        """By root: changes with what is admitted in its tree; what is only tried does not count."""
        self._ranked: dict[Node, list[Held]] = {}
        self._lowest: dict[Node, float] = {}
        """``ranked`` and ``lowest_priority``, of queues and trees in which nothing has changed since."""

    def admit(self, workload: Workload, flavors: Flavors, reserved_ns: int, counts: Counts = ()) -> None:
        """A workload gets its quota."""
        amounts = amounts_of(workload.podsets, flavors, self.cells, counts)
        held = Held(workload, flavors, reserved_ns, self.queues[workload.queue], amounts)
        self.held[held.node.name][held.workload.name] = held
        self.put(held)
        self._changed(held.node)

    def evict(self, held: Held) -> None:
        """Its eviction begins."""
        held.evicted = True
        held.key = (False, *held.key[1:])
        self._changed(held.node)

    def discharge(self, held: Held) -> None:
        """Its quota is free."""
        del self.held[held.node.name][held.workload.name]
        self.take(held)
        self._changed(held.node)

    def reserve(self, held: Held, amounts: Amounts) -> None:
        """This much of what it has stays taken when it is gone, until it is released."""
        held.amounts = {
            cell: amount - amounts.get(cell, 0)
            for cell, amount in held.amounts.items()
            if amount > amounts.get(cell, 0) or cell not in amounts
        }

    def release(self, node: Node, amounts: Amounts) -> None:
        """What was kept of a queue's quota is free."""
        self.revisions[node.root] += 1
        node.remove(amounts)

    def stop(self, queue: Node, policy: StopPolicy) -> None:
        """A queue gets this policy."""
        queue.is_stopped = policy is not StopPolicy.NONE
        _measure(queue.root)
        self._changed(queue)

    def ranked(self, queue: Node) -> list[Held]:
        """The workloads of a queue, who would go first first: evicted ones, then by priority."""
        found = self._ranked.get(queue)
        if found is None:
            found = self._ranked[queue] = sorted(self.held[queue.name].values(), key=lambda each: each.key)
        return found

    def lowest_priority(self, node: Node) -> float:
        """The lowest priority of the workloads of a queue, or of all below a cohort; infinite if there are none."""
        found = self._lowest.get(node)
        if found is None:
            if node.queue is not None:
                below: Iterable[float] = (each.workload.priority for each in self.held[node.name].values())
            else:
                below = map(self.lowest_priority, (*node.cohorts, *node.queues))
            found = self._lowest[node] = min(below, default=inf)
        return found

    def put(self, held: Held) -> None:
        """Try its usage in again."""
        held.node.add(held.amounts)

    def take(self, held: Held) -> None:
        """Try without its usage."""
        held.node.remove(held.amounts)

    def _changed(self, queue: Node) -> None:
        """Something else is admitted there, or going."""
        self.revisions[queue.root] += 1
        self._ranked.pop(queue, None)
        for node in queue.path():
            self._lowest.pop(node, None)

    def share(self, node: Node) -> Share:
        """The node's dominant share."""
        return node.share(self.resource_of)

    def _build(self) -> None:
        size = len(self.cells)
        for cohort in self.cluster.cohorts:
            self.cohorts[cohort.name] = self._node(cohort, None)
        named = [cohort.parent for cohort in self.cluster.cohorts] + [queue.cohort for queue in self.cluster.queues]
        for name in named:
            if name is not None and name not in self.cohorts:
                self.cohorts[name] = Node(name, 1.0, None, size)
        for cohort in self.cluster.cohorts:
            if cohort.parent is not None:
                child, parent = self.cohorts[cohort.name], self.cohorts[cohort.parent]
                child.parent = parent
                parent.cohorts.append(child)
        for queue in self.cluster.queues:
            node = self.queues[queue.name] = self._node(queue, queue)
            if queue.cohort is not None:
                node.parent = self.cohorts[queue.cohort]
                node.parent.queues.append(node)
        for root in [*self.cohorts.values(), *self.queues.values()]:
            if root.parent is None:
                _measure(root)
                _gather(root)
                _spread(root, self.resource_of)

    def _node(self, of: ClusterQueue | Cohort, queue: ClusterQueue | None) -> Node:
        node = Node(of.name, of.weight, queue, len(self.cells))
        for group in of.groups:
            for flavor in group.flavors:
                for resource, quota in flavor.quotas.items():
                    cell = self.cells[flavor.name, resource]
                    node.nominal[cell] = quota.nominal
                    node.borrowing[cell] = quota.borrowing_limit
                    node.lending[cell] = quota.lending_limit
        return node


def _measure(node: Node) -> None:
    """Set heights from the leaves up; a queue that is stopped is no child."""
    for cohort in node.cohorts:
        _measure(cohort)
    below = (*node.cohorts, *(queue for queue in node.queues if not queue.is_stopped))
    node.height = max((child.height + 1 for child in below), default=0)


def _gather(node: Node) -> None:
    """Set quotas from the leaves up."""
    node.subtree = list(node.nominal)
    for child in (*node.cohorts, *node.queues):
        _gather(child)
        for cell, quota in enumerate(child.subtree):
            node.subtree[cell] += quota - child.local[cell]
    node.local = [
        0 if limit is None else max(0, quota - limit) for quota, limit in zip(node.subtree, node.lending, strict=True)
    ]


def _spread(node: Node, resource_of: Sequence[str]) -> None:
    """Set from the root down what each node could get."""
    if node.parent is None:
        node.potential = list(node.subtree)
    else:
        node.root = node.parent.root
        for cell, (above, local, limit) in enumerate(
            zip(node.parent.potential, node.local, node.borrowing, strict=True)
        ):
            node.potential[cell] = above + local
            if limit is not None:
                node.potential[cell] = min(above + local, node.subtree[cell] + limit)
    for resource, amount in zip(resource_of, node.potential, strict=True):
        node.lendable[resource] = node.lendable.get(resource, 0) + amount
    for child in (*node.cohorts, *node.queues):
        _spread(child, resource_of)


def amounts_of(
    podsets: Sequence[PodSet],
    flavors: Sequence[Mapping[str, str]],
    cells: Mapping[tuple[str, str], int],
    counts: Counts = (),
) -> dict[int, int]:
    """What podsets use of each cell in these flavors."""
    amounts: dict[int, int] = {}
    for podset, count, chosen in zip(podsets, counts or (each.count for each in podsets), flavors, strict=True):
        for resource, flavor in chosen.items():
            cell = cells[flavor, resource]
            amounts[cell] = amounts.get(cell, 0) + count * podset.requests.get(resource, 0)
    return amounts


def _cells(cluster: Cluster) -> dict[tuple[str, str], int]:
    """The number of each (flavor, resource) that the cluster names."""
    pairs = [
        (flavor.name, resource)
        for of in (*cluster.cohorts, *cluster.queues)
        for group in of.groups
        for flavor in group.flavors
        for resource in (*group.resources, *flavor.quotas)
    ]
    return {pair: number for number, pair in enumerate(dict.fromkeys(pairs))}

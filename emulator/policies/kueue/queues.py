"""Who waits: the head of each queue, who is set aside until quota is freed, and where the next search begins.

A workload waits *active*, and is tried when it is the head of its queue, or *aside*.  In a BestEffortFIFO queue whoever
cannot start is set aside, with all of its shape and priority; they are woken when quota is freed in their tree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from heapq import heappop, heappush

from emulator.policies.kueue.assigner import Nomination
from emulator.policies.kueue.model import Assignment, Flavors, Mode
from emulator.policies.kueue.snapshot import Node, Snapshot
from emulator.sites.kueue import QueueingStrategy, Workload

Shape = tuple[object, ...]
Basis = tuple[int, Mapping[tuple[int, int], int]]
"""What flavors and victims were chosen from: the revision of the tree, and where the search began."""


_NOT_YET = Nomination(Assignment(Mode.NO_FIT))


class Waiting:
    """A workload that waits in a queue."""

    __slots__ = ("_freed", "basis", "goes_on", "key", "last_cycle", "node", "nomination", "only", "shape", "workload")

    def __init__(self, workload: Workload, node: Node, only: Flavors = (), since_ns: int | None = None) -> None:
        """``since_ns``: the time that counts as its age, if that is not when it was created."""
        self.workload = workload
        self.only = only
        """The flavors that it must get; empty: any."""
        self.node = node
        """Its queue."""
        self.key = (-workload.priority, workload.created_ns if since_ns is None else since_ns, workload.name)
        podsets = (
            (
                each.count,
                *sorted(each.requests.items()),
                *sorted(each.selector.items()),
                each.affinity,
                each.tolerations,
                each.min_count,
            )
            for each in workload.podsets
        )
        self.shape: Shape = (workload.priority, *podsets)
        self.goes_on: tuple[tuple[int, int, int], ...] = ()
        self.last_cycle = 0
        """The cycle in which it was nominated last."""
        self.nomination = _NOT_YET
        """Its flavors and victims, as they were chosen last."""
        self.basis: Basis | None = None
        """What they were chosen from; None: they were not."""
        self.freed_since = False

    @property
    def freed_since(self) -> bool:
        """Whether quota was freed in its tree since it was last looked at."""
        return self.node.root.freed > self._freed

    @freed_since.setter
    def freed_since(self, was_freed: bool) -> None:
        self._freed = self.node.root.freed - was_freed

    def begin(self, cycle: int) -> dict[tuple[int, int], int]:
        """Where its search for flavors begins in this cycle.

        It is forgotten once quota was freed, but not in the very next cycle.
        """
        if self.freed_since and cycle > self.last_cycle + 1:
            return {}
        return {(podset, group): flavor for podset, group, flavor in self.goes_on}

    def state(self, cycle: int) -> Hashable:
        """What decides how it will be looked at, after so many cycles."""
        since = min(2, cycle - self.last_cycle) if self.goes_on else 0
        return self.workload.name, self.goes_on, since, self.freed_since


class _Queue:
    """One queue: a heap of the active, with entries of those that have left it since."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.is_strict = node.settings.strategy is QueueingStrategy.STRICT_FIFO
        self.active: dict[str, Waiting] = {}
        self.heap: list[tuple[tuple[int, int, str], str]] = []
        self.aside: dict[str, Waiting] = {}
        self.shapes: set[Shape] = set()
        """The shapes of the workloads that were set aside."""
        self.preemptor: Waiting | None = None
        """The last that preempted: until it starts, the head whenever it is active.  None in a StrictFIFO queue."""

    def push(self, waiting: Waiting) -> None:
        self.active[waiting.workload.name] = waiting
        heappush(self.heap, (waiting.key, waiting.workload.name))

    def pop(self) -> Waiting | None:
        if self.preemptor is not None and self.active.get(self.preemptor.workload.name) is self.preemptor:
            return self.active.pop(self.preemptor.workload.name)
        while self.heap:
            _, name = heappop(self.heap)
            if (waiting := self.active.pop(name, None)) is not None:
                return waiting
        return None

    def set_aside(self, waiting: Waiting) -> None:
        self.shapes.add(waiting.shape)
        self.aside[waiting.workload.name] = waiting
        for other in [each for each in self.active.values() if each.shape == waiting.shape]:
            self.aside[other.workload.name] = self.active.pop(other.workload.name)


class Queues:
    """All queues of a snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._namespaces = snapshot.cluster.namespaces
        self._queues = {name: _Queue(node) for name, node in snapshot.queues.items()}
        self._offered: dict[str, int] = {}
        """The heads of the present cycle, and how often those aside in their trees had been woken when it began."""
        self._wakes: Counter[Node] = Counter()
        self._trees: dict[Node, list[_Queue]] = {}
        for queue in self._queues.values():
            self._trees.setdefault(queue.node.root, []).append(queue)

    @property
    def has_active(self) -> bool:
        """Whether a cycle would have anybody to look at."""
        return any(queue.active and not queue.node.is_stopped for queue in self._queues.values())

    def add(
        self, workload: Workload, only: Flavors = (), since_ns: int | None = None, may_be_aside: bool = True
    ) -> None:
        """A workload arrives, or comes back after it was evicted; it waits aside if its like do and it may.

        ``only``: the flavors that it must get.  ``since_ns``: see ``Waiting``.
        """
        queue = self._queues[workload.queue]
        waiting = Waiting(workload, queue.node, only, since_ns)
        if may_be_aside and waiting.shape in queue.shapes:
            queue.aside[workload.name] = waiting
        else:
            queue.push(waiting)

    def remove(self, workload: Workload) -> None:
        """It waits no longer, if it did."""
        queue = self._queues[workload.queue]
        queue.active.pop(workload.name, None)
        queue.aside.pop(workload.name, None)
        self._offered.pop(workload.name, None)

    def heads(self) -> list[Waiting]:
        """Take the head of each queue out: the one that preempted last, else by priority, then age."""
        offering = (queue for queue in self._queues.values() if queue.active and not queue.node.is_stopped)
        heads = [head for queue in offering if (head := queue.pop()) is not None]
        self._offered = {head.workload.name: self._wakes[head.node.root] for head in heads}
        return heads

    def is_excluded(self, waiting: Waiting) -> bool:
        """Whether its queue does not admit workloads of its namespace."""
        return not waiting.node.settings.selects(waiting.workload.namespace, self._namespaces)

    def exclude(self, waiting: Waiting) -> None:
        """Set aside a head that its queue does not admit; its like need not be of its namespace."""
        self._queues[waiting.workload.queue].aside[waiting.workload.name] = waiting

    def preempts(self, waiting: Waiting) -> None:
        """A head expects its victims to go."""
        queue = self._queues[waiting.workload.queue]
        if not queue.is_strict:
            queue.preemptor = waiting

    def back(self, waiting: Waiting, at_once: bool) -> bool:
        """Put a head back, to be tried next (``at_once``) or when quota is freed; whether it is set aside.

        It is not, if those aside were woken meanwhile; and nothing is put back that was removed.
        """
        queue = self._queues[waiting.workload.queue]
        wakes = self._offered.get(waiting.workload.name)
        if wakes is None:
            return False
        if wakes < self._wakes[waiting.node.root] or at_once or queue.is_strict or waiting.goes_on:
            queue.push(waiting)
            return False
        queue.set_aside(waiting)
        return True

    def freed(self, root: Node) -> None:
        """Quota was freed in a tree."""
        root.freed += 1

    def wake(self, root: Node) -> None:
        """Make active all that is aside in a tree."""
        self._wakes[root] += 1
        for queue in self._trees[root]:
            woken, queue.aside, queue.shapes = queue.aside, {}, set()
            for waiting in woken.values():
                if self.is_excluded(waiting):
                    self.exclude(waiting)
                else:
                    queue.push(waiting)

    def state(self, cycle: int) -> Hashable:
        """All that decides what the queues offer next, after so many cycles."""
        return tuple(
            (
                frozenset(each.state(cycle) for each in queue.active.values()),
                frozenset(each.state(cycle) for each in queue.aside.values()),
                frozenset(queue.shapes),
                queue.preemptor is not None and queue.preemptor.workload.name,
            )
            for queue in self._queues.values()
        )

"""What the ResourceManager knows of the cluster: its parts share it, and policies see it through views.

Theory of operation
-------------------
One object holds nodes, jobs, containers, queues and costs.  A part of a view is computed when a policy reads it
(``emulator.policies.views.ClusterView``).

The ApplicationMasters in containers must never be so many that no node has room for a task any more.  A node is blocked
for a task by as many masters as leave too little of it, so fewer masters than block all nodes for the task that is
hardest to place can be anywhere (``places_left``).  With one size this is the number of containers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from emulator.core.messages import ContainerReport
from emulator.core.resource_manager.applications import Application, HeldContainer, Node, NodeEvent, NodeState
from emulator.core.resource_manager.awaited_heartbeats import AwaitedHeartbeats
from emulator.core.resource_manager.measured import CostLedger, WorkLedger
from emulator.core.resource_manager.queue_ledger import QueueLedger, Waiting, job_view
from emulator.core.settings import Settings
from emulator.policies.capacity import Capacity
from emulator.policies.resources import UNLIMITED, count_fitting, dominant_ppm, fits, minus, most, total
from emulator.policies.resources import least as least_of
from emulator.policies.views import ClusterView, JobView, NodeView, QueueView, TaskView
from emulator.vocabulary import MASTER_GROUP, MeasuredCosts, Resources


@lru_cache(maxsize=1 << 16)
def masters_that_block(node: Resources, task: Resources, master: Resources) -> int:
    """The fewest ApplicationMasters on an empty node that leave no room there for the task."""
    if not fits(task, node):
        return 0
    room = minus(node, task)
    counts = [left // need + 1 for left, need in zip(room, master, strict=True) if need]
    return min(counts, default=1 << 30)


def _task_views(application: Application, of_tasks: list[HeldContainer]) -> tuple[TaskView, ...]:
    """Containers of the job's tasks as policies see them."""
    of_job = application.facts.task_memory_bytes
    memory_bytes = {
        group.name: held[0] if len(held := group.task_memory_bytes or of_job) == 1 else None
        for group in application.facts.groups
    }
    return tuple(
        [
            TaskView(
                held.id,
                held.job,
                held.group.name,
                held.node,
                held.since_ns,
                memory_bytes=memory_bytes[held.group.name],
                request=held.request,
            )
            for held in of_tasks
        ]
    )


@dataclass(slots=True)
class Changes:
    """What may have changed; the jobs are in ``QueueLedger.touched``."""

    nodes: dict[str, None] = field(default_factory=dict)
    containers: dict[str, HeldContainer] = field(default_factory=dict)


class ClusterState:
    """The cluster as the ResourceManager knows it, a ``ClusterSource`` (see the module's theory of operation)."""

    def __init__(self, settings: Settings) -> None:
        self.nodes = {node.name: Node(node) for node in settings.nodes}
        self.applications: dict[str, Application] = {}
        """Jobs submitted and not yet ended, in the order of submission."""
        self.containers: dict[str, HeldContainer] = {}
        """Containers given out and not known to have ended, also those of ended jobs."""
        self.free_nodes: dict[str, None] = {}
        """Nodes known to have a free container."""
        self.awaited = AwaitedHeartbeats()
        self._whole = total((node.resources for node in settings.nodes), settings.nodes[0].resource_names)
        """What the cluster has, if containers have several sizes."""
        self._sizes_left = Counter(node.resources for node in settings.nodes)
        """Of how many nodes that are not lost each has such resources."""
        self.queues = QueueLedger(settings.scheduler, self._whole, self.awaited)
        self.costs = CostLedger()
        self.work = WorkLedger()
        self.containers_total = sum(node.containers for node in settings.nodes)
        """Containers of all nodes, lost ones included."""
        self.containers_left = self.containers_total
        """Containers of nodes that are not lost."""
        availability = settings.availability
        self.limit = self.containers_total if availability is None else availability.capacity.at(0)
        """Containers that jobs may hold; the others are withheld for a transactional workload."""
        self.forecast_known = None if availability is None else availability.forecast
        """Their number in the future, as far as known; None: it does not change."""
        self.used = 0
        """Slots in use, including those of ended jobs."""
        if settings.has_sizes:
            self.limit = UNLIMITED  # the nodes themselves are the limit
        self.capacity_freed_ns = 0
        """When ``used`` last fell below ``limit``: no free container could be given out just before."""
        self.changes = 0
        """How many messages have changed the ResourceManager."""
        self.changed: Changes | None = None
        """What has changed since it was last read; None: nobody reads it."""
        self._settings = settings

    @property
    def is_full(self) -> bool:
        """Whether no container can be given out."""
        return not self.free_nodes or self.used >= self.limit

    def register(self, node: Node, now_ns: int, registration: int) -> None:
        """A node is there, with nothing of what it may have had."""
        if node.state is NodeState.LOST:
            self._count_left(node, 1)
        node.take(NodeEvent.HEARD, now_ns, registration)
        self.has_free(node)
        if self.changed is not None:
            self.changed.nodes[node.name] = None

    def lose(self, node: Node) -> None:
        """A node is lost."""
        node.take(NodeEvent.LOSE)
        self._count_left(node, -1)
        self.has_none(node)
        if self.changed is not None:
            self.changed.nodes[node.name] = None

    def has_free(self, node: Node) -> None:
        """A container of the node, or more of its room, has become free."""
        self.free_nodes[node.name] = None
        self.awaited.grown(node.address)

    def has_none(self, node: Node) -> None:
        """Nothing of the node is free any more."""
        self.free_nodes.pop(node.name, None)
        self.awaited.too_small.discard(node.address)

    def reported(self, held: HeldContainer, report: ContainerReport, now_ns: int) -> None:
        """A container has ended, or its process was stopped."""
        self.costs.take(report, held.task is not None, now_ns)
        self.mark_changed(held)

    def mark_changed(self, held: HeldContainer) -> None:
        """A container is given, goes on, is stopped or has ended."""
        if self.changed is not None:
            self.changed.containers[held.id] = held

    def _count_left(self, node: Node, change: int) -> None:
        self.containers_left += change * node.settings.containers
        self._sizes_left[node.settings.resources] += change
        if not self._sizes_left[node.settings.resources]:
            del self._sizes_left[node.settings.resources]

    def queue_share(self, request: Resources) -> int:
        """What a container takes of its queue's maximum."""
        return dominant_ppm(request, self._whole) if self._whole else 1

    def places_left(self, candidate: Application | None = None) -> int:
        """As many ApplicationMasters, the ``candidate``'s among them, would leave no room for a task."""
        if not self._whole:
            return self.containers_left
        if self._settings.unmanaged_masters:
            return self.limit if self.containers_left else 0
        jobs = [job for job in self.applications.values() if job.admitted or job is candidate]
        places = self._places_by_request(jobs)
        return min(places.values(), default=self.containers_left)

    def places_for(self, candidate: Application) -> int:
        """Those of them that are not withheld."""
        return min(self.limit, self.places_left(candidate))

    def next_unschedulable(self) -> Application | None:
        """A job for whose tasks no node that is left is large enough, of several the youngest; with one size, all
        are."""
        if not self._whole:
            return None
        least = 1 if self._settings.unmanaged_masters else 2
        places = self._places_by_request(self.applications.values())
        doomed = self._masters_too_large() or (self.queues.gangs and self._too_large())
        if not doomed and min(places.values(), default=least) >= least:
            return None
        jobs = reversed(self.applications.values())
        too_large = (
            job
            for job in jobs
            if job.name in doomed or any(places[group.request] < least for group in job.facts.groups)
        )
        return next(too_large, None)

    def _masters_too_large(self) -> set[str]:
        """Jobs for whose ApplicationMaster no node that is left is large enough: a job without tasks needs one too."""
        if self._settings.unmanaged_masters:
            return set()
        masters = {job.master_request for job in self.applications.values()}
        fitting = {master for master in masters if any(fits(master, size) for size in self._sizes_left)}
        return {name for name, job in self.applications.items() if job.master_request not in fitting}

    def _too_large(self) -> set[str]:
        """Gangs that the nodes which are left can never hold at once: not even if all tasks were as small as the
        smallest."""
        sizes = self._sizes_left
        found = set[str]()
        for job in self.applications.values():
            smallest = least_of(group.request for group in job.facts.groups)
            if job.facts.gang and sum(n * count_fitting(smallest, size) for size, n in sizes.items()) < job.facts.gang:
                found.add(job.name)
        return found

    def _places_by_request(self, jobs: Iterable[Application]) -> dict[Resources, int]:
        """For each request of the tasks of ``jobs``, the fewest ApplicationMasters that block all nodes for it: as if
        all were as large as the largest."""
        sizes, jobs = self._sizes_left, tuple(jobs)
        master = most({self._settings.master_request, *(job.master_request for job in jobs)})
        return {
            task: sum(count * masters_that_block(size, task, master) for size, count in sizes.items())
            for task in {group.request for job in jobs for group in job.facts.groups}
        }

    def queue_share_of_gang(self, gang: Application) -> int:
        """What the containers that it needs at once take of its queue's maximum, without the last of them: as if the
        largest were needed."""
        groups = [group for group in gang.facts.groups for _ in range(gang.requests.wanted(group.name))]
        shares = sorted(self.queue_share(gang.request_for(group)) for group in groups)
        return sum(shares[-gang.requests.at_once :]) - shares[-1]

    @property
    def containers_for_jobs(self) -> int:
        """Containers of nodes that are not lost, without those withheld."""
        return min(self.limit, self.containers_left)

    @property
    def surplus(self) -> int:
        """Containers held that a transactional workload has first call on."""
        return max(0, self.used - self.limit)

    def view(self, now_ns: int) -> ClusterView:
        """The cluster as a policy sees it."""
        return ClusterView(now_ns, self)

    def waiting(self, queue: str, view: ClusterView) -> Waiting:
        """The jobs of ``queue`` that want containers.  Raises PolicyError."""
        waiting, left_out = self.queues.waiting(queue, view)
        self.awaited.selection_left_out |= left_out > 0
        return waiting

    def on_slot(self, held: HeldContainer) -> bool:
        """Whether it uses a container of its node; a stopped process does not."""
        return self.nodes[held.node].ledger.in_container(held.id)

    def is_stopped_at(self, container: str, node: Node) -> bool:
        """Whether the process can resume there; not before its node has reported that it stopped."""
        held = self.containers.get(container)
        return held is not None and held.node == node.name and not held.is_abandoned and not self.on_slot(held)

    # ---- parts of views ----

    def queue_views(self) -> tuple[QueueView, ...]:
        """See ``ClusterSource``."""
        return self.queues.queue_views()

    def job_views(self, now_ns: int) -> Mapping[str, JobView]:
        """See ``ClusterSource``."""
        return {name: job_view(application, now_ns) for name, application in self.applications.items()}

    def task_views(self, job: str, now_ns: int) -> tuple[TaskView, ...]:
        """See ``ClusterSource``: containers of tasks, except those reclaimed by name.  Only the job knows
        which task runs in which container."""
        application = self.applications[job]
        tasks = (held for held in application.containers.values() if held.group is not MASTER_GROUP)
        return _task_views(application, [held for held in tasks if not held.is_reclaimed and self.on_slot(held)])

    def victim_views(self, job: str, now_ns: int, nodes: Container[str] | None = None) -> tuple[TaskView, ...]:
        """Those of them that may be victims: of groups that may, and which have run for the job's minimum.  ``nodes``:
        only those on these."""
        application = self.applications[job]
        victims, latest_ns = application.victims, now_ns - application.facts.minimum_runtime_ns
        held_there = application.containers.values()
        if nodes is not None:
            held_there = [held for held in held_there if held.node in nodes]
        may = [
            held for held in held_there if held.id in victims and not held.is_reclaimed and held.slot_ns <= latest_ns
        ]
        return _task_views(application, may)

    def next_victim_ns(self, now_ns: int) -> int | None:
        """When the next task will have run for its minimum; None: no task is protected by one."""
        protected = [one for one in self.applications.values() if one.facts.minimum_runtime_ns]
        until = (until_ns for application in protected for until_ns in application.protected_until_ns)
        return min((until_ns for until_ns in until if until_ns > now_ns), default=None)

    def node_views(self) -> Mapping[str, NodeView]:
        """See ``ClusterSource``."""
        return {name: self._node_view(node) for name, node in self.nodes.items()}

    def node_view(self, name: str) -> NodeView | None:
        """See ``ClusterSource``."""
        node = self.nodes.get(name)
        return None if node is None else self._node_view(node)

    def _node_view(self, node: Node) -> NodeView:
        settings = node.settings
        return NodeView(
            name=node.name,
            rack=settings.rack,
            alive=node.state is NodeState.ALIVE,
            capacity=settings.containers,
            free=node.free_count,
            memory_bytes=settings.memory_bytes,
            swap_bytes=settings.swap_bytes,
            stopped=node.ledger.stopped,
            stopped_bytes=node.ledger.stopped_bytes,
            resident_bytes=node.ledger.resident_bytes,
            swapped_bytes=node.ledger.swapped_bytes,
            costs=self.costs.measured(node.name),
            tier=self._settings.tier,
            restores_until_ns=node.restores_until_ns,
            resources=settings.resources,
            charged=node.ledger.charged if settings.resources else (),
            resource_names=settings.resource_names,
            labels=settings.labels,
        )

    def containers_now(self) -> int:
        """See ``ClusterSource``; where they have several sizes, containers of the usual size."""
        return self.containers_total if self._whole else self.limit

    def forecast(self) -> Capacity:
        """See ``ClusterSource``."""
        return self.forecast_known or Capacity([(0, self.containers_now())])

    def measured_costs(self) -> MeasuredCosts:
        """See ``ClusterSource``."""
        return self.costs.measured()

    def validate(self) -> None:
        """No node is over-committed, every slot is either free or held, and the counters agree."""
        by_node: dict[str, list[HeldContainer]] = {}
        by_job: dict[str, list[HeldContainer]] = {}
        for container in self.containers.values():
            by_node.setdefault(container.node, []).append(container)
            if self.on_slot(container):
                by_job.setdefault(container.job, []).append(container)
        for node in self.nodes.values():
            node.ledger.validate()
            here = by_node.get(node.name, [])
            held = sum(map(self.on_slot, here))
            outside = sum(c.group is MASTER_GROUP for c in here if not self.on_slot(c))
            assert (held, len(here) - held - outside) == (node.ledger.used, node.ledger.stopped), f"{node.name}: ledger"
            if node.state is NodeState.ALIVE:
                node.check_free()
        assert self.used == sum(node.ledger.used for node in self.nodes.values())
        self.queues.validate(self.applications.values(), self.view(0))
        assert set(self.free_nodes) == {node.name for node in self.nodes.values() if node.is_free}
        for application in self.applications.values():
            mine = by_job.get(application.name, [])
            assert application.slots == len(mine), application.name
            assert +application.held == Counter(c.group.name for c in mine), application.name
            assert application.reclaimed == sum(c.is_reclaimed for c in mine), application.name
            victims = {c.id for c in mine if self._settings.scheduler.may_take(c.group)}
            assert application.victims.keys() == victims, application.name

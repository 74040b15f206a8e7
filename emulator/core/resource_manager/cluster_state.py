"""What the ResourceManager knows of the cluster: its parts share it, and policies see it through views.

Theory of operation
-------------------
One object holds nodes, jobs, containers, queues and costs.  A part of a view is computed when a policy reads it
(``emulator.policies.views.ClusterView``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from emulator.core.messages import ContainerReport
from emulator.core.resource_manager.applications import Application, HeldContainer, Node, NodeEvent, NodeState
from emulator.core.resource_manager.attention import Attention
from emulator.core.resource_manager.measured import CostLedger, WorkLedger
from emulator.core.resource_manager.queue_ledger import QueueLedger, Waiting, job_view
from emulator.core.settings import Settings
from emulator.policies.capacity import Capacity
from emulator.policies.views import ClusterView, JobView, NodeView, QueueView, TaskView
from emulator.vocabulary import MASTER_GROUP, MeasuredCosts


@dataclass(slots=True)
class Touched:
    """What may have changed; the jobs are in ``QueueLedger.touched``."""

    nodes: dict[str, None] = field(default_factory=dict)
    containers: dict[str, HeldContainer] = field(default_factory=dict)


class ClusterState:
    """See the module's theory of operation; a ``ClusterSource``."""

    def __init__(self, settings: Settings) -> None:
        self.nodes = {node.name: Node(node) for node in settings.nodes}
        self.applications: dict[str, Application] = {}
        """Jobs submitted and not yet ended, in the order of submission."""
        self.containers: dict[str, HeldContainer] = {}
        """Containers given out and not known to have ended, also those of ended jobs."""
        self.free_nodes: dict[str, None] = {}
        """Nodes known to have a free container."""
        self.attention = Attention()
        self.queues = self._queue_ledger(settings)
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
        self.queue_share_of_master = 1
        """What an ApplicationMaster in a container takes of its queue's maximum."""
        self.room_ns = 0
        """When ``used`` last fell below ``limit``: no free container could be given out just before."""
        self.changes = 0
        """How many messages have changed the ResourceManager."""
        self.touched: Touched | None = None
        """What has changed since it was last read; None: nobody reads it."""
        self._settings = settings

    def register(self, node: Node, now_ns: int, registration: int) -> None:
        """A node is there, with nothing of what it may have had."""
        if node.state is NodeState.LOST:
            self.containers_left += node.settings.containers
        node.take(NodeEvent.HEARD, now_ns, registration)
        self.has_free(node)
        if self.touched is not None:
            self.touched.nodes[node.name] = None

    def lose(self, node: Node) -> None:
        """A node is lost."""
        node.take(NodeEvent.LOSE)
        self.containers_left -= node.settings.containers
        self.has_none(node)
        if self.touched is not None:
            self.touched.nodes[node.name] = None

    def has_free(self, node: Node) -> None:
        """A container of the node, or more of its room, has become free."""
        self.free_nodes[node.name] = None
        self.attention.grown(node.address)

    def has_none(self, node: Node) -> None:
        """Nothing of the node is free any more."""
        self.free_nodes.pop(node.name, None)
        self.attention.too_small.discard(node.address)

    def reported(self, held: HeldContainer, report: ContainerReport, now_ns: int) -> None:
        """A container has ended, or its process was stopped."""
        self.costs.take(report, held.task is not None, now_ns)
        self.touch(held)

    def touch(self, held: HeldContainer) -> None:
        """A container is given, goes on, is stopped or has ended."""
        if self.touched is not None:
            self.touched.containers[held.id] = held

    def _queue_ledger(self, settings: Settings) -> QueueLedger:
        return QueueLedger(settings.scheduler)

    def places_left(self, candidate: Application | None = None) -> int:
        """Containers of nodes that are not lost: as many ApplicationMasters, the ``candidate``'s among them, would
        leave no room for a task."""
        return self.containers_left

    def places_for(self, candidate: Application) -> int:
        """Those of them that are not withheld."""
        return min(self.limit, self.places_left(candidate))

    def hopeless(self) -> Application | None:
        """A job for whose tasks no node that is left is large enough; with one size, all are."""
        return None

    def queue_share_of_gang(self, gang: Application) -> int:
        """What the containers that it needs at once take of its queue's maximum, without the last of them."""
        return gang.requests.at_once - 1

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
        self.attention.selection_left_out |= left_out > 0
        return waiting

    def on_slot(self, held: HeldContainer) -> bool:
        """Whether it uses a container of its node; a stopped process does not."""
        return self.nodes[held.node].ledger.in_container(held.id)

    def is_stopped_at(self, container: str, node: Node) -> bool:
        """Whether the process can resume there; not before its node has reported that it stopped."""
        held = self.containers.get(container)
        return held is not None and held.node == node.name and not held.given_up and not self.on_slot(held)

    # ---- parts of views ----

    def queue_views(self) -> tuple[QueueView, ...]:
        """See ``ClusterSource``."""
        return self.queues.queue_views()

    def job_views(self, now_ns: int) -> Mapping[str, JobView]:
        """See ``ClusterSource``."""
        return {name: job_view(application, now_ns) for name, application in self.applications.items()}

    def task_views(self, job: str, now_ns: int) -> tuple[TaskView, ...]:
        """See ``ClusterSource``: containers of tasks, except those taken back by name.  Only the job knows
        which task runs in which container."""
        application = self.applications[job]
        of_job = application.facts.task_memory_bytes
        memory_bytes = {
            group.name: held[0] if len(held := group.task_memory_bytes or of_job) == 1 else None
            for group in application.facts.groups
        }
        return tuple(
            TaskView(
                held.id,
                held.job,
                held.group.name,
                held.node,
                held.since_ns,
                memory_bytes=memory_bytes[held.group.name],
                request=held.request,
            )
            for held in application.containers.values()
            if self.on_slot(held) and not held.taken and held.group is not MASTER_GROUP
        )

    def may_be_victim(self, task: TaskView, now_ns: int) -> bool:
        """Whether the task's group may be victims, and it has run for its job's minimum."""
        application = self.applications[task.job]
        held = application.victims.get(task.container)
        return held is not None and held.slot_ns + application.facts.minimum_runtime_ns <= now_ns

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
        """See ``ClusterSource``."""
        return self.limit

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
            assert application.taken == sum(c.taken for c in mine), application.name
            victims = {c.id for c in mine if self._settings.scheduler.may_take(c.group)}
            assert application.victims.keys() == victims, application.name

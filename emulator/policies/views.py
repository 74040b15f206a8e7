"""The frozen snapshots that policies decide from, and what they answer with.

Every policy is given a ``ClusterView``.  Its parts are made when they are read, so that a policy pays for what it looks
at; it is good for the decision it was made for and not kept.  An ApplicationMaster, which knows no other job and no
node, gives a view of its own tasks and of what it has been told of costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Protocol

from emulator.core.capacity import Capacity
from emulator.vocabulary import Frozen, JobFacts, Kind, MeasuredCosts, Mechanism, Tier

NO_COSTS = MeasuredCosts()


class QueueView(Frozen):
    """One queue as the allocation sees it; counts are containers."""

    name: str
    rank: int
    """0 is the most urgent queue."""
    capacity: int
    """Guaranteed containers."""
    maximum: int
    used: int
    """Held now, ApplicationMasters included."""
    pending: int
    """Asked for and not yet given."""


class JobView(Frozen):
    """One job: what it is, holds and wants."""

    facts: JobFacts
    order: int
    """Place in the order of submission."""
    submit_ns: int
    containers: int
    """Held now, ApplicationMaster included, net of those already asked back: else two equal jobs would not share."""
    reclaimable: int
    """Tasks that can still be asked back."""
    pending: int
    progress_ppm: int | None = None
    """What its ApplicationMaster has last reported as done, in millionths; None where no policy in use reads it."""
    remaining_ns: int | None = None
    """Time to its end if it goes on at its mean rate of progress so far; None before it has reported any."""
    work_ns: int | None = None
    """The whole of its work, container-nanoseconds; None where nothing is known of it."""
    work_left_ns: int | None = None
    work_guessed: bool = False
    """Whether it has tasks left of a kind of which none has finished, so that its work is made up from other jobs'."""

    @property
    def name(self) -> str:
        """Of the job."""
        return self.facts.name


class TaskView(Frozen):
    """One running attempt.  What the one who asks does not know of it is None: the ResourceManager sees no progress."""

    container: str
    job: str
    kind: Kind
    node: str
    started_ns: int
    """Launched or resumed last; to the ResourceManager: given its container."""
    task: int | None = None
    keys_done: int | None = None
    keys_total: int | None = None
    remaining_ns: int | None = None
    """Estimated time to its end; None where nothing has been observed yet."""
    refusals: int = 0
    """Times that its node has refused to have it stopped."""
    has_image: bool = False
    """Whether it goes on from a process image, on which the next one can rest."""
    image_overhead_ns: int | None = None
    """What an image of it now and the restore from it would take, the wait for the device included
    (adaptive-checkpointing, Algorithm 1); None where no images are made."""
    image_dump_ns: int | None = None
    """Of that the writing alone: what the next image on this node would wait for."""
    memory_bytes: int | None = None
    """That it holds, stopped or not; the ResourceManager knows it of jobs whose tasks all hold as much."""


class SuspendedView(Frozen):
    """One suspended task that waits to go on."""

    job: str
    kind: Kind
    task: int
    node: str
    """Where it was suspended."""
    suspended_ns: int
    since_ns: int
    """When its request for a container arrived."""
    stopped: bool = False
    """Whether its process is still there, stopped: it can go on nowhere else."""
    image_bytes: int = 0
    """Of the process image that it goes on from; 0: there is none."""
    remaining_ns: int | None = None
    """Estimated time to its end once it goes on; None where nothing has been observed, or to the ResourceManager."""


class NodeView(Frozen):
    """One node as the ResourceManager knows it; counts are containers."""

    name: str
    rack: str
    alive: bool
    capacity: int
    free: int
    memory_bytes: int = 0
    swap_bytes: int = 0
    stopped: int = 0
    """Processes that are stopped there: they hold memory and no container."""
    stopped_bytes: int = 0
    """Their memory."""
    resident_bytes: int = 0
    """What RAM holds of the memory of all tasks, stopped ones included."""
    swapped_bytes: int = 0
    """What RAM does not hold of it."""
    costs: MeasuredCosts = NO_COSTS
    """Measured there."""
    tier: Tier | None = None
    """Its storage device; None: no images are made."""
    restores_until_ns: int = 0
    """When that will have done the restores that containers were given for; 0: there was none."""

    @property
    def free_bytes(self) -> int:
        """RAM that no task holds."""
        return self.memory_bytes - self.resident_bytes


class AllocationDecision(Frozen):
    """Who may have containers: an order of queues."""

    order: tuple[str, ...]
    """Queues that may get the next container, best first."""
    reclaim: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """For each queue that may take containers back, the queues it may take them from.  One that may take from itself
    does so between its jobs, each only from those that come after it."""
    most_reclaims_in_a_run: int | None = None
    """Most containers to ask back between the jobs of a queue in a run of the Preemptor; None: all that are wanted."""
    resumes_first: bool = True
    """Whether the suspended tasks of a queue go before all that is new in it (natjam, section 3.2, R1), or only
    before the new reduces of their own job."""
    shares: tuple[tuple[str, int], ...] | None = None
    """Containers that each job is to hold, by name; None: the order of the queues decides alone."""
    per_heartbeat: int | None = None
    """Most containers that one heartbeat of a node is answered with; None: all that are free."""
    valid_until_ns: int | None = None
    """When the allocation wants to be asked again, should nothing change before; None: not before that."""


class Take(Frozen):
    """Containers to be taken back from ``jobs``: from the first as long as it has any, then from the next."""

    jobs: tuple[str, ...]
    containers: int


class MechanismDecision(Frozen):
    """What happens to a victim, and the numbers that spoke for it."""

    mechanism: Mechanism
    numbers: tuple[tuple[str, int], ...] = ()
    """(what, unit last; how much): for the log of why."""


class PlacementDecision(Frozen):
    """Whether a suspended task goes on in the container offered."""

    take: bool
    rank: int = 0
    """Of several that would take it, the lowest is served: 0 where it is at home."""
    holds_until_ns: int | None = None
    """When the answer may change although nothing else does."""
    gives_up: bool = False
    """Of a stopped process, which can go on at home only: it is killed, and its task begins anew elsewhere."""


class ClusterSource(Protocol):
    """A machine that views are made from; each method answers as things stand at the instant given."""

    def queue_views(self) -> tuple[QueueView, ...]: ...
    def job_views(self, now_ns: int) -> Mapping[str, JobView]: ...
    def task_views(self, job: str, now_ns: int) -> tuple[TaskView, ...]: ...
    def node_views(self) -> Mapping[str, NodeView]: ...
    def node_view(self, name: str) -> NodeView | None: ...
    def containers_now(self) -> int: ...
    def forecast(self) -> Capacity: ...
    def measured_costs(self) -> MeasuredCosts: ...


class ClusterView:
    """The cluster at one instant, as far as the machine that asks knows it."""

    def __init__(self, now_ns: int, source: ClusterSource) -> None:
        self.now_ns = now_ns
        """Emulated."""
        self._source = source
        self._nodes_seen: dict[str, NodeView | None] = {}

    @cached_property
    def queues(self) -> tuple[QueueView, ...]:
        """All queues, in the order of the experiment file."""
        return self._source.queue_views()

    @cached_property
    def jobs(self) -> Mapping[str, JobView]:
        """Jobs submitted and not yet ended, by name, in the order of submission."""
        return self._source.job_views(self.now_ns)

    def tasks(self, job: str) -> tuple[TaskView, ...]:
        """The running tasks of a job."""
        return self._source.task_views(job, self.now_ns)

    @cached_property
    def nodes(self) -> Mapping[str, NodeView]:
        """All nodes, by name."""
        return self._source.node_views()

    def node(self, name: str) -> NodeView | None:
        """One node; None: there is none of that name."""
        if name not in self._nodes_seen:
            self._nodes_seen[name] = self._source.node_view(name)
        return self._nodes_seen[name]

    @cached_property
    def containers(self) -> int:
        """All there are now, used or not."""
        return self._source.containers_now()

    @cached_property
    def forecast(self) -> Capacity:
        """All there will be from now on, as far as is known now: what is forecast, which need not come true."""
        return self._source.forecast()

    @cached_property
    def costs(self) -> MeasuredCosts:
        """What preemption has cost on this cluster so far."""
        return self._source.measured_costs()


class Known:
    """A source that is told what it knows: what an ApplicationMaster has to go by, and handy in tests."""

    def __init__(
        self,
        queues: tuple[QueueView, ...] = (),
        jobs: tuple[JobView, ...] = (),
        tasks: tuple[TaskView, ...] = (),
        nodes: tuple[NodeView, ...] = (),
        containers: int = 0,
        costs: MeasuredCosts = NO_COSTS,
        forecast: Capacity | None = None,
    ) -> None:
        self._queues, self._tasks, self._containers, self._costs = queues, tasks, containers, costs
        self._forecast = forecast
        self._jobs = {job.name: job for job in jobs}
        self._nodes = {node.name: node for node in nodes}

    def queue_views(self) -> tuple[QueueView, ...]:
        """See ``ClusterSource``."""
        return self._queues

    def job_views(self, now_ns: int) -> Mapping[str, JobView]:
        """See ``ClusterSource``."""
        return self._jobs

    def task_views(self, job: str, now_ns: int) -> tuple[TaskView, ...]:
        """See ``ClusterSource``."""
        return tuple(task for task in self._tasks if task.job == job)

    def node_views(self) -> Mapping[str, NodeView]:
        """See ``ClusterSource``."""
        return self._nodes

    def node_view(self, name: str) -> NodeView | None:
        """See ``ClusterSource``."""
        return self._nodes.get(name)

    def containers_now(self) -> int:
        """See ``ClusterSource``."""
        return self._containers

    def forecast(self) -> Capacity:
        """See ``ClusterSource``; where nothing was told: as many as there are now."""
        return self._forecast or Capacity([(0, self._containers)])

    def measured_costs(self) -> MeasuredCosts:
        """See ``ClusterSource``."""
        return self._costs

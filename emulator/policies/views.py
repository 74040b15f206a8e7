"""The frozen snapshots that policies decide from, and the decisions that they return.

Every policy gets a ``ClusterView``.  Its parts are computed when they are read, so a policy pays only for what it uses.
A view is valid for one decision and must not be kept.  An ApplicationMaster knows no other job and no node; its view
holds its own tasks and the costs that it received.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Protocol

from emulator.policies.capacity import Capacity
from emulator.vocabulary import Frozen, JobFacts, MeasuredCosts, Mechanism, Resources, Tier

NO_COSTS = MeasuredCosts()


class QueueView(Frozen):
    """One queue as the allocation sees it; counts are containers.  Where containers have several sizes, they are
    millionths of the cluster, by the dominant share."""

    name: str
    """As in the experiment file."""
    rank: int
    """0 is the most urgent queue."""
    capacity: int
    """Guaranteed containers."""
    maximum: int
    """Most containers it may hold."""
    used: int
    """Containers held now, ApplicationMasters included."""
    pending: int
    """Containers requested and not yet given."""
    held: Resources = ()
    """Where containers have several sizes: what they hold now, of each resource in thousandths."""
    wanted: Resources = ()
    """And what those requested ask for."""


class JobView(Frozen):
    """One job: its facts, what it holds and what it requests."""

    facts: JobFacts
    """What was known when it was submitted; see ``JobFacts``."""
    order: int
    """Position in the order of submission."""
    submit_ns: int
    """When it was submitted."""
    containers: int
    """Held now, ApplicationMaster included, without those asked back; otherwise two equal jobs would not share."""
    reclaimable: int
    """Tasks that can still be asked back; those that have not run for ``JobFacts.minimum_runtime_ns`` cannot."""
    pending: int
    """Containers requested and not yet given."""
    progress_ppm: int | None = None
    """Work done, as last reported by its ApplicationMaster, in millionths; None if no policy in use reads it."""
    remaining_ns: int | None = None
    """Time to its end at its mean rate of progress so far; None before it has reported any progress."""
    work_ns: int | None = None
    """Its total work, container-nanoseconds; None if unknown."""
    work_left_ns: int | None = None
    """What is left of it, container-nanoseconds; None if unknown."""
    work_guessed: bool = False
    """Whether its work is estimated from other jobs, because it has a group of tasks of which none has finished yet."""
    task_ns: int = 0
    """Mean length of its tasks; 0 in fluid runs, where a job has no tasks."""
    members: int = 0
    """Tasks of a gang that hold a container; 0 for other jobs."""
    at_once: int = 0
    """Fewest containers that it can be given, all at one time; 0: one by one."""
    begun_ns: int = 0
    """The part of ``work_left_ns`` that its running tasks have probably done, estimated from how long they have run."""
    tasks_hold: Resources = ()
    """Where containers have several sizes: what those of its tasks hold, of each resource in thousandths."""
    wanted: Resources = ()
    """And what those requested ask for."""

    @property
    def name(self) -> str:
        """Name of the job."""
        return self.facts.name

    @property
    def goes_whole(self) -> bool:
        """Whether it gives all its containers when it must give one: a gang that would be too small without it."""
        return self.facts.gang is not None and self.members <= self.facts.gang


class TaskView(Frozen):
    """One running attempt.  Fields that the caller does not know are None: the ResourceManager sees no progress."""

    container: str
    """The container that it runs in; what a task eviction returns."""
    job: str
    """Name of its job."""
    group: str
    """Name of its group: ``map``, ``reduce``, ``tasks`` or one that the job's file names (``JobFacts.groups``)."""
    node: str
    """Where it runs."""
    started_ns: int
    """When it was last launched or resumed; at the ResourceManager, when it got its container."""
    task: int | None = None
    """Its number among the tasks of its group, from 0."""
    keys_done: int | None = None
    """Keys that it has done; a checkpoint keeps them."""
    keys_total: int | None = None
    """All its keys."""
    remaining_ns: int | None = None
    """Estimated time to its end; None if nothing has been observed yet."""
    refusals: int = 0
    """How often its node has refused to stop it."""
    has_image: bool = False
    """Whether it was restored from a process image, so that its next image can be incremental."""
    is_saved: bool = False
    """Whether all its work is saved, because it is still being restored or has done nothing since: whatever frees its
    container ends it as it is."""
    saved_ns: int | None = None
    """When it last saved by itself (``JobFacts.checkpoint_period_ns``): a kill loses only what it has done since.
    None: it has not since it started; and at the ResourceManager, which is not told."""
    image_overhead_ns: int | None = None
    """Time to make an image of it now and to restore it, the wait for the device included; only what has changed since
    an earlier image is written.  None if no images are made; 0 if it is saved already."""
    image_memory_ns: int | None = None
    """The same as if all its memory were written (adaptive-checkpointing, Algorithm 1)."""
    image_dump_ns: int | None = None
    """The part of it that writes the image; the next image on this node would wait that long."""
    request: Resources = ()
    """What its container asked for, in thousandths; empty where all containers have one size."""
    memory_bytes: int | None = None
    """Memory that it holds, stopped or not; the ResourceManager knows it only if all tasks of the job hold the same."""


class SuspendedView(Frozen):
    """One suspended task that waits to resume."""

    job: str
    """Name of its job."""
    group: str
    """Name of its group."""
    task: int
    """Its number among the tasks of its group, from 0."""
    node: str
    """Where it was suspended."""
    suspended_ns: int
    """When it was suspended."""
    since_ns: int
    """When its request for a container arrived."""
    stopped: bool = False
    """Whether its process still exists, stopped: it can then resume on this node only."""
    image_bytes: int = 0
    """Size of the process image that it resumes from; 0: no image."""
    remaining_ns: int | None = None
    """Estimated time to its end after it resumes; None if nothing was observed, and always at the ResourceManager."""
    avoids: frozenset[str] = frozenset()
    """Nodes that its job avoids; known to the ResourceManager."""


class NodeView(Frozen):
    """One node as the ResourceManager knows it; counts are containers, where these have several sizes of the usual
    one."""

    name: str
    """As in the experiment file: ``node-1`` and so on."""
    rack: str
    """Name of its rack."""
    alive: bool
    """Whether it is heard of; a lost node has no containers."""
    capacity: int
    """All its containers."""
    free: int
    """Containers that nobody holds."""
    memory_bytes: int = 0
    """Its RAM."""
    swap_bytes: int = 0
    """Its swap."""
    stopped: int = 0
    """Stopped processes on it; they hold memory but no container."""
    stopped_bytes: int = 0
    """Memory of the stopped processes."""
    resident_bytes: int = 0
    """Memory of all tasks, stopped ones included, that is in RAM."""
    swapped_bytes: int = 0
    """Memory of all tasks that is not in RAM."""
    costs: MeasuredCosts = NO_COSTS
    """Measured on this node."""
    tier: Tier | None = None
    """Its storage device; None: no images are made."""
    restores_until_ns: int = 0
    """When its device will have finished the restores that containers were given for; 0: none."""
    resources: Resources = ()
    """What containers can have of it together, in thousandths; empty where all containers have one size."""
    charged: Resources = ()
    """What they hold of it, stopped processes included."""
    resource_names: tuple[str, ...] = ()
    """The names of the resources, in the order of all such vectors."""
    labels: tuple[tuple[str, str], ...] = ()
    """Pairs (name, value) by which the file distinguishes nodes."""

    @property
    def free_bytes(self) -> int:
        """RAM not used by any task."""
        return self.memory_bytes - self.resident_bytes


class AllocationDecision(Frozen):
    """Who may have containers: an order of queues."""

    order: tuple[str, ...]
    """Queues that may get the next container, the best first."""
    reclaim: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """For each queue that may take containers back, the queues it may take them from.  A queue that may take from
    itself does so between its jobs: a job takes only from jobs that come after it."""
    most_reclaims_in_a_run: int | None = None
    """Most containers that one run of the Preemptor asks back between the jobs of a queue; None: as many as wanted."""
    resumes_first: bool = True
    """Whether the suspended tasks of a queue go before all its new tasks (natjam, section 3.2, R1), or only before the
    new reduces of their own job."""
    per_heartbeat: int | None = None
    """Most containers given out in answer to one heartbeat of a node; None: all free ones."""
    valid_until_ns: int | None = None
    """When the allocation must be computed again even if nothing changes before, at least 10 ms from now; None: only
    when something changes."""


class ShareDecision(Frozen):
    """Who may have containers: a number for each job."""

    shares: tuple[tuple[str, int], ...]
    """Containers that each job is to hold, by name."""
    valid_until_ns: int | None = None
    """When the allocation must be computed again even if nothing changes before, at least 10 ms from now; None: only
    when something changes."""


class MechanismDecision(Frozen):
    """What happens to a victim, and the numbers behind the choice."""

    mechanism: Mechanism
    """Wait, kill, suspend, checkpoint or image."""
    numbers: tuple[tuple[str, int], ...] = ()
    """Pairs (name with the unit last, value): for the log of why it was chosen."""


class PlacementDecision(Frozen):
    """Whether a suspended task resumes in the container offered."""

    take: bool
    """Whether it resumes there."""
    rank: int = 0
    """If several tasks would take the container, the lowest rank gets it; 0: the task's own node."""
    holds_until_ns: int | None = None
    """When the answer may change even if nothing else changes."""
    gives_up: bool = False
    """Whether to kill the stopped process, which could resume on its own node only; its task then starts again on
    another node."""


class ClusterSource(Protocol):
    """A machine that views are made from; each method answers for the given instant."""

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

    def with_queues(self, queues: tuple[QueueView, ...]) -> ClusterView:
        """The same cluster with other queues: what would be decided if they held more."""
        other = ClusterView(self.now_ns, self._source)
        other.__dict__["queues"] = queues  # as if they had been read
        return other

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
        """Number of containers now, used or not."""
        return self._source.containers_now()

    @cached_property
    def forecast(self) -> Capacity:
        """The cluster's capacity from now on, as forecast now; the forecast may be wrong."""
        return self._source.forecast()

    @cached_property
    def costs(self) -> MeasuredCosts:
        """What preemption has cost on this cluster so far."""
        return self._source.measured_costs()


class Known:
    """A source with fixed values: what an ApplicationMaster received; also useful in tests."""

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
        """See ``ClusterSource``; without a forecast, the containers of now for ever."""
        return self._forecast or Capacity([(0, self._containers)])

    def measured_costs(self) -> MeasuredCosts:
        """See ``ClusterSource``."""
        return self._costs

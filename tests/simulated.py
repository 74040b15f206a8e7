"""Simulated clusters for tests: settings without an experiment file, a faulty network, and checks after each
message."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from emulator.chaos.faulty_cluster import BadNetwork, FaultyNetwork
from emulator.chaos.invariants import Invariants
from emulator.core.application_master.application_master import ApplicationMaster
from emulator.core.application_master.task import AttemptState, TaskState
from emulator.core.job import JobSpec
from emulator.core.machine import StateMachine
from emulator.core.messages import (
    RESOURCE_MANAGER,
    ContainerState,
    JobState,
    Message,
    Start,
)
from emulator.core.node_manager.node_manager import NodeManager
from emulator.core.resource_manager.resource_manager import ResourceManager
from emulator.core.settings import (
    VICTIMS,
    AvailabilitySettings,
    NodeSettings,
    OverheadSettings,
    ProtocolSettings,
    QueueSettings,
    SchedulerSettings,
    Settings,
    SpeculationSettings,
    UpdateMode,
)
from emulator.errors import EndlessPreemptionError
from emulator.policies import axes as policies
from emulator.policies.capacity import Capacity
from emulator.policies.placement import PreferLocal
from emulator.policies.policy import PlacementPolicy
from emulator.policies.resources import WHOLE_PPM
from emulator.records.history import HistoryBuilder
from emulator.records.journal import Record
from emulator.resolved import make_machine
from emulator.sim.cluster import SimulatedCluster
from emulator.sim.cost_model import CostModel, Network
from emulator.vocabulary import SECOND_NS, Frozen, JobFacts, Resources, map_reduce

GIB_BYTES = 1 << 30


RESOURCES = ("cpu", "memory_gb", "gpu")


def make_settings(
    *,
    seed: int = 1,
    nodes: int = 1,
    containers: int = 2,
    memory_gb: int = 16,
    swap_gb: int = 0,
    max_suspended: int = 8,
    mechanism: str = "checkpoint",
    allocation: str = "two-queue",
    victims: str = "reduces",
    job_eviction: str = "mr",
    job_selection: str = "auto",
    task_eviction: str = "srt",
    queues: tuple[QueueSettings, ...] | None = None,
    heartbeat_s: float = 1.0,
    kill_timeout_s: float = 12.0,
    expired_s: float = 2.0,
    slow_start_ppm: int = 50_000,
    task_attempts_max: int = 4,
    placement_delay_s: float = 0.0,
    placement: PlacementPolicy | None = None,
    resume_order: str = "suspended-first",
    overheads: OverheadSettings | None = None,
    speculation: Mapping[str, float] | None = None,
    slow_nodes: Mapping[str, float] | None = None,
    slots: tuple[int, int] | None = None,
    unmanaged_masters: bool = False,
    news: str = "heartbeat",
    available: Sequence[tuple[float, int]] | None = None,
    period_s: float | None = None,
    grace_s: float = 30.0,
    racks: int = 1,
    sizes: tuple[Resources, ...] = (),
    suspended_hold: frozenset[str] = frozenset({"memory_gb", "gpu"}),
    master_request: Resources = (),
) -> Settings:
    """Settings with the defaults of an experiment file; queues: production with a quarter, research with the rest.

    ``sizes``: the resources of each node, of ``RESOURCES``, instead of containers of one size.
    """
    total = WHOLE_PPM if sizes else nodes * containers
    names = RESOURCES[: len(master_request)]
    heartbeat_ns = round(heartbeat_s * SECOND_NS)
    eviction = policies.JOB_EVICTION.by_name[job_eviction]
    is_dictated = job_selection == policies.AUTO
    prefer_local = policies.PLACEMENT.by_name["prefer-local"].with_options(PreferLocal(delay_s=placement_delay_s))
    if queues is None and allocation == "single-queue":
        queues = (QueueSettings("research", 0, total, total),)
    if queues is None:
        queues = (
            QueueSettings("production", 0, total // 4, total),
            QueueSettings("research", 1, total - total // 4, total),
        )
    return Settings(
        seed=seed,
        protocol=ProtocolSettings(
            heartbeat_ns=heartbeat_ns,
            preemptor_period_ns=heartbeat_ns,
            estimate_period_ns=heartbeat_ns,
            task_heartbeat_ns=heartbeat_ns,
            kill_timeout_ns=round(kill_timeout_s * SECOND_NS),
            expired_ns=round(expired_s * SECOND_NS),
            slow_start_ppm=slow_start_ppm,
            task_attempts_max=task_attempts_max,
            am_attempts=2,
            node_blacklist_failures=3,
            node_expiry_ns=600 * SECOND_NS,
            speculation=None if speculation is None else _speculation(**speculation),
            news=UpdateMode(news),
        ),
        overheads=overheads or OverheadSettings(),
        scheduler=SchedulerSettings(
            allocation=policies.ALLOCATION.by_name[allocation],
            job_selection=policies.selection_for(eviction, policies.ALLOCATION.by_name[allocation])
            if is_dictated
            else policies.JOB_SELECTION.by_name[job_selection],
            job_eviction=eviction,
            task_eviction=policies.TASK_EVICTION.by_name[task_eviction],
            mechanism=policies.MECHANISM.by_name[mechanism],
            placement=placement or prefer_local,
            resume_order=policies.RESUME_ORDER.by_name[resume_order],
            queues=queues,
            victims=VICTIMS[victims],
        ),
        nodes=tuple(
            NodeSettings(
                name=f"node-{number}",
                rack=f"rack-{(number - 1) * racks // nodes + 1}",
                containers=containers,
                container_memory_bytes=GIB_BYTES,
                memory_bytes=memory_gb * GIB_BYTES,
                swap_bytes=swap_gb * GIB_BYTES,
                max_suspended=max_suspended,
                slowness_ppm=round((slow_nodes or {}).get(f"node-{number}", 1) * 1_000_000),
                slots=slots,
                unmanaged_masters=unmanaged_masters,
                resources=sizes[number - 1] if sizes else (),
                resource_names=names,
                stopped_hold=tuple(name in suspended_hold for name in names),
            )
            for number in range(1, nodes + 1)
        ),
        availability=None if available is None else _availability(available, period_s, grace_s),
        master_request=master_request,
    )


def _availability(
    available: Sequence[tuple[float, int]], period_s: float | None, grace_s: float
) -> AvailabilitySettings:
    steps = [(round(at_s * SECOND_NS), count) for at_s, count in available]
    capacity = Capacity(steps, None if period_s is None else round(period_s * SECOND_NS))
    return AvailabilitySettings(capacity, capacity, round(grace_s * SECOND_NS))


def _speculation(margin: float = 0.2, after_s: float = 5.0, at_most: float = 1.0) -> SpeculationSettings:
    return SpeculationSettings(round(margin * 1_000_000), round(after_s * SECOND_NS), round(at_most * 1_000_000))


def make_job(
    name: str,
    queue: str = "research",
    submit_s: float = 0.0,
    maps_s: tuple[float, ...] = (),
    reduces_s: tuple[float, ...] = (),
    key_s: float = 1.0,
    deadline_s: float | None = None,
    priority: int = 0,
    gang: int | None = None,
) -> JobSpec:
    """A job whose reduces have keys of about ``key_s``."""
    deadline_ns = None if deadline_s is None else round(deadline_s * SECOND_NS)
    return JobSpec(
        JobFacts(name, queue, map_reduce(len(maps_s), len(reduces_s)), deadline_ns, priority, GIB_BYTES, gang=gang),
        submit_ns=round(submit_s * SECOND_NS),
        map_ns=tuple(round(length * SECOND_NS) for length in maps_s),
        reduce_ns=tuple(round(length * SECOND_NS) for length in reduces_s),
        reduce_keys=tuple(max(1, round(length / key_s)) for length in reduces_s),
    )


NO_TRACE = frozenset(
    {
        "Queue.users",  # these three of YARN's scheduler are computed when they are read
        "Queue.served",
        "CapacityScheduler._small_part",
        *(
            "ClusterState.awaited",
            "QueueLedger._attention",
            "QueueLedger._views",
            "MasterUpdates._changed",
            "ByQueues._no_op_state",
            "ByQueues._decision",
            "CommandLedger.due_ns",
        ),
        *("Preemptor.due_ns", "Application.view", "Capacity._until", "Capacity._sums", "Capacity._of_a_period"),
    }
)
"""What a heartbeat that says nothing may change: who is waited for, what the allocation last said and that there is
nothing more to ask for as things stand, from when on to look for orders to repeat and reclaims that expire, and views
that have been made of jobs as they are, and what has been worked out of a capacity; no decision rests on whether they
are there."""


@dataclass
class CheckedCluster(SimulatedCluster):
    """A simulated cluster that checks itself after every message by what holds whatever goes wrong
    (``emulator.chaos.invariants``), and that machines leave traces and are restored as they should."""

    settings: Settings
    jobs: Mapping[str, JobSpec]
    costs: CostModel | None = None
    bad_network: BadNetwork | None = None
    watch_revisions: bool = False
    """Check, every few events, that a machine with an unchanged revision has not changed."""
    repeat_empty_heartbeats: bool = False
    """Deliver each heartbeat, or response to one, that says and changes nothing a second time."""
    every_heartbeat: bool = False
    """Also run heartbeats that say and change nothing."""
    network: Network | None = None
    """Of its own; None: the ``bad_network``, or each message arrives at once."""
    records: list[Record] = field(default_factory=list)
    masters: dict[str, ApplicationMaster] = field(default_factory=dict)
    """All ApplicationMasters so far, by job."""
    lost_nodes: set[str] = field(default_factory=set)
    """Nodes that have not returned."""

    def __post_init__(self) -> None:
        self.invariants = Invariants(self.settings, self.jobs)
        self._history = HistoryBuilder(self.jobs.values())
        network = FaultyNetwork(CostModel(), self.bad_network) if self.bad_network else self.network
        super().__init__(self.settings, self.jobs, self._record, self.costs, network, self.every_heartbeat)

    def boot(self, address: str, start: Start) -> None:
        restored = self._halted.get(address)
        if restored is not None and not isinstance(restored[0], NodeManager):
            self._check_journal_restores(address, restored[0])
        super().boot(address, start)
        machine = self.machines.get(address)
        if isinstance(machine, ApplicationMaster):
            assert self.masters.setdefault(machine.job, machine) is machine, f"{machine.job} has had two states"

    def _check_journal_restores(self, address: str, machine: StateMachine) -> None:
        """Its journal, given to a new machine, must restore the state it had when it died."""
        fresh = make_machine(address, self.settings, self.jobs)
        for record in self.records:
            if record.actor == address:
                fresh.handle(record.message, record.t_ns)
        assert freeze(fresh, NO_TRACE) == freeze(machine, NO_TRACE), address

    def tell(self, address: str, message: Message) -> None:
        machine = self.machines.get(address)
        if machine is None:
            return
        revision = machine.revision
        before = freeze(machine, NO_TRACE) if self.watch_revisions and self.kernel.events % 29 == 0 else None
        is_under_way = self._telling
        super().tell(address, message)
        if not is_under_way:  # else it will be told when the effects of the one before have been carried out
            self.invariants.look(self, address)
        if machine.revision == revision:
            assert before is None or freeze(machine, NO_TRACE) == before, f"{address}: {message} has left a trace"
            if self.repeat_empty_heartbeats and getattr(message, "is_empty", False):
                super().tell(address, message)

    def _record(self, record: Record) -> None:
        self.records.append(record)
        self.invariants.note(record)
        self._history.follow([record])

    @property
    def finished_jobs(self) -> dict[str, JobState]:
        """How each job that has ended has, as the ResourceManager has told."""
        return {job: finished.state for job, finished in self.invariants.finished.items()}

    def machine_of_rm(self) -> ResourceManager:
        machine = self.machines[RESOURCE_MANAGER]
        assert isinstance(machine, ResourceManager)
        return machine

    def lose_node(self, node: str, reason: str = "test") -> None:
        super().lose_node(node, reason)
        self.lost_nodes.add(node)

    def silence_node(self, node: str) -> None:
        super().silence_node(node)
        self.lost_nodes.add(node)

    def return_node(self, node: str) -> None:
        super().return_node(node)
        self.lost_nodes.discard(node)

    def run_to_end(self, limit_s: int) -> None:
        """Run all jobs, and on until the cluster is idle again, within ``limit_s`` emulated seconds."""
        limit_ns = limit_s * SECOND_NS
        self.run(limit_ns)
        self.kernel.run(limit_ns, until=self.is_idle)

    def is_idle(self) -> bool:
        """Whether nothing runs, nothing is held and every container of a living node is free."""
        managers = [machine for machine in self.machines.values() if isinstance(machine, NodeManager)]
        containers = [container for machine in managers for container in machine.containers.values()]
        ended = all(container.state is ContainerState.DONE for container in containers)
        return ended and not self.invariants.what_is_left(self)

    def check_end(self) -> None:
        """Every job has ended once; what one that succeeded has done is done once."""
        assert not self.machine_of_rm().preemptor.reclaims
        self.invariants.look_at_jobs()
        for job, state in self.finished_jobs.items():
            if state is JobState.SUCCEEDED:
                self._check_job(self.masters[job])

    def _check_job(self, master: ApplicationMaster) -> None:
        tasks = master.tasks.walkers if master.tasks.walkers else master.tasks.maps
        assert all(task.state is TaskState.SUCCEEDED for task in tasks), master.job
        for task in tasks:
            succeeded = [attempt for attempt in task.attempts if attempt.state is AttemptState.SUCCEEDED]
            assert len(succeeded) == 1, f"{master.job}: task {task.index} succeeded {len(succeeded)} times"


def run_checked(
    settings: Settings,
    jobs: tuple[JobSpec, ...],
    *,
    costs: CostModel | None = None,
    bad_network: BadNetwork | None = None,
    disturb: Callable[[CheckedCluster], None] | None = None,
    limit_s: int = 20_000,
    watch_revisions: bool = False,
    repeat_empty_heartbeats: bool = False,
    every_heartbeat: bool = False,
    may_be_endless: bool = False,
    may_stand_still: Callable[[CheckedCluster], bool] = lambda cluster: False,
) -> CheckedCluster:
    """Run ``jobs`` to the end with all checks; before that, ``disturb`` may plan faults on the cluster's kernel.
    With ``may_be_endless``, tasks may also be preempted without end; ``may_stand_still``: whether a cluster in which
    jobs have not ended at the limit may be left so."""
    by_name = {job.name: job for job in jobs}
    cluster = CheckedCluster(
        settings, by_name, costs, bad_network, watch_revisions, repeat_empty_heartbeats, every_heartbeat
    )
    if disturb is not None:
        disturb(cluster)
    try:
        cluster.run_to_end(limit_s)
    except EndlessPreemptionError:
        if not may_be_endless:
            raise
    except RuntimeError:
        if not may_stand_still(cluster):
            raise
    else:
        cluster.check_end()
    return cluster


def count_effects(records: list[Record]) -> Counter[str]:
    """How many effects of each type are in a journal."""
    return Counter(type(effect).__name__ for record in records for effect in record.effects)


def _is_frozen(value: object) -> bool:
    """Whether it is a dataclass that cannot change, such as the settings that all machines share."""
    parameters = getattr(type(value), "__dataclass_params__", None)
    return parameters is not None and parameters.frozen


def freeze(value: object, leave_out: frozenset[str] = frozenset(), met: dict[int, int] | None = None) -> object:
    """The state of a machine, or of any part of it, in a form that can be compared; fields named as
    ``<class>.<field>`` are left out.

    An object that is reached in several ways is written out where it is met first; ``met`` has the number of each.
    """
    if value is None or isinstance(value, int | str | Enum | Frozen):  # most are, and the others take long to tell
        return value
    met = {} if met is None else met
    if isinstance(value, Mapping):
        return tuple((freeze(key), freeze(item, leave_out, met)) for key, item in value.items())
    if isinstance(value, list | tuple | deque):
        return tuple(freeze(item, leave_out, met) for item in value)
    if isinstance(value, set | frozenset):
        return frozenset(value)
    if callable(value) or _is_frozen(value):
        return value
    name = type(value).__name__
    if id(value) in met:
        return name, met[id(value)]
    met[id(value)] = len(met)
    slots = [slot for cls in type(value).__mro__ for slot in getattr(cls, "__slots__", ())]
    names = [cls.__name__ for cls in type(value).__mro__]  # what is left out of a class is left out of those below it
    fields = [
        each
        for each in (*slots, *getattr(value, "__dict__", ()))
        if leave_out.isdisjoint(f"{name}.{each}" for name in names)
    ]
    return name, tuple((each, freeze(getattr(value, each), leave_out, met)) for each in fields)

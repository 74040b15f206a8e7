"""The ResourceManager's records of each job and node: requests, containers, and news not yet delivered."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import ClassVar

from emulator.core.application_master.asks import left_of
from emulator.core.delivery import NumberedUpdates
from emulator.core.machine import Arc, Stateful, Symbol
from emulator.core.messages import (
    AllocatedContainer,
    AllocateResponse,
    ApplicationHeartbeat,
    ContainerReport,
    ContainerState,
    Outcome,
    ResumeAsk,
    TaskOrder,
    node_address,
)
from emulator.core.node_ledger import NodeLedger
from emulator.core.settings import NodeSettings
from emulator.policies.resources import PARTS, fits, lacking, minus, plus, total, written
from emulator.policies.views import JobView
from emulator.vocabulary import MASTER, MASTER_GROUP, JobFacts, MeasuredCosts, Resources, TaskGroup, TaskId, Work

_name = attrgetter("name")


class MasterUpdates:
    """Containers given, ended or asked back, lost nodes, orders about tasks."""

    def __init__(self, address: str, changed: list[str] | None = None) -> None:
        """``address`` is added to ``changed`` whenever there is more to tell."""
        self._address = address
        self._changed = [] if changed is None else changed
        self._answers: NumberedUpdates[AllocateResponse] = NumberedUpdates()
        self.received_id = 0
        """Id of the last answer that it is known to have; kept where news are told at once."""
        self._allocated: list[AllocatedContainer] = []
        self._finished: list[ContainerReport] = []
        self.reclaim = 0
        """Containers to ask back that it has not been asked for yet."""
        self._withdrawn = 0
        """Containers asked back before that it need no longer give."""
        self._contract_reduced = False
        """Whether it must hear what it may keep of nodes."""
        self._named: list[str] = []
        self._device_queues: list[tuple[str, int]] = []
        self._lost_nodes: list[str] = []
        self._orders: list[TaskOrder] = []

    # ---- what is to be told ----

    def allocate(self, allocation: AllocatedContainer) -> None:
        """It gets a container."""
        self._allocated.append(allocation)
        self._changed.append(self._address)

    def ended(self, report: ContainerReport) -> None:
        """A container has ended that it has not acknowledged."""
        self._finished.append(report)
        self._changed.append(self._address)

    def request_reclaim(self) -> None:
        """It must give a container, of its own choice."""
        self.reclaim += 1
        self._changed.append(self._address)

    def withdraw(self) -> None:
        """It must give one less than it was asked for, or would be."""
        if self.reclaim:
            self.reclaim -= 1
            return
        self._withdrawn += 1
        self._changed.append(self._address)

    def reduce_contract(self) -> None:
        """What it may keep of a node has changed."""
        self._contract_reduced = True
        self._changed.append(self._address)

    def ask_by_name(self, container: str, queue_ns: int | None = None) -> None:
        """It must give this container; ``queue_ns``: what an image of it waits for the device, if that is counted."""
        self._named.append(container)
        if queue_ns is not None:
            self._device_queues.append((container, queue_ns))
        self._changed.append(self._address)

    def node_lost(self, node: str) -> None:
        """A node is gone with all that was there."""
        self._lost_nodes.append(node)
        self._changed.append(self._address)

    def order(self, order: TaskOrder) -> None:
        """It must do something with a single task."""
        self._orders.append(order)
        self._changed.append(self._address)

    # ---- telling it ----

    def is_awaited(self, received_id: int) -> bool:
        """Whether the next heartbeat gets an answer, if the last answer heard is ``heard_id``."""
        return self._waits or self._answers.unacknowledged(received_id) is not None

    @property
    def _waits(self) -> bool:
        counts = self.reclaim or self._withdrawn or self._contract_reduced
        return bool(self._allocated or self._finished or counts or self._named or self._lost_nodes or self._orders)

    @property
    def has_unacknowledged(self) -> bool:
        """Whether it is not known to have the last answer."""
        return self.received_id < self._answers.number

    @property
    def can_be_sent(self) -> bool:
        """Whether there is something to tell that can be told at once."""
        return self._waits and not self.has_unacknowledged

    def acknowledge(self, answer_id: int) -> bool:
        """It has this answer; returns whether that is new."""
        is_new = answer_id > self.received_id
        self.received_id = max(self.received_id, answer_id)
        if is_new and self._waits:
            self._changed.append(self._address)
        return is_new

    def undelivered(self, received_id: int) -> list[AllocatedContainer]:
        """Allocations that are not known to an ApplicationMaster whose last answer is ``heard_id``."""
        again = self._answers.unacknowledged(received_id)
        return [*(again.allocated if again else ()), *self._allocated]

    def answer(
        self, received_id: int, costs: Callable[[], MeasuredCosts], keeps: tuple[tuple[str, Resources], ...] = ()
    ) -> AllocateResponse | None:
        """The answer to a heartbeat: the last one again if it was not heard, else a new one, else None; ``keeps``: see
        ``Answer``."""
        again = self._answers.unacknowledged(received_id)
        if again is not None or not self._waits:
            return again
        number = self._answers.number + 1
        answer = AllocateResponse(
            id=number,
            allocated=tuple(self._allocated),
            finished=tuple(self._finished),
            reclaim=self.reclaim,
            named=tuple(self._named),
            device_queues=tuple(self._device_queues),
            withdrawn=self._withdrawn,
            lost_nodes=tuple(self._lost_nodes),
            keeps=keeps,
            costs=costs() if self.reclaim or self._named or keeps else None,
            orders=tuple(self._orders),
        )
        self._allocated, self._finished, self._lost_nodes, self._orders = [], [], [], []
        self._named, self._device_queues = [], []
        self.reclaim = self._withdrawn = 0
        self._contract_reduced = False
        self._changed.append(self._address)
        return self._answers.send(number, answer)


@dataclass(slots=True)
class HeldContainer:
    """A container as the ResourceManager knows it."""

    id: str
    job: str
    group: TaskGroup
    node: str
    task: TaskId | None
    """The suspended task that last got it; None: a new task."""
    since_ns: int
    slot_ns: int = 0
    """When it got its current slot."""
    ready_ns: int = -1
    """See ``AllocatedContainer``; higher each time, because its node tells a resume from an earlier one by it."""
    request: Resources = ()
    """What it asked for; empty where all containers have one size."""
    is_reclaimed: bool = False
    """Whether it has been reclaimed by name: it counts as gone, although its node still holds it."""
    is_abandoned: bool = False
    """Whether its stopped process will be killed because it waited too long to resume."""
    revision: int = 0
    """Revision of the newest report; reports that are not newer are ignored."""

    def ended(self, outcome: Outcome, reason: str) -> ContainerReport:
        """The report of its end when the ResourceManager says it: newer than anything that its node may still send."""
        return ContainerReport(
            container=self.id,
            job=self.job,
            group=self.group.name,
            node=self.node,
            revision=1 << 62,
            state=ContainerState.DONE,
            outcome=outcome,
            reason=reason,
        )


class NodeState(Symbol):
    """A worker as the ResourceManager knows it."""

    UNKNOWN = "not heard of yet"
    ALIVE = "alive"
    LOST = "lost"


class NodeEvent(Symbol):
    """Events that change a worker's state."""

    HEARD = "registered"
    LOSE = "given up"


@dataclass(slots=True)
class Node(Stateful):
    """A worker as the ResourceManager knows it.

    What is free of a node is what its ledger charges nobody with.  Of each resource it is kept in pieces, one for each
    time that some became free, because the overhead of scheduling a container begins when its capacity was known to be
    free.  A container takes of the oldest pieces first.  One that ends may leave nothing, if its stopped process held
    all that it asked for; its node is offered all the same, so that the process can resume.
    """

    settings: NodeSettings
    ledger: NodeLedger = field(init=False)
    """Who holds what of it, as far as is known here."""
    state: NodeState = NodeState.UNKNOWN
    registration: int = 0
    """See ``NodeHeartbeat``."""
    free: Resources = field(init=False)
    """What can be given out; nothing while the node is not alive."""
    _pieces: tuple[deque[tuple[int, str | None, int]], ...] = field(init=False)
    """Of each resource, since when how much has been free, and who held it before, the oldest first."""
    _left_nothing: int = 0
    """Containers that did, and that none has taken the place of."""
    restores_until_ns: int = 0
    """When its device will have finished the restores that containers here were given for, one after the other."""
    finished_jobs: list[str] = field(default_factory=list)
    """Jobs with a container here that have ended, and the NodeManager was not told yet."""
    ended: NumberedUpdates[tuple[str, ...]] = field(default_factory=lambda: NumberedUpdates(-1))
    """Those that it received, under the number of the heartbeat that was answered."""
    to_kill: dict[str, int] = field(default_factory=dict)
    """Containers that it must kill, and has not been told of yet; how long each stays taken after its end."""
    answered_id: int = -1
    """The newest heartbeat that was answered with such news."""
    name: str = field(init=False)
    """Unique in the cluster."""
    address: str = field(init=False)
    """The address of its NodeManager."""

    def __post_init__(self) -> None:
        self.name, self.address = self.settings.name, node_address(self.settings.name)
        self.ledger = NodeLedger(self.settings)
        self.free = (0,) * len(self.settings.has)
        self._pieces = tuple(deque() for _ in self.free)

    def __str__(self) -> str:
        return self.name

    def _registered(self, now_ns: int, registration: int) -> None:
        """Its first heartbeat, or the first since it was lost: all its containers are free."""
        self.registration = registration
        self.restores_until_ns = 0
        self._add(now_ns, None, self.settings.has)

    def _add(self, now_ns: int, former_owner: str | None, amount: Resources) -> None:
        self.free = plus(self.free, amount)
        self._left_nothing += not any(amount)
        for pieces, more in zip(self._pieces, amount, strict=True):
            if more:
                pieces.append((now_ns, former_owner, more))

    def _lost(self) -> None:
        """No more containers are given out there."""
        self.free, self._left_nothing = (0,) * len(self.free), 0
        for pieces in self._pieces:
            pieces.clear()

    arcs: ClassVar = {
        (NodeState.UNKNOWN, NodeEvent.HEARD): Arc(NodeState.ALIVE, _registered),
        (NodeState.UNKNOWN, NodeEvent.LOSE): Arc(NodeState.LOST, _lost),
        (NodeState.ALIVE, NodeEvent.LOSE): Arc(NodeState.LOST, _lost),
        (NodeState.LOST, NodeEvent.HEARD): Arc(NodeState.ALIVE, _registered),
    }

    def freed(self, now_ns: int, former_owner: str | None, amount: Resources) -> bool:
        """One of its containers has left, which makes so much free; returns whether that can be given out."""
        if self.state is NodeState.ALIVE:
            self._add(now_ns, former_owner, amount)
        return self.state is NodeState.ALIVE

    @property
    def is_free(self) -> bool:
        """Whether there is something to give out."""
        return any(self.free) or self._left_nothing > 0

    def has_free(self, work: Work) -> bool:
        """Whether a container of the usual size for such a task is free; with several sizes, whether anything is."""
        return self.is_free and fits(self.settings.needs(work, ()), self.free)

    def needs(self, work: Work, request: Resources, resumes: bool = False) -> Resources:
        """What a container for such a task needs of what is free; a stopped process that resumes here goes on holding a
        part of it."""
        needs = self.settings.needs(work, request)
        return self.settings.freed_by_stop(needs) if resumes else needs

    def fits(self, needs: Resources, kept: Resources = ()) -> bool:
        """Whether as much is free; ``kept``: what is free, but not for it."""
        return fits(needs, lacking(self.free, kept) if kept else self.free)

    def shortfall_of(self, needs: Iterable[Resources]) -> str:
        """What it lacks for all of these together, in words; empty: nothing."""
        wanted, names = total(needs, self.free), self.settings.has_names
        short = lacking(wanted, self.free)
        return f"{written(short, names)} of {written(wanted, names)}" if any(short) else ""

    @property
    def free_count(self) -> int:
        """Number of free containers of the usual size, as far as the scarcest resource goes; of slots of both kinds."""
        if self.settings.slots is not None:
            return sum(self.free) // PARTS
        count, has = self.settings.containers, self.settings.has
        shares = [free * count // whole for free, whole in zip(self.free, has, strict=True) if whole]
        return min(shares, default=0)

    def check_free(self) -> None:
        """Raise AssertionError if what is free and what is held are not the whole node."""
        pieces = tuple(sum(amount for *_, amount in of_one) for of_one in self._pieces)
        assert pieces == self.free == minus(self.settings.has, self.ledger.charged), self.name

    def allocate_free(self, needs: Resources) -> tuple[int, str | None]:
        """Take as much of what has been free longest; there must be as much.  Returns since when all of it has been
        free, and who held the last part of it."""
        since_ns, owner = 0, None
        if self._left_nothing and not any(needs):
            self._left_nothing -= 1
        for pieces, amount in zip(self._pieces, needs, strict=True):
            while amount:
                piece_since_ns, owner, there = pieces.popleft()
                if there > amount:
                    pieces.appendleft((piece_since_ns, owner, there - amount))
                since_ns, amount = max(since_ns, piece_since_ns), max(0, amount - there)
        self.free = minus(self.free, needs)
        return since_ns, owner

    def ended_jobs_for(self, received_id: int, heartbeat_id: int) -> tuple[str, ...]:
        """The ended jobs that the answer to a heartbeat names: those told last, unless it acknowledges them, else the
        others."""
        again = self.ended.unacknowledged(received_id)
        # Not in answer to a heartbeat that a newer, answered one has overtaken: its number may be acknowledged.
        if again is None and self.finished_jobs and heartbeat_id > self.answered_id:
            again = self.ended.send(heartbeat_id, tuple(self.finished_jobs))
            self.finished_jobs = []
        if again is None:
            return ()
        self.answered_id = max(self.answered_id, heartbeat_id)
        return again


class Requests:
    """The containers a job waits for, each with the time when its request arrived here.

    The ask in a heartbeat is absolute.  It does not include what was allocated since the job's last acknowledged
    answer, so these allocations are subtracted.
    """

    def __init__(self, groups: Iterable[TaskGroup]) -> None:
        self.application_master: int | None = None
        """When the ApplicationMaster's own container was requested; None: not requested, or already given."""
        self.since: dict[str, deque[int]] = {group.name: deque() for group in groups}
        """Those for new tasks, by their group, in the order of the groups."""
        self.resumes: dict[TaskId, tuple[ResumeAsk, int]] = {}
        """By task, in the order of resuming, with the time of the request."""
        self.avoided: frozenset[str] = frozenset()
        """Nodes on which the job wants no new tasks."""
        self.at_once = 0
        """Fewest containers that it can be given, all at one time; 0: one by one."""

    @property
    def pending(self) -> int:
        """Number of containers requested."""
        waiting = sum(map(len, self.since.values())) + len(self.resumes)
        return waiting + (self.application_master is not None)

    def wanted(self, group: str) -> int:
        """Number of containers requested for tasks of this group."""
        return len(self.since[group]) + sum(task.group == group for task in self.resumes)

    @property
    def for_any_node(self) -> int:
        """Number of requests that any node can serve; a stopped process can resume on its own node only."""
        if not self.resumes:
            return self.pending
        return self.pending - sum(resume.container is not None for resume, _ in self.resumes.values())

    def replace(self, heartbeat: ApplicationHeartbeat, undelivered: list[AllocatedContainer], now_ns: int) -> None:
        """Replace the requests by the ask of a heartbeat; a request that stays keeps its first time.

        ``undelivered``: what it was given and has not received when it said this.  If they are fewer than are of use
        together, it will give them back and say so; until then a gang is put together from all that it asks for, so
        that none is chosen without the tasks that those were for.
        """
        assert heartbeat.ask is not None
        is_of_use = len(undelivered) >= heartbeat.ask.at_once
        ask = left_of(heartbeat.ask, undelivered) if is_of_use else heartbeat.ask
        self.avoided, self.at_once = frozenset(ask.avoided), ask.at_once
        wanted = dict(ask.new)
        for group, since in self.since.items():
            count = wanted.get(group, 0)
            while len(since) > count:
                since.pop()
            since.extend([now_ns] * (count - len(since)))
        before = self.resumes
        self.resumes = {
            resume.task: (resume, before[resume.task][1] if resume.task in before else now_ns) for resume in ask.resumes
        }


@dataclass(slots=True)
class CompletedWork:
    """The work done so far by the tasks of one group."""

    work_ns: int = 0
    tasks: int = 0
    """Number of finished tasks."""

    def add(self, work_ns: int, finished: bool) -> None:
        """Add work."""
        self.work_ns += work_ns
        self.tasks += finished


@dataclass(slots=True)
class Application:
    """A job at the ResourceManager."""

    facts: JobFacts
    order: int
    submit_ns: int
    is_last: bool = False
    """Whether all jobs of the run had been submitted with it."""
    news: MasterUpdates = field(default_factory=lambda: MasterUpdates(""))
    """What its ApplicationMaster must receive."""
    admitted: bool = False
    """Whether it may have, or has requested, a container for its ApplicationMaster."""
    master: str = ""
    """Container of its current or last ApplicationMaster."""
    master_attempts: int = 0
    """Number of ApplicationMasters launched so far."""
    master_failures: int = 0
    """ApplicationMasters that ended before the job, except those lost with their node."""
    requests: Requests = field(init=False)
    master_request: Resources = ()
    """What its ApplicationMaster asks for; empty where all containers have one size."""
    share_of_master: int = 1
    """What that takes of the maximum of its queue."""
    containers: dict[str, HeldContainer] = field(default_factory=dict)
    """Its containers that are not known to have ended."""
    nodes: dict[str, None] = field(default_factory=dict)
    """All nodes that have had one of its containers."""
    slots: int = 0
    """Containers held, including its ApplicationMaster's; those of stopped processes do not count."""
    held: Counter[str] = field(default_factory=Counter)
    """Containers held, by the name of the group."""
    done: dict[str, CompletedWork] = field(init=False)
    """Work done by its tasks, by the name of their group."""
    tasks_hold: Resources = ()
    """What the containers of its tasks hold together; empty where all containers have one size."""
    requested: Resources = ()
    """What it asks for beside that."""
    requested_anywhere: dict[str, int] = field(default_factory=dict)
    """See ``count_requested``; empty where all containers have one size."""
    sizes: set[Resources] = field(default_factory=set)
    """Those of the containers that it may get now; of none: for the capacity of a stopped process."""
    victims: dict[str, HeldContainer] = field(default_factory=dict)
    """By container: tasks in a slot, of the groups that can be victims."""
    reclaimed: int = 0
    """Number of these tasks reclaimed by name."""
    last_heartbeat_id: int = -1
    last_heartbeat_ns: int | None = None
    """When its ApplicationMaster was first heard from."""
    progress_ppm: int | None = None
    """As last reported."""
    view: JobView | None = field(default=None, compare=False)
    """The last view that policies saw; None if anything has changed since."""
    groups: dict[str, TaskGroup] = field(init=False)
    """Its tasks and its ApplicationMaster, by the name of the group."""
    for_shuffle: tuple[TaskGroup, ...] = field(init=False)
    """Its groups that write output for the shuffle; the job's other tasks wait for them."""
    others: tuple[TaskGroup, ...] = field(init=False)
    """Its groups that walk keys."""
    name: str = field(init=False)
    """Name of the job."""
    queue: str = field(init=False)
    """The queue it was submitted to."""

    def __post_init__(self) -> None:
        groups, self.name, self.queue = self.facts.groups, self.facts.name, self.facts.queue
        self.groups = {group.name: group for group in (*groups, MASTER_GROUP)}
        self.for_shuffle = tuple(group for group in groups if group.work is Work.SHUFFLE)
        self.others = tuple(group for group in groups if group.work is Work.KEYS)
        self.requests = Requests(groups)
        self.done = {name: CompletedWork() for name in self.groups}

    def of_work(self, works: Container[Work]) -> list[TaskGroup]:
        """Its groups that do this, in order."""
        return [group for group in (*self.for_shuffle, *self.others) if group.work in works]

    @property
    def members(self) -> int:
        """Tasks that hold a container, without those reclaimed by name."""
        return self.slots - self.held[MASTER] - self.reclaimed

    @property
    def must_start_whole(self) -> bool:
        """Whether it can use no single container: a gang of which no task has one."""
        return self.facts.gang is not None and self.slots == self.held[MASTER]

    @property
    def is_evicted_whole(self) -> bool:
        """Whether it gives all its containers when it must give one: a gang that would be too small without it."""
        return self.facts.gang is not None and self.members <= self.facts.gang

    @property
    def protected_until_ns(self) -> list[int]:
        """When each task that can be a victim has run for its job's minimum."""
        return [held.slot_ns + self.facts.minimum_runtime_ns for held in self.victims.values() if not held.is_reclaimed]

    def reclaimable(self, now_ns: int) -> int:
        """Tasks that can be reclaimed now.  A gang that goes whole can be taken only when none of it is protected."""
        if not self.facts.minimum_runtime_ns:
            return len(self.victims) - self.reclaimed
        protected = sum(until_ns > now_ns for until_ns in self.protected_until_ns)
        return 0 if protected and self.is_evicted_whole else len(self.victims) - self.reclaimed - protected

    @property
    def maps_wait(self) -> bool:
        """Whether it wants containers for new tasks that write output for the shuffle."""
        return any(map(self.requests.since.get, map(_name, self.for_shuffle)))

    def count_requested(self) -> dict[str, int]:
        """Number of containers that it may get on any node now, by group, in the order in which it gets them.  Those of
        stopped processes have a node, so they are not counted; while maps wait, only theirs are."""
        requests, saved = self.requests, dict[str, int]()
        for task, (resume, _) in requests.resumes.items():
            saved[task.group] = saved.get(task.group, 0) + (resume.container is None)
        counts = {} if requests.application_master is None else {MASTER: 1}
        for group in self.for_shuffle if self.maps_wait else (*self.for_shuffle, *self.others):
            if count := len(requests.since[group.name]) + saved.get(group.name, 0):
                counts[group.name] = count
        return counts

    def stopped_container(self, task: TaskId | None) -> str | None:
        """The container of the stopped process that waits to resume as this task; None: there is none."""
        return None if task is None else self.requests.resumes[task][0].container

    def request_for(self, group: TaskGroup) -> Resources:
        """What a container for one of the group's tasks asks for."""
        return self.master_request if group is MASTER_GROUP else group.request

"""All messages between machines, and from executors to machines.

YARN's protocol with Natjam's additions (natjam, section 3, Figs 1 and 2), for messages lost, repeated or overtaken:

* a heartbeat carries absolute state (the whole ask, every unacknowledged report), so a later one replaces an earlier;
* the ResourceManager answers with an ``Answer`` with a rising id, and repeats it until the id comes back;
* a command to a NodeManager is idempotent by container id, and is repeated until the container's report shows it done;
* a ``ContainerReport`` is the container's whole state with a rising revision, so only the newest counts.

Addresses: ``rm``, ``client``, ``nm:<node>``, ``am:<job>``.  Times are emulated nanoseconds unless ``_real_ns``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from emulator.core.completions import Completion
from emulator.vocabulary import Frozen, JobFacts, MeasuredCosts, Mechanism, Order, Resources, Saved, TaskId, Work

RESOURCE_MANAGER = "rm"
CLIENT = "client"


def node_address(node: str) -> str:
    """Address of the NodeManager of ``node``."""
    return f"nm:{node}"


def job_address(job: str) -> str:
    """Address of the ApplicationMaster of ``job``."""
    return f"am:{job}"


class ContainerState(StrEnum):
    """A container's state at its NodeManager."""

    LAUNCHING = "launching"
    RUNNING = "running"
    SUSPENDING = "suspending"
    SUSPENDED = "suspended"
    RESUMING = "resuming"
    CHECKPOINTING = "checkpointing"
    CHECKPOINTED = "checkpointed"
    """Its work is saved; the process has not ended yet."""
    COMMITTING = "committing"
    """From here to its end it can neither be stopped nor saved."""
    KILLING = "killing"
    DONE = "done"


class Outcome(StrEnum):
    """How a container ended."""

    SUCCEEDED = "succeeded"
    CHECKPOINTED = "checkpointed"
    KILLED = "killed"
    CRASHED = "crashed"
    LAUNCH_FAILED = "launch-failed"
    LOST = "lost"


class JobState(StrEnum):
    """State of a job; killed: its scheduler has ended it as it was to end."""

    NEW = "new"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    KILLED = "killed"


class _Message(Frozen, tag=True):
    """Base of all messages: each is written with its type."""


# ---- parts of messages ----


class TaskOrder(Frozen):
    """What to do with one task of a job."""

    task: TaskId
    order: Order
    container: str | None = None
    """Container of the attempt it applies to; None: whichever attempt exists."""
    why: str = "ordered"


class ContainerReport(Frozen):
    """Everything a NodeManager knows about one container; a report with a higher ``revision`` replaces a lower one."""

    container: str
    job: str
    group: str
    node: str
    revision: int
    state: ContainerState
    refusals: int = 0
    """How often suspending it was refused or failed."""
    saved: Saved | None = None
    outcome: Outcome | None = None
    reason: str = ""
    ready_ns: int = 0
    """The later of: request at the ResourceManager, container free (start of the schedule or resume overhead)."""
    first_key_ns: int | None = None
    input_ready_ns: int | None = None
    suspend_asked_ns: int | None = None
    """When the ApplicationMaster asked the task to suspend (start of the suspend overhead)."""
    keys_done: int = 0
    """Key counter when it ended or stopped."""
    memory_bytes: int | None = None
    """Memory that its task uses; None: unknown."""
    job_knows: bool = False
    """Whether its ApplicationMaster has acknowledged its end, so that the ResourceManager need not tell it."""


class ResumeAsk(Frozen):
    """A container wanted for a suspended task; ``image_bytes``: size of the process image it resumes from, if any."""

    task: TaskId
    node: str
    """The node where it was suspended."""
    suspended_ns: int
    container: str | None = None
    """Set if the stopped process itself resumes; it can do so on its own node only."""
    image_bytes: int = 0


class Ask(Frozen):
    """All containers that a job still wants, apart from those in the answers that the heartbeat acknowledges."""

    new: tuple[tuple[str, int], ...] = ()
    """Pairs (group, how many new tasks of it wait), in the order of the groups, without those where none waits."""
    resumes: tuple[ResumeAsk, ...] = ()
    avoided: tuple[str, ...] = ()
    """Nodes where the job wants no new task, because too much has failed there."""
    at_once: int = 0
    """Fewest containers that are of use to it, all given at one time; 0: each is of use by itself."""


class AllocatedContainer(Frozen):
    """A container given to a job; ``registration`` is that of its node, then."""

    container: str
    group: str
    node: str
    ready_ns: int
    task: TaskId | None = None
    """The suspended task that gets it; None: a new task of the group."""
    registration: int = 0
    beside: int = 0
    """How many other jobs start in the same pass of the scheduler."""


class AllocateResponse(Frozen):
    """News from the ResourceManager for one ApplicationMaster; repeated until its id is acknowledged."""

    id: int
    allocated: tuple[AllocatedContainer, ...] = ()
    finished: tuple[ContainerReport, ...] = ()
    reclaim: int = 0
    """Number of containers to give back (natjam step 4)."""
    named: tuple[str, ...] = ()
    """Containers to give back that the ResourceManager has chosen itself."""
    device_queues: tuple[tuple[str, int], ...] = ()
    """Pairs of some of ``named`` and the time that an image of them waits for the device of its node."""
    keeps: tuple[tuple[str, Resources], ...] = ()
    """Where containers have several sizes: of each node on which the job owes something, the most that its tasks may go
    on holding there; of others it may keep all that it has."""
    withdrawn: int = 0
    """How many of those asked back before are no longer wanted, because a container was killed instead."""
    lost_nodes: tuple[str, ...] = ()
    costs: MeasuredCosts | None = None
    orders: tuple[TaskOrder, ...] = ()
    """Orders about single tasks, in order."""


# ---- client and ResourceManager ----


class SubmitJob(_Message):
    """Client to ResourceManager."""

    facts: JobFacts
    is_last: bool = False
    """Whether all jobs of the run have been submitted."""

    @property
    def job(self) -> str:
        """Name of the job."""
        return self.facts.name


class JobFinished(_Message):
    """ResourceManager to client; ``finish_ns``: the durable commit, as the ApplicationMaster reports it."""

    job: str
    state: JobState
    finish_ns: int
    reason: str = ""


class ProgressReached(_Message):
    """ResourceManager to client: a job has reached a mark that another job's submission may wait for."""

    job: str
    progress_ppm: int
    """Share of its work that is done, in millionths; 1,000,000: it has ended."""


class OrderTask(_Message):
    """A user, through the driver, to ResourceManager."""

    job: str
    order: TaskOrder


# ---- heartbeats ----


class NodeHeartbeat(_Message):
    """NodeManager to ResourceManager (natjam step 10)."""

    node: str
    id: int
    """About the time when it was made; a heartbeat with content has a larger id than all before it."""
    freed: tuple[ContainerReport, ...] = ()
    """Containers that ended or stopped, not yet acknowledged."""
    heard_id: int = -1
    """Id of the last response with news."""
    registration: int = 0
    """From this instant on the node has nothing of what was there before: it was restarted, or emptied."""

    @property
    def is_empty(self) -> bool:
        """Whether it reports nothing."""
        return not self.freed


class NodeHeartbeatResponse(_Message):
    """ResourceManager to NodeManager; acknowledges all heartbeats up to ``id``."""

    id: int
    finished_jobs: tuple[str, ...] = ()
    """Jobs that have ended: their local files and records can be removed.  Repeated until acknowledged, in answers to
    heartbeats that report something: a heartbeat is not worth making only to remove files."""
    shut_down: bool = False
    """The node was given up: whatever still runs there has been replaced and must end."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no news."""
        return not self.finished_jobs and not self.shut_down


class ApplicationHeartbeat(_Message):
    """ApplicationMaster to ResourceManager (natjam steps 1 and 11)."""

    job: str
    id: int
    answer_id: int
    """Id of the last answer applied."""
    ask: Ask | None = None
    """None: unchanged since the last acknowledged ask, but for what answers have given."""
    final_state: JobState | None = None
    finish_ns: int | None = None
    reason: str = ""
    progress_ppm: int | None = None
    """Progress of the job (``application_master.job_progress``); None if no policy reads it, or without an ask."""
    marks: int = 0
    """How many marks of its job it has passed (``emulator.core.resource_manager.triggers``)."""
    container: str = ""
    """The ApplicationMaster's; one whose node was taken for dead may still be there beside the next."""

    @property
    def is_empty(self) -> bool:
        """Whether it only repeats what is known."""
        return self.ask is None and self.final_state is None


class ApplicationHeartbeatResponse(_Message):
    """ResourceManager to ApplicationMaster; acknowledges all heartbeats up to ``id``."""

    id: int
    answer: AllocateResponse | None = None
    ended: bool = False
    """The ResourceManager has recorded the job's final state."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no news."""
        return self.answer is None and not self.ended


# ---- commands to a NodeManager and its reports ----


class StartContainer(_Message):
    """ApplicationMaster to NodeManager (for the master's own container, ResourceManager): natjam step 12."""

    container: str
    job: str
    group: str
    task: int
    attempt: str
    ready_ns: int
    saved: Saved | None = None
    start_measured: bool = False
    """Whether the task's length includes the start of its process."""
    memory_bytes: int | None = None
    """Memory that the task uses; None: unknown, and it is charged with its whole container."""
    registration: int = 0
    """The registration of the node that is meant."""
    work: Work = Work.KEYS
    """What its process does."""
    request: Resources = ()
    """What the container may use of its node."""
    beside: int = 0
    """See ``AllocatedContainer``."""


class SuspendContainer(_Message):
    """ApplicationMaster to NodeManager, at the task's own heartbeat: natjam step 6."""

    container: str
    mechanism: Mechanism
    asked_ns: int


class ResumeContainer(_Message):
    """ApplicationMaster to NodeManager: resume the stopped process."""

    container: str
    ready_ns: int


PREEMPTED = "preempted by name"
"""Why the ResourceManager has a container killed that a scheduler or a policy named."""


class KillContainer(_Message):
    """To a NodeManager: SIGTERM, SIGKILL ``grace_ns`` later; the container stays taken ``stays_ns`` after its end."""

    container: str
    job: str
    why: str
    stays_ns: int = 0
    grace_ns: int = 0


class MapOutputs(_Message):
    """ApplicationMaster to NodeManager: all maps are done; their outputs are on these nodes."""

    job: str
    version: int
    nodes: tuple[str, ...]
    """Node of map i's output at position i."""


class MapOutputsReceived(_Message):
    """NodeManager to ApplicationMaster; ``registration`` is that of its node, then."""

    node: str
    version: int
    registration: int = 0


class ContainerReported(_Message):
    """NodeManager to ApplicationMaster: steps 8 and 9, and every other change of a container."""

    report: ContainerReport


class EndReceived(_Message):
    """ApplicationMaster to NodeManager: it knows that this container has ended."""

    container: str


# ---- from the driver ----


class Start(_Message):
    """The machine starts: the first message of every machine; sent again after a restore from its journal."""

    container: str | None = None  # of an ApplicationMaster, its own


class Tick(_Message):
    """The time of the machine's heartbeat, or of the Preemptor's period, has come; ``due_ns`` is the intended time."""

    due_ns: int


class TimerFired(_Message):
    """A timer set by this machine has fired; ``due_ns`` is the intended time."""

    name: str
    generation: int
    due_ns: int


class NodeLost(_Message):
    """The driver knows that a node is gone (its host process has died)."""

    node: str
    reason: str = ""


class ProgressSamples(_Message):
    """Answer to ``ReadProgress``: what the task heartbeats since the last reading have said."""

    samples: tuple[tuple[str, tuple[tuple[int, int], ...]], ...]
    """(container, ((instant_ns, keys_done), ...)) in order of time."""


class FetchFailed(_Message):
    """From a reduce to its ApplicationMaster: it cannot have the output of a map and waits until that has run again.
    It is said again until other outputs come (natjam has it from Hadoop's shuffle)."""

    container: str
    map: int
    version: int  # of the map outputs that it knew (``MapOutputs``)
    reason: str


Message: TypeAlias = (
    SubmitJob
    | JobFinished
    | ProgressReached
    | OrderTask
    | NodeHeartbeat
    | NodeHeartbeatResponse
    | ApplicationHeartbeat
    | ApplicationHeartbeatResponse
    | StartContainer
    | SuspendContainer
    | ResumeContainer
    | KillContainer
    | MapOutputs
    | MapOutputsReceived
    | ContainerReported
    | EndReceived
    | Start
    | Tick
    | TimerFired
    | NodeLost
    | ProgressSamples
    | Completion
    | FetchFailed
)
"""All messages there are."""

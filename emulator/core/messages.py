"""Everything that machines say to each other, and that executors say to them.

The protocol is YARN's with Natjam's additions (natjam, section 3, Figs 1 and 2).  It is built so that each message may
be lost, repeated, delayed or overtaken:

* a heartbeat carries absolute state (the whole ask, every unacknowledged report), so a later one replaces an earlier;
* the ResourceManager answers with an ``Answer`` under an increasing id and repeats it until the id comes back;
* a command to a NodeManager is idempotent by container id and is repeated until the container's report shows it done;
* a ``ContainerReport`` is the container's whole state under an increasing revision, so only the newest counts.

Addresses: ``rm``, ``client``, ``nm:<node>``, ``am:<job>``.  Times are emulated nanoseconds unless ``_real_ns``.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, TypeAlias

from emulator.core.completions import (
    Checkpointed,
    CheckpointFailed,
    Committing,
    Exited,
    FirstKey,
    Killed,
    KillFailed,
    Launched,
    LaunchFailed,
    Resumed,
    ResumeFailed,
    Suspended,
    SuspendFailed,
)
from emulator.core.saved import Saved
from emulator.vocabulary import Frozen, JobFacts, Kind, MeasuredCosts, Mechanism, Order

RESOURCE_MANAGER = "rm"
CLIENT = "client"


def node_address(node: str) -> str:
    """Address of the NodeManager of ``node``."""
    return f"nm:{node}"


def job_address(job: str) -> str:
    """Address of the ApplicationMaster of ``job``."""
    return f"am:{job}"


class ContainerState(str, Enum):
    """A container's state at its NodeManager."""

    LAUNCHING = "launching"
    RUNNING = "running"
    SUSPENDING = "suspending"
    SUSPENDED = "suspended"
    RESUMING = "resuming"
    CHECKPOINTING = "checkpointing"
    CHECKPOINTED = "checkpointed"
    """Its work is saved; the process has still to end."""
    COMMITTING = "committing"
    """From here to its end it can neither stop nor be saved."""
    KILLING = "killing"
    DONE = "done"


class Outcome(str, Enum):
    """How a container ended."""

    SUCCEEDED = "succeeded"
    CHECKPOINTED = "checkpointed"
    KILLED = "killed"
    CRASHED = "crashed"
    LAUNCH_FAILED = "launch-failed"
    LOST = "lost"


class JobState(str, Enum):
    """State of a job at its ApplicationMaster."""

    NEW = "new"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class _Message(Frozen, tag=True):
    """Base of all messages: each is written under its type."""


# ---- parts of messages ----


class TaskId(NamedTuple):
    """One task of a job."""

    kind: Kind
    number: int


class TaskOrder(Frozen):
    """What is to be done to one task of a job."""

    task: TaskId
    order: Order
    container: str | None = None
    """Of the one attempt that is meant; None: of whichever there is."""
    why: str = "ordered"


class ContainerReport(Frozen):
    """All that a NodeManager knows of one container; a higher ``revision`` replaces a lower."""

    container: str
    job: str
    kind: Kind
    node: str
    revision: int
    state: ContainerState
    refusals: int = 0
    """How often a suspend of it has been refused or has failed."""
    saved: Saved | None = None
    outcome: Outcome | None = None
    reason: str = ""
    ready_ns: int = 0
    """The later of request at the ResourceManager and container free (start of the schedule or resume overhead)."""
    first_key_ns: int | None = None
    input_ready_ns: int | None = None
    suspend_asked_ns: int | None = None
    """When the ApplicationMaster asked the task to suspend (start of the suspend overhead)."""
    keys_done: int = 0
    """Key counter at the end, or at the stop."""
    memory_bytes: int | None = None
    """That its task holds; None: nothing is known of it."""


class ResumeAsk(Frozen):
    """A container wanted for a suspended task; ``image_bytes``: of the process image that it goes on from, if any."""

    task: TaskId
    node: str
    """Where it was suspended."""
    suspended_ns: int
    container: str | None = None
    """Set when the stopped process itself is to go on: only its own node will do."""
    image_bytes: int = 0


class Ask(Frozen):
    """All containers a job still wants, beyond those in the answers it has acknowledged."""

    maps: int = 0
    reduces: int = 0
    resumes: tuple[ResumeAsk, ...] = ()
    avoided: tuple[str, ...] = ()
    """Nodes on which nothing new is wanted, because too much has failed there."""


class AllocatedContainer(Frozen):
    """A container given to a job."""

    container: str
    kind: Kind
    node: str
    ready_ns: int
    task: TaskId | None = None
    """The suspended task it is for; None for a new map or reduce."""


class Answer(Frozen):
    """News from the ResourceManager for one ApplicationMaster; repeated until its id is acknowledged."""

    id: int
    allocated: tuple[AllocatedContainer, ...] = ()
    finished: tuple[ContainerReport, ...] = ()
    reclaim: int = 0
    """Number of containers to be given back (natjam step 4)."""
    named: tuple[str, ...] = ()
    """Containers to be given back that the ResourceManager has chosen itself."""
    withdrawn: int = 0
    """Of those asked for in earlier answers: no longer wanted, because a container has been killed instead."""
    lost_nodes: tuple[str, ...] = ()
    costs: MeasuredCosts | None = None
    orders: tuple[TaskOrder, ...] = ()
    """About single tasks, the first first."""


# ---- client and ResourceManager ----


class SubmitJob(_Message):
    """Client to ResourceManager."""

    facts: JobFacts

    @property
    def job(self) -> str:
        """Its name."""
        return self.facts.name


class JobFinished(_Message):
    """ResourceManager to client; ``finish_ns`` is the durable commit as the ApplicationMaster reports it."""

    job: str
    state: JobState
    finish_ns: int
    reason: str = ""


class ProgressReached(_Message):
    """ResourceManager to client: a job has passed a mark that another's submission may wait for."""

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
    """About the instant it was made; one that reports something has a greater one than all before it."""
    freed: tuple[ContainerReport, ...] = ()
    """Containers ended or stopped, not yet acknowledged."""
    heard_id: int = -1
    """The last response that had news in it."""

    @property
    def says_nothing(self) -> bool:
        """Whether it reports nothing."""
        return not self.freed


class NodeHeartbeatResponse(_Message):
    """ResourceManager to NodeManager; acknowledges all heartbeats up to ``id``."""

    id: int
    finished_jobs: tuple[str, ...] = ()
    """Jobs that have ended: their local files and records can go.  Repeated until heard."""
    shut_down: bool = False
    """The node has been given up: whatever still runs there has been replaced and must end."""

    @property
    def says_nothing(self) -> bool:
        """Whether it has no news."""
        return not self.finished_jobs and not self.shut_down


class ApplicationHeartbeat(_Message):
    """ApplicationMaster to ResourceManager (natjam steps 1 and 11)."""

    job: str
    id: int
    answer_id: int
    """The last answer applied."""
    ask: Ask | None = None
    """None: unchanged since the last one acknowledged."""
    final_state: JobState | None = None
    finish_ns: int | None = None
    reason: str = ""
    progress_ppm: int | None = None
    """How far the job is (``emulator.core.job_progress``); None where no policy in use reads it, or with no ask."""
    marks: int = 0
    """How many of the marks of its job it has passed (``emulator.core.triggers``)."""

    @property
    def says_nothing(self) -> bool:
        """Whether it repeats what is known."""
        return self.ask is None and self.final_state is None


class ApplicationHeartbeatResponse(_Message):
    """ResourceManager to ApplicationMaster; acknowledges all heartbeats up to ``id``."""

    id: int
    answer: Answer | None = None
    ended: bool = False
    """The job's final state has been taken note of."""

    @property
    def says_nothing(self) -> bool:
        """Whether it has no news."""
        return self.answer is None and not self.ended


# ---- commands to a NodeManager and its reports ----


class StartContainer(_Message):
    """ApplicationMaster (for its own container the ResourceManager) to NodeManager: natjam step 12."""

    container: str
    job: str
    kind: Kind
    task: int
    attempt: str
    ready_ns: int
    saved: Saved | None = None
    start_measured: bool = False
    """The task's length has the start of its process in it."""
    memory_bytes: int | None = None
    """That the task holds; None: nothing is known of it, and it is charged with all of its container."""


class SuspendContainer(_Message):
    """ApplicationMaster to NodeManager, at the task's own heartbeat: natjam step 6."""

    container: str
    mechanism: Mechanism
    asked_ns: int


class ResumeContainer(_Message):
    """ApplicationMaster to NodeManager: let the stopped process go on."""

    container: str
    ready_ns: int


class KillContainer(_Message):
    """ResourceManager or ApplicationMaster to NodeManager."""

    container: str
    job: str
    why: str


class MapOutputs(_Message):
    """ApplicationMaster to NodeManager: all maps are done, and this is where their outputs lie."""

    job: str
    version: int
    nodes: tuple[str, ...]
    """Node of map i's output at position i."""


class MapOutputsReceived(_Message):
    """NodeManager to ApplicationMaster."""

    node: str
    version: int


class ContainerReported(_Message):
    """NodeManager to ApplicationMaster: steps 8 and 9, and every other change of a container."""

    report: ContainerReport


# ---- from the driver ----


class Start(_Message):
    """The machine is on: first message of every machine, and again when it has been restored from its journal."""

    container: str | None = None
    """Its own, which an ApplicationMaster is told."""


class Tick(_Message):
    """The instant of the machine's heartbeat, or of the Preemptor's period, has come; ``due_ns`` is when it should."""

    due_ns: int


class TimerFired(_Message):
    """A timer set by this machine; ``due_ns`` is when it should have fired."""

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

    Said again until other outputs come (natjam has it from Hadoop's shuffle).
    """

    container: str
    map: int
    version: int
    """Of the map outputs it knew (``MapOutputs``)."""
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
    | Start
    | Tick
    | TimerFired
    | NodeLost
    | ProgressSamples
    | Launched
    | LaunchFailed
    | Suspended
    | SuspendFailed
    | Resumed
    | ResumeFailed
    | Checkpointed
    | CheckpointFailed
    | Killed
    | KillFailed
    | FirstKey
    | Committing
    | Exited
    | FetchFailed
)
"""All messages there are."""

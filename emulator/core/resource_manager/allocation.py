"""Allocation: the strategy that says who gets a container, and from whom one is reclaimed.

Theory of operation
-------------------
A strategy is asked on an *occasion*: a node's heartbeat, an arrival, a freed container, its own time.  It answers
with decisions, one after another; each is carried out before the next is made, so it sees what it has done.  There are
four: a *grant* gives a container of a node to a request; a *contract* asks a job for a container, or for so much of a
node, and the job's ApplicationMaster chooses which, unless tasks are ranked across jobs; a *strict contract* names the
container, which counts as gone from then on; to *cancel* a job is to end it, as Slurm does under PreemptMode=CANCEL.
(Contracts are YARN's words, of its PreemptionMessage.)  Contracts are kept, or enforced, by
``emulator.core.resource_manager.contracts``.

A strategy has a direction.  YARN's and Natjam's answer the offer of a node's heartbeat
(``emulator.core.resource_manager.offers``).  The schedulers that people run, and a process outside, choose a node for
each request when its time has come (``by_scheduler``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from emulator.core.completions import ExternalDecisions
from emulator.core.effects import Effect
from emulator.core.machine import Symbol
from emulator.core.messages import JobState, TimerFired
from emulator.core.resource_manager.applications import Application, HeldContainer, Node
from emulator.vocabulary import Resources, TaskGroup, TaskId


class SchedulerEventType(Symbol):
    """Why an allocation is asked."""

    START = "the ResourceManager starts, perhaps again, after a restore"
    MESSAGE = "a timer that it has set has fired, or the process outside that it has asked has answered"

    HEARTBEAT = "the heartbeat of a node"
    ARRIVAL = "a request has come in"
    FREED = "a container has become free"
    CAPACITY = "the number of containers that jobs may hold has changed"
    TIME = "its own time has come"


class SchedulerEvent(NamedTuple):
    """One question to an allocation."""

    type: SchedulerEventType
    now_ns: int
    node: Node | None = None
    """The node that sent the heartbeat."""
    planned_ns: int = 0
    """When its own time was planned for; a driver may be late."""
    message: TimerFired | ExternalDecisions | None = None
    """The message that is for it."""


class Grant(NamedTuple):
    """A container of ``node`` goes to a request of a job."""

    application: Application
    group: TaskGroup
    node: Node
    task: TaskId | None = None
    """The suspended task that resumes in it; None: a new task of the group, or the ApplicationMaster."""
    beside: int = 0
    """See ``GrantContainer``."""


class Contract(NamedTuple):
    """The job ``victim`` must give a container for ``requester``: of its own choice, or the one named; or containers on
    ``node``, of its own choice, that make free at least ``amount``."""

    requester: str
    victim: str
    container: str | None = None
    queue_ns: int = 0
    """How long an image of the container named waits for the device of its node."""
    node: str = ""
    amount: Resources = ()
    """How much of the node; empty: a container, on any node."""


class StrictContract(NamedTuple):
    """This container must be given."""

    held: HeldContainer
    release_delay_ns: int = 0
    """How long it stays taken after its process has been killed."""
    queue_ns: int | None = None
    """How long an image of it waits for the device of its node, if that is counted."""


AS_IT_WAS_TO_END = "its scheduler has ended the job as it was to end"
"""Why a process was killed whose work counts."""
JOB_ENDED = "the job has ended"
"""Why others of a job that has ended were killed."""


class Cancel(NamedTuple):
    """The job ends."""

    application: Application
    why: str
    state: JobState = JobState.FAILED
    """The state in which the job ends."""
    loses: bool = True
    """Whether the work of its processes is lost."""

    @property
    def why_killed(self) -> str:
        """The reason that its processes are given."""
        return JOB_ENDED if self.loses else AS_IT_WAS_TO_END


Decision = Grant | Contract | StrictContract | Cancel


class Allocation(Protocol):
    """What the ResourceManager asks; see the module's theory of operation."""

    @property
    def changes(self) -> int:
        """Grows when it remembers something new, so that the message which led to it is not left out."""
        ...

    def due_ns(self, event_type: SchedulerEventType, now_ns: int) -> int | None:
        """From when on it must be asked on such an occasion; None: not unless something changes.  Never too late."""
        ...

    def decide(self, event: SchedulerEvent) -> Iterator[Decision]:
        """What is given and reclaimed now.  Raises PolicyError."""
        ...

    def explain(self) -> list[Effect]:
        """Why, of what was decided since the last call."""
        ...

"""The protocol of schedulers: of those that natjam has, and of a process outside.

Theory of operation
-------------------
A scheduler is notified of events, decides, and says until when its decisions hold.  What it has decided is an event
when it has been done: a container was given, or is gone.  To a process each event and each decision is one JSON object
a line (``docs/outside.md``).  Times are emulated nanoseconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, ClassVar, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from emulator.vocabulary import Details, Frozen

VERSION = 1
"""The version of the lines; it grows when a line changes its meaning."""


Amounts: TypeAlias = dict[str, int]
"""Amounts of resources, by their names, in thousandths."""


class _Event(Frozen, tag_field="event"):
    """Base of what has happened."""


class QueueFacts(Frozen):
    """A queue, in containers, or in millionths of a cluster of several sizes; the first is the most urgent."""

    queue: str
    capacity: int
    maximum: int


class SchedulerStarted(_Event, tag="begin"):
    """The first event; whatever was before is void."""

    version: int
    seed: int
    queues: tuple[QueueFacts, ...]
    master_resources: Amounts = msgspec.field(default_factory=dict)
    """What an ApplicationMaster in a container asks for, where containers have several sizes."""
    suspended_hold: tuple[str, ...] = ()
    """The resources that a stopped process goes on holding, if the mechanism may stop one."""
    mechanism: str = ""
    """``scheduler.mechanism``: what happens to what is reclaimed."""
    resources: tuple[str, ...] = ()
    """The names of the resources of the nodes, where containers have several sizes."""


class NodeAdded(_Event, tag="node-up"):
    """A node is there; all of it is free."""

    node: str
    rack: str
    containers: int
    """The containers of the usual size, where they have several."""
    resources: Amounts = msgspec.field(default_factory=dict)
    """What it has, where containers have several sizes."""
    labels: dict[str, str] = msgspec.field(default_factory=dict)


class NodeRemoved(_Event, tag="node-lost"):
    """A node is gone with all that was there; the ends of its containers are told as well."""

    node: str


class NodeHeartbeat(_Event, tag="node-heartbeat"):
    """A node reports; what has ended there is told before.  A scheduler is notified of it if it has asked for that."""

    node: str


class Capacity(_Event, tag="capacity"):
    """So many containers may be held by jobs from now on."""

    containers: int


class GroupFacts(Frozen):
    """A group of tasks of a job."""

    group: str
    tasks: int
    may_be_victim: bool
    resources: Amounts = msgspec.field(default_factory=dict)
    """What each of them asks for, where containers have several sizes."""


class JobSubmitted(_Event, tag="job-submitted"):
    """A job has been submitted."""

    job: str
    queue: str
    priority: int
    groups: tuple[GroupFacts, ...]
    deadline_ns: int | None
    submitted_ns: int
    checkpoint_period_ns: int | None = None
    """How often its tasks save by themselves, if they do."""
    minimum_runtime_ns: int = 0
    """How long they run, once they are given room, before they may be reclaimed."""
    grace_ns: int = 0
    """How long a task that is killed may go on after SIGTERM."""
    details: Details | None = None
    """What it is to the kind of scheduler that decides, if its file says."""
    is_last: bool = False
    """Whether all jobs of the run have been submitted."""
    master_resources: Amounts = msgspec.field(default_factory=dict)
    """What its ApplicationMaster asks for, if not what those of other jobs do."""


class Suspended(Frozen):
    """A suspended task that waits for a container."""

    group: str
    task: int
    node: str
    """Where it was suspended."""
    only_there: bool
    """Whether its process is stopped there, so that it can resume there only."""
    container: str = ""
    """The container of that process, which may not be known to have stopped yet."""


class JobRequests(_Event, tag="job-waits"):
    """The containers that a job waits for from now on."""

    job: str
    am: int
    """1 if its ApplicationMaster waits for one."""
    new: dict[str, int]
    """By group: how many new tasks do."""
    suspended: tuple[Suspended, ...]
    avoids: tuple[str, ...]
    """Nodes where it wants no new task."""
    at_once: int
    """How many of these a gang needs at once, in one answer; else 0."""


class JobEnded(_Event, tag="job-ended"):
    """A job has ended; the ends of containers that it still holds are told later."""

    job: str


class ContainerStarted(_Event, tag="container-started"):
    """A container has been given; or the stopped process in it goes on."""

    container: str
    job: str
    group: str
    """``am``: its ApplicationMaster."""
    node: str
    task: int | None
    """The number of a task that was suspended; None: a new one, which the job chooses."""


class ContainerStopped(_Event, tag="container-stopped"):
    """The process in a container has been stopped: what it had of its node is free, except what it ``holds``."""

    container: str
    job: str
    node: str
    holds: Amounts = msgspec.field(default_factory=dict)


class ContainerEnded(_Event, tag="container-ended"):
    """A container has ended, and is free."""

    container: str
    job: str
    node: str


class DecisionRejected(_Event, tag="void"):
    """A decision could not be carried out because of what had happened before it came; nothing was changed."""

    line: int
    why: str


class Decide(_Event, tag="decide"):
    """The question to a process: it has been notified of all that has happened up to now."""

    question: int
    time_ns: int


Event: TypeAlias = (
    SchedulerStarted
    | NodeAdded
    | NodeRemoved
    | NodeHeartbeat
    | Capacity
    | JobSubmitted
    | JobRequests
    | JobEnded
    | ContainerStarted
    | ContainerStopped
    | ContainerEnded
    | DecisionRejected
    | Decide
)
"""All that a scheduler is notified of."""


class _Decision(Frozen, tag_field="decision"):
    """Base of the decisions."""


class GrantContainer(_Decision, tag="grant"):
    """A container of ``node`` for a job."""

    job: str
    node: str
    group: str | None = None
    """``am``: for its ApplicationMaster; None: for that first, then for tasks as the job asks for them."""
    task: int | None = None
    """The suspended task, of ``group``, that resumes in it."""
    beside: Annotated[int, msgspec.Meta(ge=0, le=10**9)] = 0
    """How many other jobs start in the same pass: by an overhead profile's ``launch_more_s``, launches take longer."""
    why: str = ""
    """For the journal: the first line in short, then node by node or as it likes."""


class ReclaimFromJob(_Decision, tag="contract"):
    """The job ``victim`` must give a container, of its own choice, for the job ``requester``."""

    victim: str
    requester: str


class ReclaimContainer(_Decision, tag="strict-contract"):
    """This container must be given."""

    container: str
    stays_ns: Annotated[int, msgspec.Meta(ge=0, le=10**18)] = 0
    """How long it stays taken after its process has been killed: the grace of a pod, the release of a quota."""
    requester: str | None = None
    """For the journal: the job that it is taken for."""
    why: str = ""
    """For the journal: the first line in short, then node by node or as it likes."""


class CancelJob(_Decision, tag="cancel"):
    """The job ends; what it holds is killed."""

    job: str
    why: str = "cancelled by its scheduler"
    fails: bool = True
    """Whether it has failed; False: it was to end like this."""
    loses: bool = False
    """Whether what it has done is lost although it has not failed: it was preempted."""


class ExplainWait(_Decision, tag="explain-wait"):
    """Why a job still waits that could start by other rules; for the journal, it changes nothing."""

    job: str
    why: str = ""
    """Empty: it does not wait for that any more."""


class Done(_Decision, tag="done"):
    """The last line of every answer."""

    question: int
    again_ns: int | None = None
    """Ask again then, even if nothing has happened."""


SchedulerDecision: TypeAlias = GrantContainer | ReclaimFromJob | ReclaimContainer | CancelJob | ExplainWait | Done
"""All that a scheduler decides, and the end of a process' answer."""


class Cycle(NamedTuple):
    """What a cycle of a scheduler has decided about jobs, before anything of it is done."""

    decisions: Sequence[object]
    """As its rules have them, with reasons; first those of the cycles just before that have changed nothing."""
    starts: Mapping[str, Sequence[str]] = {}
    """Jobs that are to be on nodes, and the node of each task."""
    victims: Mapping[str, str] = {}
    """Jobs that are to leave their nodes, or have to after their grace, and for whom, as the rules name it."""


class Answer(NamedTuple):
    """What a scheduler decides."""

    decisions: Sequence[SchedulerDecision] = ()
    """Each is carried out before the next one is looked at."""
    valid_until_ns: int | None = None
    """The time until which they hold if nothing happens: then it decides again; None: as long as nothing happens."""
    lines: Sequence[tuple[int, str]] = ()
    """The line of each decision of an external scheduler, by its number from 1 and its text."""
    cycles: Sequence[Cycle] = ()
    """The cycles that led to the decisions, for those who look at a scheduler; not all have any."""
    heartbeats: Collection[str] | None = None
    """It is to be notified of the heartbeats of nodes with something free, and of the next ones of these nodes; None:
    of none."""
    is_no_op: bool = False
    """Whether nothing is decided, and nothing remembered."""


class Question(NamedTuple):
    """What a process outside is asked, in place of an answer: that comes later, as a message."""

    number: int
    events: tuple[Event, ...]
    """What it is notified of; the last is ``Decide``."""


ENDLESS = "it does not end by itself, and nothing else is to happen"
"""Why a scheduler ends a job that runs without end, when it is all that is left."""


class SchedulerError(Exception):
    """Why a scheduler's decisions lead nowhere."""


DetailsT = TypeVar("DetailsT", bound=Details)


def details_of(news: JobSubmitted, kind: type[DetailsT], what: str) -> DetailsT:
    """What a job is to a scheduler; ``what`` says it in a word.  Raises SchedulerError: its file does not say."""
    if not isinstance(news.details, kind):
        raise SchedulerError(f"job {news.job} has no details of a {what}; give it them in workload.jobs")
    return news.details


class Scheduler(Protocol):
    """One that decides who gets which container: the rules of one that people run, with what it remembers, or a process
    outside.  The same events lead to the same decisions."""

    outlives_restarts: ClassVar[bool] = True
    """Whether it is restored with the ResourceManager; else it is notified of everything again."""

    def notify(self, events: Sequence[Event], now_ns: int) -> Answer | Question:
        """What follows at once from what has happened since it was last notified, its own decisions included.

        If the answer holds until now, or an earlier time, it decides at this instant: after all else that happens then.
        Raises SchedulerError.
        """
        ...

    def decide(self, now_ns: int) -> Answer | Question:
        """What it decides at the time until which its last answer held, when it has been notified of all else that
        happens at this instant.  Raises SchedulerError."""
        ...


_decoder: msgspec.json.Decoder[SchedulerDecision] = msgspec.json.Decoder(SchedulerDecision)
_SHOWN_CHARACTERS = 300


class InvalidLineError(ValueError):
    """A line of a process is no decision."""


def decision_of(line: str) -> SchedulerDecision:
    """What a line of a process says.  Raises InvalidLineError with the reason."""
    try:
        return _decoder.decode(line)
    except msgspec.ValidationError as error:
        raise InvalidLineError(str(error)) from None
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidLineError(f"not JSON: {error}") from None


def shown(number: int, line: str) -> str:
    """A line for a message to the user: its number from 1, and its text."""
    text = line if len(line) <= _SHOWN_CHARACTERS else line[:_SHOWN_CHARACTERS] + "..."
    return f"line {number}: {text!r}" if not text.isprintable() else f"line {number}: {text}"


# ---- a process outside as a scheduler: it is asked in lines of JSON, and its answer comes later, as a message ----
#
# Theory of operation
# -------------------
# Whatever it is notified of, it is asked what it decides.  The driver writes the question to the process, and its lines
# come back as a message, so the journal has its decisions and a replay needs no process.


class ExternalScheduler(Scheduler):
    """Another process decides: it is notified in JSON lines of what happens, and says who gets a container of which
    node, and from whom one is reclaimed."""

    outlives_restarts: ClassVar[bool] = False

    def __init__(self) -> None:
        self._number = 0

    def notify(self, events: Sequence[Event], now_ns: int) -> Question:
        """See ``Scheduler``."""
        self._number += 1
        return Question(self._number, (*events, Decide(self._number, now_ns)))

    def decide(self, now_ns: int) -> Question:
        """See ``Scheduler``."""
        return self.notify((), now_ns)

    def answered(self, lines: Sequence[str], first_line: int, again_ns: int | None) -> Answer:
        """What its lines say, the number of the first of which is ``first_line``.  Raises SchedulerError."""
        numbered = [*enumerate(lines, start=first_line)]
        return Answer([*_decisions(numbered)], again_ns, numbered)


def _decisions(numbered: Sequence[tuple[int, str]]) -> Iterator[SchedulerDecision]:
    for number, line in numbered:
        try:
            yield decision_of(line)
        except InvalidLineError as error:
            raise SchedulerError(f"{shown(number, line)}: {error}") from None

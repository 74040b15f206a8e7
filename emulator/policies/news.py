"""What a scheduler is told, and what it may say: one that natjam has, or a process outside.

To a process each is one JSON object a line (``docs/outside.md``).  Times are emulated nanoseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from emulator.vocabulary import Details, Frozen

VERSION = 1
"""Of the lines; it grows when a line changes its meaning."""


Amounts: TypeAlias = dict[str, int]
"""Amounts of resources, by their names, in thousandths."""


class _News(Frozen, tag_field="event"):
    """Base of what has happened."""


class QueueNews(Frozen):
    """A queue, in containers, or in millionths of a cluster of several sizes; the first is the most urgent."""

    queue: str
    capacity: int
    maximum: int


class Begin(_News, tag="begin"):
    """The first line; whatever was said before is void."""

    version: int
    seed: int
    queues: tuple[QueueNews, ...]
    master_resources: Amounts = msgspec.field(default_factory=dict)
    """What an ApplicationMaster in a container asks for, where containers have several sizes."""
    suspended_hold: tuple[str, ...] = ()
    """The resources that a stopped process goes on holding, if the mechanism may stop one."""
    mechanism: str = ""
    """``scheduler.mechanism``: what happens to what is taken back."""


class NodeUp(_News, tag="node-up"):
    """A node is there; all of it is free."""

    node: str
    rack: str
    containers: int
    """Of the usual size, where they have several."""
    resources: Amounts = msgspec.field(default_factory=dict)
    """What it has, where containers have several sizes."""
    labels: dict[str, str] = msgspec.field(default_factory=dict)


class NodeGone(_News, tag="node-lost"):
    """A node is gone with all that was there; the ends of its containers are told as well."""

    node: str


class Capacity(_News, tag="capacity"):
    """So many containers may be held by jobs from now on."""

    containers: int


class GroupNews(Frozen):
    """A group of tasks of a job."""

    group: str
    tasks: int
    may_be_victim: bool
    resources: Amounts = msgspec.field(default_factory=dict)
    """What each of them asks for, where containers have several sizes."""


class JobSubmitted(_News, tag="job-submitted"):
    """A job has been submitted."""

    job: str
    queue: str
    priority: int
    groups: tuple[GroupNews, ...]
    deadline_ns: int | None
    submitted_ns: int
    checkpoint_period_ns: int | None = None
    """How often its tasks save by themselves, if they do."""
    minimum_runtime_ns: int = 0
    """How long they run, once they are given room, before they may be taken back."""
    grace_ns: int = 0
    """How long a task that is killed may go on after SIGTERM."""
    details: Details | None = None
    """What it is to the kind of scheduler that decides, if its file says."""
    is_last: bool = False
    """Whether all jobs of the run have been submitted."""


class Suspended(Frozen):
    """A suspended task that waits for a container."""

    group: str
    task: int
    node: str
    """Where it was suspended."""
    only_there: bool
    """Whether its process is stopped there, so that it can resume there only."""


class JobWaits(_News, tag="job-waits"):
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


class JobEnded(_News, tag="job-ended"):
    """A job has ended; the ends of containers that it still holds are told later."""

    job: str


class ContainerStarted(_News, tag="container-started"):
    """A container has been given; or the stopped process in it goes on."""

    container: str
    job: str
    group: str
    """``am``: its ApplicationMaster."""
    node: str
    task: int | None
    """Of a task that was suspended; None: a new one, which the job chooses."""


class ContainerStopped(_News, tag="container-stopped"):
    """The process in a container has been stopped: what it had of its node is free, except what it ``holds``."""

    container: str
    job: str
    node: str
    holds: Amounts = msgspec.field(default_factory=dict)


class ContainerEnded(_News, tag="container-ended"):
    """A container has ended, and is free."""

    container: str
    job: str
    node: str


class Void(_News, tag="void"):
    """A decision could not be carried out because of what had happened before it came; nothing was changed."""

    line: int
    why: str


class Decide(_News, tag="decide"):
    """The question: all that has happened up to now was said."""

    question: int
    time_ns: int


News: TypeAlias = (
    Begin
    | NodeUp
    | NodeGone
    | Capacity
    | JobSubmitted
    | JobWaits
    | JobEnded
    | ContainerStarted
    | ContainerStopped
    | ContainerEnded
    | Void
    | Decide
)
"""All that is told."""


class _Said(Frozen, tag_field="decision"):
    """Base of what may be said."""


class Give(_Said, tag="grant"):
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


class AskBack(_Said, tag="contract"):
    """The job ``victim`` must give a container, of its own choice, for the job ``requester``."""

    victim: str
    requester: str


class TakeBack(_Said, tag="strict-contract"):
    """This container must be given."""

    container: str
    stays_ns: Annotated[int, msgspec.Meta(ge=0, le=10**18)] = 0
    """How long it stays taken after its process has been killed: the grace of a pod, the release of a quota."""
    requester: str | None = None
    """For the journal: the job that it is taken for."""
    why: str = ""
    """For the journal: the first line in short, then node by node or as it likes."""


class CancelJob(_Said, tag="cancel"):
    """The job ends; what it holds is killed."""

    job: str
    why: str = "cancelled by its scheduler"
    fails: bool = True
    """Whether it has failed; False: it was to end like this."""
    loses: bool = False
    """Whether what it has done is lost although it has not failed: it was preempted."""


class Done(_Said, tag="done"):
    """The last line of every answer."""

    question: int
    again_ns: int | None = None
    """Ask again then, even if nothing has happened."""


Said: TypeAlias = Give | AskBack | TakeBack | CancelJob | Done
"""All lines of a process."""


class Answer(NamedTuple):
    """What a scheduler decides at one instant."""

    decisions: Sequence[Said] = ()
    """Each is carried out before the next one is looked at."""
    again_ns: int | None = None
    """When it must be asked again even if nothing has happened."""


ENDLESS = "it does not end by itself, and nothing else is to happen"
"""Why a scheduler ends a job that runs without end, when it is all that is left."""


class CannotGoOnError(Exception):
    """Why a scheduler's decisions lead nowhere."""


DetailsT = TypeVar("DetailsT", bound=Details)


def details_of(news: JobSubmitted, kind: type[DetailsT], what: str) -> DetailsT:
    """What a job is to a scheduler; ``what`` says it in a word.  Raises CannotGoOnError: its file does not say."""
    if not isinstance(news.details, kind):
        raise CannotGoOnError(f"job {news.job} has no details of a {what}; give it them in workload.jobs")
    return news.details


class Scheduler(Protocol):
    """The rules of a scheduler that people run, with what it remembers; the same news lead to the same answers."""

    def hear(self, news: Sequence[News], now_ns: int) -> Answer:
        """What follows at once from the news since it heard last, or from a time that has come.  If the answer's
        ``again_ns`` is not later than ``now_ns``, it is to decide as soon as all that happens at this instant by itself
        has been told.  ``news`` ends without a ``Decide``; what it has given or taken back itself is told next."""
        ...

    def decide(self, now_ns: int) -> Answer:
        """What it decides, when it has heard all of this instant.  Raises CannotGoOnError."""
        ...


_decoder: msgspec.json.Decoder[Said] = msgspec.json.Decoder(Said)
_SHOWN_CHARACTERS = 300


class NotSaid(ValueError):
    """A line of a process is not one of those that it may say."""


def said(line: str) -> Said:
    """What a line says.  Raises NotSaid with the reason."""
    try:
        return _decoder.decode(line)
    except msgspec.ValidationError as error:
        raise NotSaid(str(error)) from None
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise NotSaid(f"not JSON: {error}") from None


def shown(number: int, line: str) -> str:
    """A line for a message to the user: its number from 1, and its text."""
    text = line if len(line) <= _SHOWN_CHARACTERS else line[:_SHOWN_CHARACTERS] + "..."
    return f"line {number}: {text!r}" if not text.isprintable() else f"line {number}: {text}"

"""What machines order: only drivers (``emulator.live``, ``emulator.sim``) carry effects out.

The executor's contract: every effect on a container yields exactly one completion message (``Launched`` or
``LaunchFailed``, ``Suspended`` or ``SuspendFailed``, ...); an exit or crash is a message of its own.
"""

from __future__ import annotations

from typing import TypeAlias

from emulator.core.messages import Message
from emulator.policies.schedulers.protocol import Event
from emulator.policies.views import JobView, MechanismDecision, TaskView
from emulator.vocabulary import Frozen, Saved, Work


class _Effect(Frozen, tag=True):
    """Base of all effects: each is written with its type."""


class Send(_Effect):
    """Deliver ``message`` to the machine at ``to``."""

    to: str
    message: Message


class SetTimer(_Effect):
    """Deliver ``TimerFired(name, generation, at_ns)`` to the same machine at ``at_ns``."""

    name: str
    at_ns: int
    generation: int
    is_last: bool = False
    """Whether it is delivered after all else that happens at that time but ticks, and after all that this leads to."""


class ReadProgress(_Effect):
    """Answer at once with ``ProgressSamples`` of these containers of the ApplicationMaster; there may be none."""

    containers: tuple[str, ...]


class AskExternalScheduler(_Effect, tag="AskOutside", rename={"events": "news"}):
    """Notify the external scheduler, in a new process if the events begin with ``SchedulerStarted``; what it decides
    comes back in exactly one ``ExternalDecisions``."""

    question: int
    events: tuple[Event, ...]


class AllFinished(_Effect):
    """The client has seen the end of every job."""


class ExitApplication(_Effect):
    """The ApplicationMaster is done and leaves its container."""

    container: str


# ---- on containers, by NodeManagers only ----


class Launch(_Effect):
    """Start a task process (or an ApplicationMaster) in ``container``."""

    container: str
    job: str
    group: str
    task: int
    attempt: str
    first_key_at_ns: int
    """The first key (or an ApplicationMaster's work) must not start before this time; 0: it starts at once."""
    saved: Saved | None = None
    """The saved state that it resumes from."""
    memory_bytes: int | None = None
    """Emulated bytes that the task uses from start to end; None: next to none (an ApplicationMaster)."""
    work: Work = Work.KEYS
    """What the process does."""


class ProvideInput(_Effect):
    """All map outputs of ``job`` are known; for the reduces that wait here and for later ones."""

    job: str
    version: int
    nodes: tuple[str, ...]


class Suspend(_Effect):
    """SIGTSTP."""

    container: str


class Resume(_Effect):
    """SIGCONT."""

    container: str


class Checkpoint(_Effect):
    """Finish the key, save the key counter, exit."""

    container: str


class Dump(_Effect):
    """Stop the process, save it as an image, end it.  Answered like ``Checkpoint``; on failure it continues."""

    container: str


class Terminate(_Effect):
    """SIGTERM: the process may end, or go on until it is killed."""

    container: str


class Kill(_Effect):
    """SIGKILL."""

    container: str


class CleanUp(_Effect):
    """Remove the files that ``job`` has left on this node's local disk."""

    job: str


# ---- for the journal only: drivers carry out nothing ----


TRANSACTIONAL = "_transactional"
"""A requester of containers: the transactional workload; no job has a name that begins with an underscore."""


class ExplainJobEviction(_Effect):
    """Why the Preemptor asks containers back from these jobs for ``requester``."""

    requester: str
    """A job, or ``TRANSACTIONAL``."""
    rule: str
    """Name of the job eviction in the experiment."""
    victims: tuple[str, ...]
    """One job for each container, in the order of the choices; where containers have several sizes, as many as would be
    enough."""
    candidates: tuple[JobView, ...]
    """As they were at the first choice; each choice takes one container and one reclaimable task from its job."""
    left_out: int
    """Number of further candidates."""
    short: str = ""
    """Where containers have several sizes: what the requester lacks, in words, and on which node."""


class ExplainTaskEviction(_Effect):
    """Why these tasks of ``job`` must give their containers back."""

    job: str
    rule: str
    """Name of the task eviction in the experiment, or of the rule used in its place."""
    victims: int
    """How many of ``candidates``, from the first, are victims."""
    candidates: tuple[TaskView, ...]
    """In the order of the rule."""
    left_out: int
    """Number of further candidates."""
    mechanisms: tuple[MechanismDecision, ...] = ()
    """What happens to each victim, and why."""
    short: str = ""
    """Of a round of a paced allocation: what the queue of the job was entitled to, and gives, in words."""


class ExplainScheduler(_Effect):
    """Why a scheduler that says who gets what gave, or reclaimed, this container."""

    job: str
    """That has the container."""
    group: str
    container: str
    node: str
    rule: str
    """Name of the allocation."""
    is_taken: bool
    """False: it was given."""
    requester: str | None
    """The job that it was taken for."""
    why: str
    """The first line in short."""


class ExplainGang(_Effect):
    """Why the gang of ``job`` has not started yet: it waits for room for so many tasks at once."""

    job: str
    at_once: int
    """Containers that it needs at one time."""
    free: int
    """How many of them are free for it."""


class ExplainWait(_Effect):
    """Why ``job`` still waits, as its scheduler says; empty: it does not any more."""

    job: str
    why: str


EXPLANATIONS = (ExplainJobEviction, ExplainTaskEviction, ExplainScheduler, ExplainGang, ExplainWait)


Effect: TypeAlias = (
    Send
    | SetTimer
    | ReadProgress
    | AskExternalScheduler
    | AllFinished
    | ExitApplication
    | Launch
    | ProvideInput
    | Suspend
    | Resume
    | Checkpoint
    | Dump
    | Terminate
    | Kill
    | CleanUp
    | ExplainJobEviction
    | ExplainTaskEviction
    | ExplainScheduler
    | ExplainGang
    | ExplainWait
)
"""All effects."""

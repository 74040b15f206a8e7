"""What machines want done.  Only drivers (``emulator.live``, ``emulator.sim``) carry effects out.

The executor's contract: every effect on a container yields exactly one completion message (``Launched`` or
``LaunchFailed``, ``Suspended`` or ``SuspendFailed``, ...); an exit or crash is a message of its own.
"""

from __future__ import annotations

from typing import TypeAlias

from emulator.core.messages import Message
from emulator.core.saved import Saved
from emulator.policies.views import JobView, MechanismDecision, TaskView
from emulator.vocabulary import Frozen, Kind


class _Effect(Frozen, tag=True):
    """Base of all effects: each is written under its type."""


class Send(_Effect):
    """Deliver ``message`` to the machine at ``to``."""

    to: str
    message: Message


class SetTimer(_Effect):
    """Deliver ``TimerFired(name, generation, at_ns)`` to the same machine at ``at_ns``."""

    name: str
    at_ns: int
    generation: int


class ReadProgress(_Effect):
    """Answer at once with ``ProgressSamples`` of these containers (an ApplicationMaster's own; perhaps none)."""

    containers: tuple[str, ...]


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
    kind: Kind
    task: int
    attempt: str
    first_key_at_ns: int
    """Do not start the first key (an ApplicationMaster: its work) before this instant; 0: at once."""
    saved: Saved | None = None
    """What it goes on from."""
    memory_bytes: int | None = None
    """Emulated bytes that the task holds from its start to its end; None: none to speak of (an ApplicationMaster's)."""


class ProvideInput(_Effect):
    """All map outputs of ``job`` are known: for the reduces that wait here and for those to come."""

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
    """Stop the process, save it as an image, end it; answered as a ``Checkpoint``, and it goes on if that fails."""

    container: str


class Kill(_Effect):
    """SIGKILL."""

    container: str


class CleanUp(_Effect):
    """Remove what ``job`` has left on this node's local disk."""

    job: str


# ---- for the journal only: nothing is to be carried out ----


class ExplainJobEviction(_Effect):
    """Why the Preemptor asks containers back from these jobs for ``requester``."""

    requester: str
    rule: str
    """Name of the job eviction as the experiment has it."""
    victims: tuple[str, ...]
    """One job for each container, in the order of the choices."""
    candidates: tuple[JobView, ...]
    """As the first choice saw them; each choice makes its job one container and one reclaimable task poorer."""
    left_out: int
    """Candidates there were besides."""


class ExplainTaskEviction(_Effect):
    """Why these tasks of ``job`` must give their containers back."""

    job: str
    rule: str
    """Name of the task eviction as the experiment has it, or what went in its place."""
    victims: int
    """The first so many of ``candidates``."""
    candidates: tuple[TaskView, ...]
    """In the order of the rule."""
    left_out: int
    """Candidates there were besides."""
    mechanisms: tuple[MechanismDecision, ...] = ()
    """What happens to each victim, and why."""


EXPLANATIONS = (ExplainJobEviction, ExplainTaskEviction)


Effect: TypeAlias = (
    Send
    | SetTimer
    | ReadProgress
    | AllFinished
    | ExitApplication
    | Launch
    | ProvideInput
    | Suspend
    | Resume
    | Checkpoint
    | Dump
    | Kill
    | CleanUp
    | ExplainJobEviction
    | ExplainTaskEviction
)
"""All effects there are."""

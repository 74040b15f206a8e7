"""Messages of executors: to NodeManagers one completion for every effect on a container, and events; to the
ResourceManager the answers of a process outside."""

from __future__ import annotations

from typing import TypeAlias

from emulator.vocabulary import Frozen, Saved


class RealCost(Frozen):
    """The real duration of an operation, in real nanoseconds: the mechanism and the key in progress apart."""

    mechanism_real_ns: int
    key_real_ns: int = 0


class _Completion(Frozen, tag=True):
    """Base of the executors' messages: each is written with its type."""


class Launched(_Completion):
    container: str
    cost: RealCost


class LaunchFailed(_Completion):
    container: str
    reason: str


class Suspended(_Completion):
    container: str
    keys_done: int
    cost: RealCost


class SuspendFailed(_Completion):
    container: str
    reason: str


class Resumed(_Completion):
    container: str
    cost: RealCost
    swapped_bytes: int = 0
    """Emulated bytes of its memory that were in swap when it was resumed (os-assisted-preemption, IV-C)."""


class ResumeFailed(_Completion):
    container: str
    reason: str


class Checkpointed(_Completion):
    container: str
    saved: Saved
    cost: RealCost


class CheckpointFailed(_Completion):
    container: str
    reason: str


class Terminated(_Completion):
    """SIGTERM was sent; the process may still run."""

    container: str
    cost: RealCost


class TerminateFailed(_Completion):
    container: str
    reason: str


class Killed(_Completion):
    container: str
    cost: RealCost
    swapped_bytes: int = 0
    """As in ``Resumed``, if it was stopped when it was killed."""


class KillFailed(_Completion):
    container: str
    reason: str


# ---- events of their own ----


class FirstKey(_Completion):
    """A reduce starts its first key, or a map its work."""

    container: str
    at_ns: int
    input_ready_ns: int
    cost: RealCost
    """From the launch order to this moment, without the padding of a profile and the wait for maps."""
    lost: tuple[str, ...] = ()
    """The containers whose work it was to continue, and did not find: what they had saved is
    damaged or gone, and is done again."""
    keys_left: int = 0
    """If work was lost: the keys that need not be done again."""


class SavedByItself(_Completion):
    """A task has saved what it has done, and goes on (``JobFacts.checkpoint_period_ns``)."""

    container: str
    saved: Saved


class Paged(_Completion):
    """A task has written its memory, or read it back, and pages went to swap or came back for it."""

    container: str
    began_ns: int
    ended_ns: int
    out_bytes: int
    """Emulated, of others on its node."""
    in_bytes: int
    """Emulated, of its own."""


class Committing(_Completion):
    """All keys are done; the output is being assembled."""

    container: str


class Exited(_Completion):
    """The process has ended, for any reason; always the last message about a container."""

    container: str
    code: int | None
    signal: int | None
    keys_done: int
    reason: str = ""
    output_sha256: str = ""
    """The digest of a succeeded program's directory at its commit (``emulator.storage.tree_digest``)."""


class ExternalDecisions(_Completion, tag="DecidedOutside"):
    """Answer to ``AskExternalScheduler``: the lines of the process, without the last, ``Done``."""

    question: int
    first_line: int
    """Number of the first of ``lines`` among all lines of the process, from 1."""
    lines: tuple[str, ...]
    again_ns: int | None = None
    """See ``emulator.policies.schedulers.protocol.Done``."""


Completion: TypeAlias = (
    Launched
    | LaunchFailed
    | Suspended
    | SuspendFailed
    | Resumed
    | ResumeFailed
    | Checkpointed
    | CheckpointFailed
    | Terminated
    | TerminateFailed
    | Killed
    | KillFailed
    | FirstKey
    | SavedByItself
    | Paged
    | Committing
    | Exited
    | ExternalDecisions
)
"""All of it."""

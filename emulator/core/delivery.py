"""Delivery: three ways to get something across that may be lost, repeated or overtaken, each seen from its sender.

Theory of operation
-------------------
*Numbered news* (``NumberedUpdates``): each piece matters and is applied once.  A piece has a higher number than the one
before.  It is repeated until the receiver says that it has heard that number; only then is the next piece sent.

*The latest value* (``LatestValue``): only the newest matters.  It is said until the receiver acknowledges its number;
a newer value has a higher number, so an acknowledgement of an older one is none.

*Commands* (``CommandLedger``): what matters is that a container does something.  A command is repeated until a report
of the container shows that it was carried out, or is no longer possible.  A report may show that the node has begun to
carry it out (an image can take hours).  From then on a repeat only helps if the report of the end was lost, so each
waits twice as long as the one before.  A newer command about the same container replaces it.

Each can tell whether anything is awaited, and from when on, so that nobody has to remember it.  A receiver must
recognise what it has had before: by the number, or because a command that was carried out changes nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from emulator.core.effects import Send
from emulator.core.messages import (
    ContainerReport,
    ContainerState,
    KillContainer,
    Message,
    ResumeContainer,
    StartContainer,
    SuspendContainer,
    node_address,
)

UpdateT = TypeVar("UpdateT")
ContainerCommand = StartContainer | SuspendContainer | ResumeContainer | KillContainer


class NumberedUpdates(Generic[UpdateT]):
    """News for one receiver; see the module's theory of operation."""

    def __init__(self, number: int = 0) -> None:
        self.number = number
        """Number of the last piece."""
        self._last: UpdateT | None = None

    def unacknowledged(self, heard: int) -> UpdateT | None:
        """The piece to repeat to a receiver whose last was ``heard``; None: it has all that was sent."""
        return self._last if heard < self.number else None

    def send(self, number: int, news: UpdateT) -> UpdateT:
        """The next piece; the one before must have been heard."""
        assert number > self.number, f"{number} after {self.number}"
        self.number, self._last = number, news
        return news


@dataclass(slots=True)
class LatestValue:
    """Whether one receiver knows the latest value; see the module's theory of operation."""

    retry_ns: int = 0
    """It is said again after this time; 0: whenever there is an opportunity."""
    number: int = 0
    """Under which it was last said."""
    is_unacknowledged: bool = False
    """Whether it was said and not acknowledged."""
    _sent_ns: int = 0

    def send(self, number: int, now_ns: int) -> None:
        """It is said under ``number``: higher for a new value."""
        assert number >= self.number, f"{number} after {self.number}"
        self.number, self.is_unacknowledged, self._sent_ns = number, True, now_ns

    def acknowledge(self, number: int) -> bool:
        """The receiver has what was said under ``number``; returns whether this was waited for."""
        was_awaited = self.is_unacknowledged and number >= self.number
        self.is_unacknowledged = self.is_unacknowledged and not was_awaited
        return was_awaited

    @property
    def due_ns(self) -> int | None:
        """When it must be said again; None: it is known, or was never said."""
        return self._sent_ns + self.retry_ns if self.is_unacknowledged else None


_S = ContainerState
_UNDER_WAY: dict[type[Message], frozenset[ContainerState]] = {
    StartContainer: frozenset({_S.LAUNCHING}),
    SuspendContainer: frozenset({_S.SUSPENDING, _S.CHECKPOINTING, _S.CHECKPOINTED}),
    ResumeContainer: frozenset({_S.RESUMING}),
    KillContainer: frozenset({_S.KILLING}),
}
"""States of a container whose node has begun to carry out the command, and has not ended it."""


@dataclass(slots=True)
class _Open:
    """A command that no report has shown to be carried out."""

    to: str
    command: ContainerCommand
    sent_ns: int
    timeout_ns: int
    """It is repeated so long after it was sent."""
    is_taken: bool = False
    """Whether a report has shown that its node has begun to carry it out."""

    @property
    def due_ns(self) -> int:
        """When it is repeated."""
        return self.sent_ns + self.timeout_ns


class CommandLedger:
    """Commands to NodeManagers, the last about each container; see the module's theory of operation."""

    def __init__(self, retry_ns: int, start_ns: int = 0) -> None:
        """``retry_ns``: a command is repeated after this time; one to start something, ``start_ns`` later."""
        self.due_ns: int | None = None
        """Earliest time at which one of them may have to be repeated (never too late); None: there is none."""
        self._retry_ns = retry_ns
        self._start_ns = start_ns
        self._open: dict[str, _Open] = {}

    def __contains__(self, container: str) -> bool:
        return container in self._open

    def send(self, container: str, node: str, command: ContainerCommand, now_ns: int) -> Send:
        """Send a command and remember it; it replaces an earlier one about the same container."""
        timeout_ns = self._retry_ns + (self._start_ns if isinstance(command, StartContainer) else 0)
        sent = self._open[container] = _Open(node_address(node), command, now_ns, timeout_ns)
        self._expect(sent.due_ns)
        return Send(sent.to, command)

    def acknowledge(self, report: ContainerReport) -> None:
        """Forget the command if this report shows that it was carried out or is no longer possible."""
        sent = self._open.get(report.container)
        if sent is None:
            return
        if _shows_done(report, sent.command):
            self.ended(report.container)
        else:
            sent.is_taken = sent.is_taken or report.state in _UNDER_WAY[type(sent.command)]

    def withdraw(self, container: str, kind: type[ContainerCommand]) -> bool:
        """Forget a command of this kind, which is not needed any more; returns whether there was one."""
        sent = self._open.get(container)
        if sent is None or not isinstance(sent.command, kind):
            return False
        self.ended(container)
        return True

    def ended(self, container: str) -> None:
        """Forget the command about a container that has ended."""
        self._open.pop(container, None)
        if not self._open:
            self.due_ns = None

    def repeat(self, now_ns: int) -> list[Send]:
        """Send again the commands that have shown no effect for some time."""
        if self.due_ns is None or now_ns < self.due_ns:
            return []
        again: list[Send] = []
        self.due_ns = None
        for sent in self._open.values():
            if sent.due_ns <= now_ns:
                sent.sent_ns = now_ns
                sent.timeout_ns *= 1 + sent.is_taken
                again.append(Send(sent.to, sent.command))
            self._expect(sent.due_ns)
        return again

    def _expect(self, due_ns: int) -> None:
        if self.due_ns is None or due_ns < self.due_ns:
            self.due_ns = due_ns


def _shows_done(report: ContainerReport, command: Message) -> bool:
    if report.state is ContainerState.DONE:
        return True
    if isinstance(command, StartContainer):
        return report.state is not ContainerState.LAUNCHING
    if isinstance(command, SuspendContainer):
        return report.state is ContainerState.SUSPENDED
    if isinstance(command, ResumeContainer):
        return report.state in (ContainerState.RUNNING, ContainerState.COMMITTING)
    return False

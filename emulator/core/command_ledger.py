"""Commands to NodeManagers that must arrive: they are repeated until they are known to be carried out."""

from __future__ import annotations

from collections.abc import Iterator

from emulator.core.effects import Send
from emulator.core.messages import (
    ContainerReport,
    ContainerState,
    KillContainer,
    MapOutputs,
    Message,
    ResumeContainer,
    StartContainer,
    SuspendContainer,
    node_address,
)


class CommandLedger:
    """For an ApplicationMaster: the last command about each container, until its report shows it carried out."""

    def __init__(self, retry_ns: int) -> None:
        self._retry_ns = retry_ns
        self._open: dict[str, tuple[int, str, Message]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def send(self, container: str, node: str, command: Message, now_ns: int) -> Send:
        """Send a command and remember it; it replaces an earlier one about the same container."""
        to = node_address(node)
        self._open[container] = (now_ns, to, command)
        return Send(to, command)

    def settle(self, report: ContainerReport) -> None:
        """Forget the command if this report shows that it was carried out or is no longer possible."""
        entry = self._open.get(report.container)
        if entry is not None and _shows_done(report, entry[2]):
            del self._open[report.container]

    def withdraw_suspend(self, container: str) -> None:
        """Stop repeating a suspend that is no longer needed."""
        entry = self._open.get(container)
        if entry is not None and isinstance(entry[2], SuspendContainer):
            del self._open[container]

    def repeat(self, now_ns: int) -> Iterator[Send]:
        """Send again the commands that have been unanswered for too long."""
        for container, (sent_ns, to, command) in self._open.items():
            if sent_ns <= now_ns - self._retry_ns:
                self._open[container] = (now_ns, to, command)
                yield Send(to, command)


class OrderLedger:
    """For the ResourceManager: launches of ApplicationMasters that have not been heard of, and kills not yet done."""

    def __init__(self, retry_ns: int, start_ns: int) -> None:
        """``retry_ns``: an order is repeated after this time; an order to start something, ``start_ns`` later."""
        self.due_ns: int | None = None
        """Earliest time at which one of them may have to be repeated (never too late); None: there is none."""
        self._retry_ns = retry_ns
        self._start_ns = start_ns
        self._open: dict[str, tuple[int, str, StartContainer | KillContainer]] = {}

    def __contains__(self, container: str) -> bool:
        return container in self._open

    def send(self, container: str, node: str, command: StartContainer | KillContainer, now_ns: int) -> Send:
        """Send an order and remember it; it replaces an earlier one about the same container."""
        return self._send(container, node_address(node), command, now_ns)

    def _send(self, container: str, to: str, command: StartContainer | KillContainer, now_ns: int) -> Send:
        self._open[container] = (now_ns, to, command)
        self._expect(now_ns + self._patience_ns(command))
        return Send(to, command)

    def started(self, container: str) -> bool:
        """The container was heard of; returns whether its start was still open."""
        starts = isinstance(self._open.get(container, (0, "", None))[2], StartContainer)
        if starts:
            del self._open[container]
        return starts

    def ended(self, container: str) -> None:
        """Forget the orders about a container that has ended."""
        self._open.pop(container, None)

    def repeat(self, now_ns: int) -> list[Send]:
        """Send again the orders that have shown no effect for some time."""
        if self.due_ns is None or now_ns < self.due_ns:
            return []
        again: list[Send] = []
        self.due_ns = None
        for container, (sent_ns, to, command) in list(self._open.items()):
            due_ns = sent_ns + self._patience_ns(command)
            if due_ns <= now_ns:
                again.append(self._send(container, to, command, now_ns))
            else:
                self._expect(due_ns)
        return again

    def _expect(self, due_ns: int) -> None:
        self.due_ns = due_ns if self.due_ns is None else min(self.due_ns, due_ns)

    def _patience_ns(self, command: StartContainer | KillContainer) -> int:
        return self._retry_ns + (self._start_ns if isinstance(command, StartContainer) else 0)


class MapOutputLedger:
    """Which nodes know where the outputs of a job's maps are."""

    def __init__(self, job: str, retry_ns: int) -> None:
        self._job = job
        self._retry_ns = retry_ns
        self._nodes: tuple[str, ...] | None = None
        self.version = 0
        """Version of the outputs when they were last complete."""
        self._registrations: dict[str, int] = {}
        """Of each node: what an earlier one has been told is not known there."""
        self._told: set[str] = set()
        self._unacknowledged: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._unacknowledged)

    def complete(self, nodes: tuple[str, ...]) -> None:
        """All maps are done; ``nodes[i]`` has the output of map i.  All nodes must be told again."""
        self._nodes = nodes
        self.version += 1
        self._told.clear()
        self._unacknowledged.clear()

    def incomplete(self) -> None:
        """A map's output has been lost."""
        self._nodes = None

    def tell(self, node: str, now_ns: int) -> list[Send]:
        """Tell ``node``, unless it was told or the outputs are not complete."""
        if self._nodes is None or node in self._told:
            return []
        self._told.add(node)
        self._unacknowledged[node] = now_ns
        return [self._message(node)]

    def received(self, node: str, version: int, registration: int) -> None:
        """``node`` has acknowledged."""
        if version == self.version and registration == self._registrations.get(node, 0):
            self._unacknowledged.pop(node, None)

    def registered(self, node: str, registration: int) -> None:
        """``node`` has been heard of as registered at that instant."""
        if registration > self._registrations.get(node, 0):
            self._registrations[node] = registration
            self._told.discard(node)

    def forget_node(self, node: str) -> None:
        """``node`` is gone, or has been: what it has not acknowledged may be for nobody."""
        if node not in self._registrations:
            self._unacknowledged.pop(node, None)

    def repeat(self, now_ns: int) -> Iterator[Send]:
        """Tell again the nodes that have not acknowledged for too long."""
        for node, sent_ns in self._unacknowledged.items():
            if sent_ns <= now_ns - self._retry_ns and self._nodes is not None:
                self._unacknowledged[node] = now_ns
                yield self._message(node)

    def _message(self, node: str) -> Send:
        assert self._nodes is not None
        return Send(node_address(node), MapOutputs(self._job, self.version, self._nodes))


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

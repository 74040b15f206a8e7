"""Whose heartbeats the ResourceManager waits for: what a driver that leaves out empty heartbeats must know.

Theory of operation
-------------------
A heartbeat that says nothing may still be answered with something, or be what a request has waited for.  Here is kept
for which ones that may be so; nothing the ResourceManager does depends on it.  Two kinds are told apart: senders that
are awaited by name, and nodes with a free container, of which any may be given what waits for one (``free_node_ns``).

When such a node is heard of and given nothing although something is wanted, every other would be refused too until
something changes, except one that a suspended reduce waits for by name, or once a reduce has waited long enough for its
old node, or where a job selection leaves jobs out for a time.
"""

from __future__ import annotations


class Attention:
    """Part of the ResourceManager; see the module's theory of operation."""

    def __init__(self) -> None:
        self.awaited: set[str] = set()
        """Addresses whose next heartbeat may be answered with something, however little it says."""
        self.newly_awaited: list[str] = []
        """Those that the last message has added."""
        self.selection_left_out = False
        """Whether the job selection has left out a job that waits, as it may do for a time only."""
        self._refused = False
        """Whether a free node has been given nothing since the ResourceManager last changed."""
        self._refused_now = False
        """Whether that was in the message that is being handled: after all that it has changed."""
        self._patience_ns: int | None = None
        self._refused_hosts: set[str] = set()

    def expect(self, address: str) -> None:
        """The next heartbeat from ``address`` may matter."""
        if address not in self.awaited:
            self.awaited.add(address)
            self.newly_awaited.append(address)

    def arrived(self, address: str) -> None:
        """It has come."""
        self.awaited.discard(address)

    def begin(self) -> None:
        """The next message is being handled."""
        self.newly_awaited.clear()
        self._refused_now = False

    def refused(self, address: str, is_host: bool, patience_ns: int | None) -> None:
        """The node of ``address`` has a free container, something is wanted, and it has been given nothing.

        Args:
            address: of the NodeManager.
            is_host: whether a suspended reduce waits for this node.
            patience_ns: when a policy may decide otherwise although nothing else changes; None: at no time.
        """
        self._refused = self._refused_now = True
        self._patience_ns = patience_ns
        if self.selection_left_out:
            self.expect(address)
        elif is_host:
            self._refused_hosts.add(address)

    def changed(self) -> None:
        """The message has changed the ResourceManager: who was refused before may be given something now."""
        if self._refused_now:
            return
        self._refused = False
        for address in self._refused_hosts:
            self.expect(address)
        self._refused_hosts.clear()

    def free_node_ns(self, now_ns: int) -> int | None:
        """From when on any node with a free container may be given something, where something is wanted; None: as
        things stand, none will be."""
        if not self._refused:
            return now_ns
        return None if self._patience_ns is None else max(now_ns, self._patience_ns)

"""Whose heartbeats the ResourceManager waits for: a driver that leaves out empty heartbeats must know this.

Theory of operation
-------------------
A heartbeat with no content may still get an answer, or trigger an allocation.  This module records which heartbeats may
do so; nothing that the ResourceManager does depends on it.  There are two kinds: senders that are awaited by name, and
nodes with a free container, each of which may get what waits for one (``free_node_ns``).

If such a node gets nothing although containers are wanted, all other nodes would get nothing either until something
changes.  There are two exceptions: a node that a suspended task waits for by name, and the time when a task has waited
long enough for its old node.  Nodes that a task waits for are awaited again after every change.  That includes a change
by the message in which another node gets nothing.
"""

from __future__ import annotations


class Attention:
    """Part of the ResourceManager; see the module's theory of operation."""

    def __init__(self) -> None:
        self.awaited: set[str] = set()
        """Addresses whose next heartbeat may get an answer, even if the heartbeat is empty."""
        self._told: dict[str, int] = {}
        """Id of the last news told to each ApplicationMaster: until it has that, its heartbeats get the news again."""
        self.newly_awaited: list[str] = []
        """Addresses that the last message has added, or told something."""
        self.selection_left_out = False
        """Whether the job selection has left out a waiting job; it may do so for a time only."""
        self._refused = False
        """Whether a free node got nothing since the ResourceManager last changed."""
        self._refused_now: str | None = None
        """The node to which that happened in the message being handled, so after all its changes."""
        self._patience_ns: int | None = None
        self._refused_hosts: dict[str, None] = {}

    def expect(self, address: str) -> None:
        """The next heartbeat from ``address`` may matter."""
        if address not in self.awaited:
            self.awaited.add(address)
            self.newly_awaited.append(address)

    def arrived(self, address: str) -> None:
        """The awaited heartbeat has arrived."""
        self.awaited.discard(address)

    def told(self, address: str, news_id: int) -> None:
        """News with this id was sent to ``address``, and may be lost."""
        self._told[address] = news_id
        self.newly_awaited.append(address)

    def awaits(self, address: str, heard_id: int) -> bool:
        """Whether the next heartbeat from ``address``, which has received the news ``heard_id``, may matter."""
        return address in self.awaited or self._told.get(address, heard_id) > heard_id

    def forget(self, address: str) -> None:
        """It sends no more heartbeats."""
        self.awaited.discard(address)
        self._told.pop(address, None)

    def begin(self) -> None:
        """Start handling the next message."""
        self.newly_awaited.clear()
        self._refused_now = None

    def refused(self, address: str, is_host: bool, patience_ns: int | None) -> None:
        """The node of ``address`` has a free container and containers are wanted, but it got none.

        Args:
            address: of the NodeManager.
            is_host: whether a suspended task waits for this node.
            patience_ns: when a policy may decide otherwise even if nothing else changes; None: never.
        """
        self._refused, self._refused_now = True, address
        self._patience_ns = patience_ns
        if is_host:
            self._refused_hosts[address] = None

    def changed(self) -> None:
        """The message has changed the ResourceManager: a node that was refused before may get something now."""
        now = self._refused_now
        self._refused = now is not None
        for address in self._refused_hosts:
            if address != now:
                self.expect(address)
        self._refused_hosts = {now: None} if now is not None and now in self._refused_hosts else {}

    def free_node_ns(self, now_ns: int) -> int | None:
        """From when on any node with a free container may get something, if anything is wanted; None: not until
        something changes."""
        if not self._refused:
            return now_ns
        return None if self._patience_ns is None else max(now_ns, self._patience_ns)

"""Whose heartbeats the ResourceManager waits for: a driver that leaves out empty heartbeats must know this.

Theory of operation
-------------------
A heartbeat with no content may still get an answer, or trigger an allocation.  Whom there is something to tell can be
computed (``ResourceManager.awaits``).  This module records the rest, which depends on what allocations have answered;
nothing that the ResourceManager does depends on it.  There are two kinds: nodes that are awaited by name, and nodes
with a free container, each of which may get what waits for one (``free_node_ns``).

If such a node gets nothing although containers are wanted, all other nodes would get nothing either until something
changes.  There are two exceptions: a node that a suspended task waits for by name, and the time when a task has waited
long enough for its old node.  Nodes that a task waits for are awaited again after every change.  That includes a change
by the message in which another node gets nothing.

Where a node gets nothing that another one might get, because it has too little room or is to be avoided, each node with
a free container is asked in its turn; when all of them got nothing, they would get nothing again until something
changes.

Where containers have several sizes, most nodes have room left that is too small for all that is waited for.  They stay
so until more becomes free there, or something smaller is waited for; until then they need not be asked at all.
"""

from __future__ import annotations


class AwaitedHeartbeats:
    """The heartbeats that the ResourceManager waits for (see the module's theory of operation)."""

    def __init__(self) -> None:
        self.awaited: set[str] = set()
        """Addresses of nodes whose next heartbeat may get a container, even if others get none."""
        self.newly_awaited: list[str] = []
        """Addresses for which the last message has changed what the ResourceManager has to tell them."""
        self.selection_left_out = False
        """Whether the job selection has left out a waiting job; it may do so for a time only."""
        self._refused = False
        """Whether a free node got nothing since the ResourceManager last changed."""
        self._refused_now: str | None = None
        """The node to which that happened in the message being handled, so after all its changes."""
        self._refused_alone: dict[str, int | None] = {}
        """Nodes that got nothing since, which others might get; with the time when a policy may decide otherwise."""
        self.too_small: set[str] = set()
        """Nodes with room, but too little for every container that is waited for."""
        self.smaller_requests = 0
        """How often something was asked for that may have room where all else has none."""
        self._alone_now: str | None = None
        """The node of those to which that happened in the message being handled."""
        self._timeout_ns: int | None = None
        self._refused_hosts: dict[str, None] = {}

    def expect(self, address: str) -> None:
        """The next heartbeat from ``address`` may matter."""
        if address not in self.awaited:
            self.awaited.add(address)
            self.newly_awaited.append(address)

    def arrived(self, address: str) -> None:
        """The awaited heartbeat has arrived."""
        self.awaited.discard(address)

    def begin(self) -> None:
        """Start handling the next message."""
        self.newly_awaited.clear()
        self._refused_now = self._alone_now = None

    def refused(self, address: str, is_host: bool, timeout_ns: int | None) -> None:
        """The node of ``address`` has a free container and containers are wanted, but it got none.

        Args:
            address: of the NodeManager.
            is_host: whether a suspended task waits for this node.
            timeout_ns: when a policy may decide otherwise even if nothing else changes; None: never.
        """
        self._refused, self._refused_now = True, address
        self._timeout_ns = timeout_ns
        if is_host:
            self._refused_hosts[address] = None

    def refused_one_node(self, address: str, timeout_ns: int | None) -> None:
        """The same, but another node might get something."""
        if address not in self.too_small:
            self._refused_alone[address], self._alone_now = timeout_ns, address

    def insufficient(self, address: str) -> None:
        """The node has room, but too little for every container that is waited for."""
        self.too_small.add(address)
        self._refused_alone.pop(address, None)

    def grown(self, address: str) -> None:
        """More of the node has become free."""
        self.too_small.discard(address)

    def ask_smaller(self) -> None:
        """Something is waited for that may have room where all else has none."""
        self.too_small.clear()
        self.smaller_requests += 1

    def changed(self) -> None:
        """The message has changed the ResourceManager: a node that was refused before may get something now."""
        now, alone = self._refused_now, self._alone_now
        self._refused = now is not None
        self._refused_alone = {} if alone is None else {alone: self._refused_alone[alone]}
        for address in self._refused_hosts:
            if address != now:
                self.expect(address)
        self._refused_hosts = {now: None} if now is not None and now in self._refused_hosts else {}

    def changed_after_refusals(self) -> None:
        """It has changed after a node got nothing in the same message: that node may get something now."""
        self._refused_now = self._alone_now = None
        self.changed()

    def free_node_ns(self, now_ns: int, free_nodes: int) -> int | None:
        """From when on any of the ``free_nodes`` nodes with a free container may get something, if anything is wanted;
        None: not until something changes."""
        if not self._refused and len(self._refused_alone) + len(self.too_small) < free_nodes:
            return now_ns
        timeout_ns = (self._timeout_ns,) if self._refused else self._refused_alone.values()
        return min((max(now_ns, until_ns) for until_ns in timeout_ns if until_ns is not None), default=None)

"""A worker whose containers have the sizes that their tasks ask for, as the ResourceManager knows it.

Theory of operation
-------------------
The room of a node is what its ledger charges nobody with.  Of each resource it is kept in pieces, one for each time
that some became free, because the overhead of scheduling a container begins when its room was known to be free.  A
container takes of the oldest pieces first.  A container may leave nothing: a stopped process may hold all that it asked
for, and its node is offered all the same, so that it can resume.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from emulator.core.node_ledger import Slot
from emulator.core.resource_manager.applications import FreeSlot, Node, NodeState
from emulator.core.settings import NodeSettings
from emulator.core.sized_ledger import SizedLedger, ledger_of
from emulator.policies.resources import fits, lacking, minus, plus, total, written
from emulator.vocabulary import Resources, Work


class SizedNode(Node):
    """See the module's theory of operation."""

    def __init__(self, settings: NodeSettings) -> None:
        super().__init__(settings, SizedLedger(settings))
        self._nothing = (0,) * len(settings.resources)
        self.room: Resources = self._nothing
        """What can be given out; nothing while the node is not alive."""
        self._pieces: tuple[deque[tuple[int, int]], ...] = tuple(deque() for _ in settings.resources)
        """Of each resource, since when how much has been free, the oldest first."""
        self._left_nothing = 0
        """Containers that did, and that none has taken the place of."""

    @property
    def is_free(self) -> bool:
        """See ``Node``."""
        return any(self.room) or self._left_nothing > 0

    def _all_is_free(self, now_ns: int) -> None:
        self._add(now_ns, self.settings.resources)

    def _add(self, now_ns: int, room: Resources) -> None:
        self.room = plus(self.room, room)
        self._left_nothing += not any(room)
        for pieces, amount in zip(self._pieces, room, strict=True):
            if amount:
                pieces.append((now_ns, amount))

    def _nothing_is_free(self) -> None:
        self.room, self._left_nothing = self._nothing, 0
        for pieces in self._pieces:
            pieces.clear()

    def freed(self, now_ns: int, former_owner: str | None, slot: Slot, room: Resources) -> bool:
        """See ``Node``."""
        if self.state is NodeState.ALIVE:
            self._add(now_ns, room)
        return self.state is NodeState.ALIVE

    def fits(self, request: Resources, resumes: bool = False, kept: Resources = ()) -> bool:
        """See ``Node``."""
        return fits(self._needed(request, resumes), lacking(self.room, kept) if kept else self.room)

    def short_of(self, needs: Sequence[tuple[Resources, bool]]) -> str:
        """See ``Node``."""
        wanted, names = total((self._needed(*need) for need in needs), ()), self.settings.resource_names
        short = lacking(wanted, self.room)
        return f"{written(short, names)} of {written(wanted, names)}" if any(short) else ""

    def take_free(self, work: Work, request: Resources, resumes: bool = False) -> FreeSlot:
        """See ``Node``: what it takes, since when all of it has been free."""
        needed, since_ns = self._needed(request, resumes), 0
        if self._left_nothing and not any(needed):
            self._left_nothing -= 1
        for pieces, amount in zip(self._pieces, needed, strict=True):
            while amount:
                piece_since_ns, there = pieces.popleft()
                if there > amount:
                    pieces.appendleft((piece_since_ns, there - amount))
                since_ns, amount = max(since_ns, piece_since_ns), max(0, amount - there)
        self.room = minus(self.room, needed)
        return FreeSlot(since_ns, None)

    @property
    def free_count(self) -> int:
        """See ``Node``: containers of the usual size, as far as the scarcest resource goes."""
        whole = self.settings.resources
        shares = [
            have * self.settings.containers // all_of for have, all_of in zip(self.room, whole, strict=True) if all_of
        ]
        return min(shares, default=0)

    def _needed(self, request: Resources, resumes: bool) -> Resources:
        """A stopped process goes on holding a part of what it asked for."""
        return minus(request, self.settings.held_when_stopped(request)) if resumes else request

    def check_free(self, held: int) -> None:
        """See ``Node``."""
        pieces = tuple(sum(amount for _, amount in of_one) for of_one in self._pieces)
        assert pieces == self.room == minus(self.settings.resources, self.ledger.charged), self.name


def node_of(settings: NodeSettings) -> Node:
    """A worker that has not been heard of yet."""
    return SizedNode(settings) if settings.resources else Node(settings, ledger_of(settings))

"""A worker whose containers have the sizes that their tasks ask for, as the ResourceManager knows it.

Theory of operation
-------------------
The room of a node is what its ledger charges nobody with.  It is kept in pieces, one for each time that some became
free, because the overhead of scheduling a container begins when its room was known to be free.  A container takes of
the oldest pieces first.  With one size a piece is a container, as in ``Node``.  A piece may be nothing: a stopped
process may hold all that it asked for, and its node is offered all the same, so that it can resume.
"""

from __future__ import annotations

from collections.abc import Sequence

from emulator.core.node_ledger import Slot
from emulator.core.resource_manager.applications import FreeSlot, Node
from emulator.core.settings import NodeSettings
from emulator.core.sized_ledger import SizedLedger, ledger_of
from emulator.policies.resources import common, fits, lacking, minus, plus, total, written
from emulator.vocabulary import Resources, Work


class SizedNode(Node):
    """See the module's theory of operation."""

    def __init__(self, settings: NodeSettings) -> None:
        super().__init__(settings, SizedLedger(settings))
        self._nothing = (0,) * len(settings.resources)
        self.room: Resources = self._nothing
        """What can be given out; nothing while the node is not alive."""

    def _all_is_free(self, now_ns: int) -> None:
        self.room = self.settings.resources
        self.free.append(FreeSlot(now_ns, None, room=self.room))

    def lose(self) -> None:
        """See ``Node``."""
        super().lose()
        self.room = self._nothing

    def freed(self, now_ns: int, former_owner: str | None, slot: Slot, room: Resources) -> bool:
        """See ``Node``."""
        is_alive = super().freed(now_ns, former_owner, slot, room)
        if is_alive:
            self.room = plus(self.room, room)
        return is_alive

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
        needed = left = self._needed(request, resumes)
        since_ns, takes_nothing = 0, not any(needed)
        pieces: list[FreeSlot] = []
        for piece in self.free:
            if left == self._nothing:
                if takes_nothing and piece.room == left:
                    takes_nothing = False
                    continue
            else:
                part = common(left, piece.room)
                if part != self._nothing:
                    since_ns = max(since_ns, piece.since_ns)
                    left, piece.room = minus(left, part), minus(piece.room, part)
                    if piece.room == self._nothing:
                        continue
            pieces.append(piece)
        self.free, self.room = pieces, minus(self.room, needed)
        return FreeSlot(since_ns, None, room=needed)

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
        pieces = self._nothing
        for piece in self.free:
            assert fits(self._nothing, piece.room), self.name
            pieces = plus(pieces, piece.room)
        assert pieces == self.room == minus(self.settings.resources, self.ledger.charged), self.name


def node_of(settings: NodeSettings) -> Node:
    """A worker that has not been heard of yet."""
    return SizedNode(settings) if settings.resources else Node(settings, ledger_of(settings))

"""What each mechanism does to a victim, as values that the machines ask: the one place where mechanisms differ.

Theory of operation
-------------------
A mechanism takes a container back.  It differs from another in what that frees, in what becomes of the process and in
what is left of the work: nothing, the stopped process itself, or something ``Saved``.  A task that cannot be saved as
a mechanism would save it is killed in its place (``applied_to``): a map has no key counter.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from emulator.core.saved import KeyCheckpoint, ProcessImage
from emulator.vocabulary import Kind, Mechanism


class ResumesWhere(Enum):
    """Where a victim goes on with the work that it has done."""

    NOWHERE = "nowhere: it begins anew"
    SAME_NODE = "on its node"
    ANY_NODE = "on any node"


@dataclass(frozen=True, slots=True)
class MechanismTraits:
    """What a mechanism does."""

    frees_slot: bool
    """Whether the victim's container can be given to somebody else."""
    ends_process: bool
    """If not, its memory is not free either: it is charged to its node as that of a stopped process."""
    resumes: ResumesWhere
    """On any node: what is kept of its work is kept although the victim's own is lost."""
    saves: type[KeyCheckpoint] | type[ProcessImage] | None = None
    """What is left of a process that has ended."""

    @property
    def asks_first(self) -> bool:
        """Whether the victim must do something, which it is asked for at its own heartbeat (natjam, step 6)."""
        return self.frees_slot and self.resumes is not ResumesWhere.NOWHERE


_NOWHERE, _SAME_NODE, _ANY_NODE = ResumesWhere

TRAITS: dict[Mechanism, MechanismTraits] = {
    Mechanism.WAIT: MechanismTraits(frees_slot=False, ends_process=False, resumes=_NOWHERE),
    Mechanism.KILL: MechanismTraits(frees_slot=True, ends_process=True, resumes=_NOWHERE),
    Mechanism.SUSPEND: MechanismTraits(frees_slot=True, ends_process=False, resumes=_SAME_NODE),
    Mechanism.CHECKPOINT: MechanismTraits(frees_slot=True, ends_process=True, resumes=_ANY_NODE, saves=KeyCheckpoint),
    Mechanism.IMAGE: MechanismTraits(frees_slot=True, ends_process=True, resumes=_ANY_NODE, saves=ProcessImage),
}

SAVED_AS: dict[Kind, frozenset[type[KeyCheckpoint] | type[ProcessImage]]] = {
    Kind.APPLICATION_MASTER: frozenset(),
    Kind.MAP: frozenset({ProcessImage}),
    Kind.REDUCE: frozenset({KeyCheckpoint, ProcessImage}),
}
"""What a task can be saved as: only a reduce counts keys."""


def applied_to(mechanism: Mechanism, kind: Kind) -> Mechanism:
    """What is done to a task of that kind under ``mechanism``: it is killed where it cannot be saved so."""
    saves = TRAITS[mechanism].saves
    return mechanism if saves is None or saves in SAVED_AS[kind] else Mechanism.KILL

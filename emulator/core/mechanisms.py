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
    frees_memory: bool
    """Whether its memory is free too; if not, it is charged to its node as a stopped process."""
    ends_process: bool
    survives_node_loss: bool
    """Whether the work that is kept is kept although the node is lost."""
    resumes: ResumesWhere
    saves: type[KeyCheckpoint] | type[ProcessImage] | None = None
    """What is left of a process that has ended."""

    @property
    def asks_first(self) -> bool:
        """Whether the victim must do something, which it is asked for at its own heartbeat (natjam, step 6)."""
        return self.frees_slot and self.resumes is not ResumesWhere.NOWHERE


TRAITS: dict[Mechanism, MechanismTraits] = {
    Mechanism.WAIT: MechanismTraits(
        frees_slot=False,
        frees_memory=False,
        ends_process=False,
        survives_node_loss=False,
        resumes=ResumesWhere.NOWHERE,
    ),
    Mechanism.KILL: MechanismTraits(
        frees_slot=True,
        frees_memory=True,
        ends_process=True,
        survives_node_loss=False,
        resumes=ResumesWhere.NOWHERE,
    ),
    Mechanism.SUSPEND: MechanismTraits(
        frees_slot=True,
        frees_memory=False,
        ends_process=False,
        survives_node_loss=False,
        resumes=ResumesWhere.SAME_NODE,
    ),
    Mechanism.CHECKPOINT: MechanismTraits(
        frees_slot=True,
        frees_memory=True,
        ends_process=True,
        survives_node_loss=True,
        resumes=ResumesWhere.ANY_NODE,
        saves=KeyCheckpoint,
    ),
    Mechanism.IMAGE: MechanismTraits(
        frees_slot=True,
        frees_memory=True,
        ends_process=True,
        survives_node_loss=True,
        resumes=ResumesWhere.ANY_NODE,
        saves=ProcessImage,
    ),
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

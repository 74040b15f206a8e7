"""What each mechanism does to a victim, as values that the machines read: the only place where mechanisms differ.

Theory of operation
-------------------
A mechanism takes a container back.  Mechanisms differ in what they free, in what happens to the process, and in what is
left of its work: nothing, the stopped process itself, or something ``Saved``.  If a task cannot be saved in the way of
its mechanism, it is killed instead (``applied_to``): for example, a map has no key counter.  So is a task that has done
nothing since it was saved: what it resumes from is still there.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from emulator.core.saved import KeyCheckpoint, ProcessImage
from emulator.vocabulary import Mechanism, Work


class ResumesWhere(Enum):
    """Where a victim resumes with the work it has done."""

    NOWHERE = "nowhere: it begins anew"
    SAME_NODE = "on its node"
    ANY_NODE = "on any node"


@dataclass(frozen=True, slots=True)
class MechanismTraits:
    """What a mechanism does."""

    frees_slot: bool
    """Whether the victim's container can be given to another task."""
    ends_process: bool
    """If not, its memory is not freed either: it is charged to the node as memory of a stopped process."""
    resumes: ResumesWhere
    """On any node: the kept work outlives the victim's own node."""
    saves: type[KeyCheckpoint] | type[ProcessImage] | None = None
    """What is left of a process that has ended."""
    holds: frozenset[str] = frozenset()
    """The resources that are still held once the slot is free, by their names in an experiment file; the file may say
    that its cluster frees some of them."""

    @property
    def makes_image(self) -> bool:
        """Whether it writes the process to a device."""
        return self.saves is ProcessImage

    @property
    def asks_first(self) -> bool:
        """Whether the victim itself must act; it is then asked at its own heartbeat (natjam, step 6)."""
        return self.frees_slot and self.resumes is not ResumesWhere.NOWHERE


_NOWHERE, _SAME_NODE, _ANY_NODE = ResumesWhere

TRAITS: dict[Mechanism, MechanismTraits] = {
    Mechanism.WAIT: MechanismTraits(frees_slot=False, ends_process=False, resumes=_NOWHERE),
    Mechanism.KILL: MechanismTraits(frees_slot=True, ends_process=True, resumes=_NOWHERE),
    # A stopped program keeps its memory, on the device too.
    Mechanism.SUSPEND: MechanismTraits(
        frees_slot=True, ends_process=False, resumes=_SAME_NODE, holds=frozenset({"memory_gb", "gpu"})
    ),
    Mechanism.CHECKPOINT: MechanismTraits(frees_slot=True, ends_process=True, resumes=_ANY_NODE, saves=KeyCheckpoint),
    Mechanism.IMAGE: MechanismTraits(frees_slot=True, ends_process=True, resumes=_ANY_NODE, saves=ProcessImage),
}

SAVED_AS: dict[Work, frozenset[type[KeyCheckpoint] | type[ProcessImage]]] = {
    Work.MASTER: frozenset(),
    Work.SHUFFLE: frozenset({ProcessImage}),
    Work.KEYS: frozenset({KeyCheckpoint, ProcessImage}),
}
"""How a process can be saved, by what it does: only one that walks keys counts them."""


def applied_to(mechanism: Mechanism, work: Work, is_saved: bool = False) -> Mechanism:
    """What happens to a task under ``mechanism``: it is killed if what it does cannot be saved in that way, or if all
    its work is saved already."""
    traits = TRAITS[mechanism]
    if is_saved and traits.frees_slot:
        return Mechanism.KILL
    saves = traits.saves
    return mechanism if saves is None or saves in SAVED_AS[work] else Mechanism.KILL


HELD_BY = Mechanism.SUSPEND
"""What happens to a task that is ordered to stop (os-assisted-preemption, section III-B)."""


def stopping(among: Collection[Mechanism]) -> list[MechanismTraits]:
    """What those of these mechanisms do that stop a process, which may go on."""
    return [traits for traits in map(TRAITS.__getitem__, among) if traits.frees_slot and not traits.ends_process]


def held_when_stopped(among: Collection[Mechanism]) -> frozenset[str]:
    """The resources that a process still holds which one of these has stopped; or an order, if none of them does."""
    return frozenset[str]().union(*(traits.holds for traits in stopping(among) or [TRAITS[HELD_BY]]))


def makes_images(among: Collection[Mechanism]) -> bool:
    """Whether one of these mechanisms writes process images."""
    return any(TRAITS[mechanism].makes_image for mechanism in among)


def keeps_processes(among: Collection[Mechanism]) -> bool:
    """Whether one of these mechanisms leaves the victim's process there."""
    return any(not TRAITS[mechanism].ends_process for mechanism in among)


def needs_no_job(among: Collection[Mechanism]) -> bool:
    """Whether a victim's node alone can take it: nothing is left to choose, and the victim itself need not act."""
    return len(among) == 1 and not any(TRAITS[mechanism].asks_first for mechanism in among)

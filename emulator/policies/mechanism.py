"""Mechanism: what happens to a victim; chosen for each victim.

Theory of operation
-------------------
A mechanism takes a container back.  Mechanisms differ in what they free, in what happens to the process, and in what is
left of its work: nothing, the stopped process itself, or something ``Saved``.  ``TRAITS`` has what the machines read of
each, and is the only place where they differ; the policies below choose one.  If a task cannot be saved in the way of
its mechanism, it is killed instead (``applied_to``): for example, a map has no key counter.  So is a task that has done
nothing since it was saved: what it resumes from is still there.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from operator import itemgetter
from typing import Annotated, Any, Literal

import msgspec

from emulator.policies.policy import Axis, MechanismPolicy, Reads
from emulator.policies.views import ClusterView, MechanismDecision, TaskView
from emulator.vocabulary import Frozen, KeyCheckpoint, Mechanism, ProcessImage, Work


@dataclass(frozen=True, slots=True)
class MechanismTraits:
    """What a mechanism does."""

    frees_slot: bool
    """Whether the victim's container can be given to another task."""
    ends_process: bool
    """If not, its memory is not freed either: it is charged to the node as memory of a stopped process."""
    saves: type[KeyCheckpoint] | type[ProcessImage] | None = None
    """What is left of a process that has ended, from which it resumes on any node; a stopped process resumes on its own
    node."""
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
        return self.frees_slot and (self.saves is not None or not self.ends_process)


TRAITS: dict[Mechanism, MechanismTraits] = {
    Mechanism.WAIT: MechanismTraits(frees_slot=False, ends_process=False),
    Mechanism.KILL: MechanismTraits(frees_slot=True, ends_process=True),
    # A stopped program keeps its memory, on the device too.
    Mechanism.SUSPEND: MechanismTraits(frees_slot=True, ends_process=False, holds=frozenset({"memory_gb", "gpu"})),
    Mechanism.CHECKPOINT: MechanismTraits(frees_slot=True, ends_process=True, saves=KeyCheckpoint),
    Mechanism.IMAGE: MechanismTraits(frees_slot=True, ends_process=True, saves=ProcessImage),
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


# ---- the policies ----

_WAIT, _KILL, _SUSPEND, _CHECKPOINT, _IMAGE = map(
    MechanismDecision,
    (Mechanism.WAIT, Mechanism.KILL, Mechanism.SUSPEND, Mechanism.CHECKPOINT, Mechanism.IMAGE),
)


class Imaging(Frozen):
    """Options of ``image``."""

    dumper: Literal["criu", "pages"] | None = None
    """For live runs; null: criu where it works, else pages."""


class Adaptive(Imaging):
    """Options of ``adaptive``."""

    among: Annotated[tuple[Mechanism, ...], msgspec.Meta(min_length=1)] = (Mechanism.KILL, Mechanism.IMAGE)
    """What may happen to a victim; if two cost the same, the first one named."""
    image_cost: Literal["memory", "changed"] = "memory"
    """What an image costs: as if all memory were written, as in Algorithm 1, or what will be written."""


def wait(view: ClusterView, task: TaskView) -> MechanismDecision:
    """Nothing is preempted: urgent work waits until containers become free."""
    return _WAIT


def kill(view: ClusterView, task: TaskView) -> MechanismDecision:
    """The victim is killed and starts again from nothing, or from its last checkpoint."""
    return _KILL


def suspend(view: ClusterView, task: TaskView) -> MechanismDecision:
    """SIGTSTP and SIGCONT: the process stays in memory on its node."""
    return _SUSPEND


def checkpoint(view: ClusterView, task: TaskView) -> MechanismDecision:
    """The key in progress is finished, the key counter is saved, and the process exits."""
    return _CHECKPOINT


def image(view: ClusterView, task: TaskView, options: Imaging) -> MechanismDecision:
    """The whole process, memory included, is saved on its node's storage device, and restored on any node."""
    return _IMAGE


def adaptive(view: ClusterView, task: TaskView, options: Adaptive) -> MechanismDecision:
    """Adaptive preemption: for each victim the mechanism that costs least.  Killing loses all work since the task was
    last saved; saving takes time.

    With ``kill`` and ``image`` this is Algorithm 1.  An image costs the time to write it, the time to read it, and the
    wait for the device.  Waiting costs the remaining time of the task.  Suspending and checkpoints cost their mean on
    this cluster so far, and nothing before the first one.
    """
    costs_ns = [(_cost_ns(mechanism, view, task, options), mechanism) for mechanism in options.among]
    known = [(cost_ns, mechanism) for cost_ns, mechanism in costs_ns if cost_ns is not None]
    if not known:
        return MechanismDecision(options.among[0])
    numbers = tuple((f"{mechanism.value}_ns", cost_ns) for cost_ns, mechanism in known)
    return MechanismDecision(min(known, key=itemgetter(0))[1], numbers)


def _cost_ns(mechanism: Mechanism, view: ClusterView, task: TaskView, options: Adaptive) -> int | None:
    if mechanism is Mechanism.WAIT:
        return task.remaining_ns
    if mechanism is Mechanism.KILL:
        return max(0, view.now_ns - max(task.started_ns, task.saved_ns or 0))
    if mechanism is Mechanism.IMAGE:
        return task.image_memory_ns if options.image_cost == "memory" else task.image_overhead_ns
    if mechanism is Mechanism.SUSPEND and task.refusals:
        return None  # its node has no room for another stopped process
    return (view.costs.suspend_ns or 0) + (view.costs.resume_ns or 0)


_IMAGE_WITH: Any = image  # gets its options before it is called
_ADAPTIVE: Any = adaptive  # gets its options before it is called

MECHANISM: Axis[MechanismPolicy] = Axis(
    "mechanism",
    (
        MechanismPolicy("wait", wait, "natjam, section 5", among=frozenset({Mechanism.WAIT})),
        MechanismPolicy("kill", kill, "natjam, section 5", among=frozenset({Mechanism.KILL})),
        MechanismPolicy(
            "suspend", suspend, "os-assisted-preemption, section III", among=frozenset({Mechanism.SUSPEND})
        ),
        MechanismPolicy("checkpoint", checkpoint, "natjam, section 3.1", among=frozenset({Mechanism.CHECKPOINT})),
        MechanismPolicy(
            "image",
            _IMAGE_WITH,
            "adaptive-checkpointing, section 3.2",
            options=Imaging,
            among=frozenset({Mechanism.IMAGE}),
        ),
        MechanismPolicy(
            "adaptive",
            _ADAPTIVE,
            "adaptive-checkpointing, section 4.1, Algorithm 1",
            reads=frozenset({Reads.DEVICES}),
            options=Adaptive,
            heeds_refusals=True,
        ),
    ),
    MechanismPolicy,
)

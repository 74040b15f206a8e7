"""Mechanism: what happens to a victim; chosen for each victim."""

from __future__ import annotations

from operator import itemgetter
from typing import Annotated, Any, Literal

import msgspec

from emulator.policies.policy import Axis, MechanismPolicy, Reads
from emulator.policies.views import ClusterView, MechanismDecision, TaskView
from emulator.vocabulary import Frozen, Mechanism

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

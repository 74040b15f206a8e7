"""Mechanism: what happens to a victim, chosen for each."""

from __future__ import annotations

from emulator.policies.policy import Axis, MechanismPolicy
from emulator.policies.views import ClusterView, MechanismDecision, TaskView
from emulator.vocabulary import Mechanism

_WAIT, _KILL, _SUSPEND, _CHECKPOINT = map(
    MechanismDecision, (Mechanism.WAIT, Mechanism.KILL, Mechanism.SUSPEND, Mechanism.CHECKPOINT)
)


def wait(view: ClusterView, task: TaskView) -> MechanismDecision:
    """Nothing is preempted: urgent work waits for containers to come free."""
    return _WAIT


def kill(view: ClusterView, task: TaskView) -> MechanismDecision:
    """The victim is killed and starts again from nothing (or its last checkpoint)."""
    return _KILL


def suspend(view: ClusterView, task: TaskView) -> MechanismDecision:
    """SIGTSTP and SIGCONT: the process stays in memory on its node."""
    return _SUSPEND


def checkpoint(view: ClusterView, task: TaskView) -> MechanismDecision:
    """The key in progress is finished, the key counter saved, the process exits."""
    return _CHECKPOINT


MECHANISM: Axis[MechanismPolicy] = Axis(
    "mechanism",
    (
        MechanismPolicy("wait", wait, "natjam, section 5", among=frozenset({Mechanism.WAIT})),
        MechanismPolicy("kill", kill, "natjam, section 5", among=frozenset({Mechanism.KILL})),
        MechanismPolicy(
            "suspend", suspend, "os-assisted-preemption, section III", among=frozenset({Mechanism.SUSPEND})
        ),
        MechanismPolicy("checkpoint", checkpoint, "natjam, section 3.1", among=frozenset({Mechanism.CHECKPOINT})),
    ),
    MechanismPolicy,
)

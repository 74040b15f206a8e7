"""Gangs: pods that start together or not at all, as kube-scheduler 1.36 places them under its alpha gates.

These are GangScheduling and WorkloadAwarePreemption.  Preemption for a gang is in the whole cluster at once, and by
units: a pod, or all pods of a group whose ``disruptionMode`` is PodGroup.  Nobody is nominated to a node.  As for
single pods, all nodes are looked at; above 100 kube-scheduler samples them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from emulator.policies.kubernetes.model import Bound, Pod, Policy, State, Ties
from emulator.policies.kubernetes.placement import place_in
from emulator.policies.kubernetes.preemption import start_of, violating
from emulator.policies.kubernetes.snapshot import Snapshot
from emulator.vocabulary import Frozen


class Group(Frozen):
    """A PodGroup of running pods."""

    name: str
    priority: int = 0
    is_whole: bool = False
    """Its pods are preempted together."""


class Gang(Frozen):
    """Pods that wait together; so many of them at least have to start at once."""

    name: str
    pods: tuple[Pod, ...]
    min_count: int
    priority: int = 0


class Unit(Frozen):
    """What is preempted together: its pods by node, then arrival."""

    pods: tuple[Bound, ...]
    priority: int

    @property
    def importance(self) -> tuple[float, ...]:
        """The most important first: higher priority, any group before lone pods, larger, earlier start."""
        return -self.priority, not self.pods[0].pod.group, -len(self.pods), min(map(start_of, self.pods))

    @property
    def names(self) -> tuple[str, ...]:
        """Of its pods."""
        return tuple(each.pod.name for each in self.pods)


class GangOutcome(StrEnum):
    """What becomes of a gang."""

    FITS = "fits"
    PREEMPTS = "preempts"
    TOO_FEW = "too few"
    """Fewer pods wait than it needs."""
    NEVER = "never"
    """It does not fit, and its policy is not to preempt."""
    NO_LOWER = "no lower"
    """It does not fit, and nobody is of lower priority."""
    NO_FIT = "no fit"
    """It does not fit with all of lower priority gone either."""


class GangDecision(Frozen):
    """For one gang."""

    gang: Gang
    outcome: GangOutcome
    nodes: Mapping[str, str] = {}
    """Of each pod that is bound."""
    victims: tuple[Unit, ...] = ()
    """The most important first."""
    violating: tuple[Unit, ...] = ()
    """Those of the victims that a budget protects."""
    spared: tuple[Unit, ...] = ()
    """Those of lower priority that may stay."""


def place_gang(state: State, gang: Gang, groups: Iterable[Group], ties: Ties) -> GangDecision:
    """Where the pods of a gang go, or whom it preempts.  ``groups``: those of the running pods."""
    if len(gang.pods) < gang.min_count:
        return GangDecision(gang, GangOutcome.TOO_FEW)
    snapshot = Snapshot(state)
    nodes = _place_all(snapshot, gang, ties)
    if len(nodes) >= gang.min_count:
        return GangDecision(gang, GangOutcome.FITS, nodes)
    if gang.pods[0].policy is Policy.NEVER:
        return GangDecision(gang, GangOutcome.NEVER)
    lower = sorted(
        (unit for unit in _units(snapshot.bound(), groups) if unit.priority < gang.priority),
        key=lambda unit: unit.importance,
    )
    if not lower:
        return GangDecision(gang, GangOutcome.NO_LOWER)
    return _preempt(snapshot, gang, lower, ties)


def _place_all(snapshot: Snapshot, gang: Gang, ties: Ties) -> dict[str, str]:
    """The nodes of the pods that fit one after another; the snapshot is left as it was."""
    nodes: dict[str, str] = {}
    for pod in gang.pods:
        node = place_in(snapshot, pod, None, ties).node
        if node is not None:
            snapshot.add(Bound(pod, node))
            nodes[pod.name] = node
    for name in nodes:
        snapshot.remove(name)
    return nodes


def _units(bound: Iterable[Bound], groups: Iterable[Group]) -> list[Unit]:
    whole = {group.name: group for group in groups if group.is_whole}
    members: dict[str, list[Bound]] = {}
    units: list[Unit] = []
    for each in bound:
        if each.pod.group in whole:
            members.setdefault(each.pod.group, []).append(each)
        else:
            units.append(Unit((each,), each.pod.priority))
    return [*(Unit(tuple(pods), whole[name].priority) for name, pods in members.items()), *units]


def _preempt(snapshot: Snapshot, gang: Gang, lower: Sequence[Unit], ties: Ties) -> GangDecision:
    """Take all units away, and put back whoever leaves the gang fitting: those that a budget protects first."""
    for unit in lower:
        for name in unit.names:
            snapshot.remove(name)
    if len(_place_all(snapshot, gang, ties)) < gang.min_count:
        return GangDecision(gang, GangOutcome.NO_FIT)
    protected = _violating_units(snapshot, lower)
    order = sorted(lower, key=lambda unit: unit.names not in protected)  # stable: the most important ones first
    spared: list[Unit] = []
    victims: list[Unit] = []
    for unit in order:
        for each in unit.pods:
            snapshot.add(each)
        if len(_place_all(snapshot, gang, ties)) >= gang.min_count:
            spared.append(unit)
            continue
        victims.append(unit)
        for name in unit.names:
            snapshot.remove(name)
    victims.sort(key=lambda unit: unit.importance)
    taken = tuple(unit for unit in victims if unit.names in protected)
    return GangDecision(gang, GangOutcome.PREEMPTS, {}, tuple(victims), taken, tuple(spared))


def _violating_units(snapshot: Snapshot, units: Iterable[Unit]) -> set[tuple[str, ...]]:
    """Those of which a pod violates a budget, by their names; the unit's further pods are not counted then."""
    allowed = {each.name: each.allowed for each in snapshot.budgets}
    return {unit.names for unit in units if any(violating((pod,), allowed, snapshot.budgets) for pod in unit.pods)}

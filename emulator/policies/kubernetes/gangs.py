"""Gangs: pods that start together or not at all, as kube-scheduler 1.36 places them under its alpha gates.

These are GangScheduling and WorkloadAwarePreemption.  Preemption for a gang is in the whole cluster at once, and by
units: a pod, or all pods of a group whose ``disruptionMode`` is PodGroup.  No node is kept for those that need the
victims' room; pods of the gang that fit anyway wait for their nodes.  As for single pods, all nodes are looked at;
above 100 kube-scheduler samples them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from emulator.policies.kubernetes.placement import place_in
from emulator.policies.kubernetes.preemption import start_of, violating
from emulator.policies.kubernetes.snapshot import Snapshot
from emulator.policies.kubernetes.terms import Ties, Victims
from emulator.sites.kubernetes import Bound, Group, Pod, Policy, State
from emulator.vocabulary import Frozen


class Gang(Frozen):
    """The pods of a group that wait; with those that run, so many of them at least have to run at once."""

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
        """The names of its pods."""
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
    """What becomes of one gang."""

    gang: Gang
    outcome: GangOutcome
    bound: Mapping[str, str] = {}
    """The node of each pod that is bound."""
    nominated: Mapping[str, str] = {}
    """The nodes of those that fit already, and wait for the others."""
    victims: tuple[Unit, ...] = ()
    """The most important first."""
    violating: tuple[Unit, ...] = ()
    """Those of the victims that a budget protects."""
    spared: tuple[Unit, ...] = ()
    """Those of lower priority that may stay."""
    evicted: tuple[str, ...] = ()
    """The victims that a cycle deletes now; the others were going already."""

    @property
    def pod(self) -> Pod:
        """The first of the gang, in whose name others are evicted."""
        return self.gang.pods[0]


def gang_of(state: State, pod: Pod) -> Gang | None:
    """A pod with all that wait of its group; None: the state does not have its group."""
    group = next((each for each in state.groups if each.name == pod.group), None)
    if group is None:
        return None
    others = (each.pod for each in state.waiting if each.pod.group == group.name and each.pod.name != pod.name)
    return Gang(group.name, (pod, *others), group.min_count, group.priority)


def place_gang(state: State, gang: Gang, ties: Ties) -> GangDecision:
    """Where the pods of a gang go, or whom it preempts.  Those of it that wait in the state keep their nominations."""
    nominated = {each.pod.name: each.nominated for each in state.waiting if each.nominated is not None}
    return place_gang_in(Snapshot(state), gang, nominated, ties)


def place_gang_in(
    snapshot: Snapshot, gang: Gang, nominated: Mapping[str, str], ties: Ties, now_ns: int = 0
) -> GangDecision:
    """As ``place_gang``; the snapshot is spoilt."""
    running = snapshot.members[gang.name]
    if len(gang.pods) + running < gang.min_count:
        return GangDecision(gang, GangOutcome.TOO_FEW)
    trial = _DryRun(snapshot, gang, nominated, ties)
    nodes = trial.nodes()
    if len(nodes) >= trial.needed:
        return GangDecision(gang, GangOutcome.FITS, nodes)
    if gang.pods[0].policy is Policy.NEVER:
        return GangDecision(gang, GangOutcome.NEVER)
    units = _units(snapshot.bound(), snapshot.groups.values())
    lower = sorted((each for each in units if each.priority < gang.priority), key=lambda unit: unit.importance)
    if not lower:
        return GangDecision(gang, GangOutcome.NO_LOWER)
    return _preempt(trial, lower, nodes, now_ns)


class _DryRun:
    """A cluster for one gang, with others taken away or put back."""

    def __init__(self, snapshot: Snapshot, gang: Gang, nominated: Mapping[str, str], ties: Ties) -> None:
        self.snapshot, self.gang = snapshot, gang
        self._nominated, self._ties = nominated, ties
        self.needed = max(1, gang.min_count - snapshot.members[gang.name])
        """So many of its pods have to get a node."""

    def nodes(self) -> dict[str, str]:
        """The nodes of the pods that fit one after another; the cluster is left as it was."""
        snapshot, nodes = self.snapshot, dict[str, str]()
        for pod in self.gang.pods:
            before = self._nominated.get(pod.name)
            node = place_in(snapshot, pod, before, self._ties).node
            if node is not None:
                snapshot.nominate(pod, before, None)
                snapshot.add(Bound(pod, node))
                nodes[pod.name] = node
        for pod in self.gang.pods:
            if pod.name in nodes:
                snapshot.remove(pod.name)
                snapshot.nominate(pod, None, self._nominated.get(pod.name))
        return nodes

    @property
    def fits(self) -> bool:
        """Whether as many get a node as have to."""
        return len(self.nodes()) >= self.needed

    def take(self, unit: Unit) -> None:
        """Take a unit away, but for what its pods go on holding."""
        terms = self.snapshot.terms
        for each in unit.pods:
            self.snapshot.remove(each.pod.name)
            if held := terms.held(each.pod):
                self.snapshot.add(Bound(Pod(each.pod.name, requests=held), each.node))

    def put_back(self, unit: Unit) -> None:
        """Undo ``take``."""
        for each in unit.pods:
            if each.pod.name in self.snapshot:
                self.snapshot.remove(each.pod.name)
            self.snapshot.add(each)


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


def _preempt(dry_run: _DryRun, lower: Sequence[Unit], nominated: Mapping[str, str], now_ns: int) -> GangDecision:
    """Take all units away, and put back whoever leaves the gang fitting: those that a budget protects first."""
    snapshot, terms = dry_run.snapshot, dry_run.snapshot.terms
    for unit in lower:
        dry_run.take(unit)
    if not dry_run.fits:
        return GangDecision(dry_run.gang, GangOutcome.NO_FIT)
    protected = _violating_units(snapshot, lower)
    order = list(lower)
    if terms.victims is not Victims.IMPORTANCE:  # those first that are to stay
        order.sort(key=lambda unit: (-unit.priority, -sum(terms.cost(each, now_ns) for each in unit.pods)))
    order.sort(key=lambda unit: unit.names not in protected)
    victims: list[Unit] = []
    for unit in order:
        dry_run.put_back(unit)
        if not dry_run.fits:
            dry_run.take(unit)
            victims.append(unit)
    victims.sort(key=lambda unit: unit.importance)
    taken = tuple(unit for unit in victims if unit.names in protected)
    spared = tuple(unit for unit in order if unit not in victims)
    return GangDecision(dry_run.gang, GangOutcome.PREEMPTS, {}, nominated, tuple(victims), taken, spared)


def _violating_units(snapshot: Snapshot, units: Iterable[Unit]) -> set[tuple[str, ...]]:
    """Those of which a pod violates a budget, by their names; the unit's further pods are not counted then."""
    allowed = {each.name: each.allowed for each in snapshot.budgets}
    return {unit.names for unit in units if any(violating((pod,), allowed, snapshot.budgets) for pod in unit.pods)}

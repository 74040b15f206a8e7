"""Plays arrivals through whole days in virtual time: every decision, and what becomes of each pod.

At each instant first those leave whose grace is over, then some finish, then some arrive; then one cycle follows
another until no pod is ready.  A pod finishes when it has run for its duration in one piece.  A victim holds its room
for its grace; a new pod takes its place in the queue and starts anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial

from msgspec.structs import replace

from emulator.policies.agenda import Agenda
from emulator.policies.kubernetes.controller import Controller
from emulator.policies.kubernetes.cycle import Decision, GangCycle
from emulator.policies.kubernetes.terms import Ties
from emulator.sites.kubernetes import Arrival, Bound, BudgetSpec, Group, Node, Replacement


@dataclass(slots=True)
class Run:
    """What became of a pod.  None: it has not happened."""

    submit_ns: int
    start_ns: int | None = None
    node: str | None = None
    end_ns: int | None = None
    """Its finish or its eviction."""
    by: str | None = None
    """Who had it evicted."""
    lost_ns: int = 0
    """Of its run, by the eviction."""
    gone_ns: int | None = None
    """When an evicted one had left its node."""


@dataclass(slots=True)
class Day:
    """What a player has played."""

    runs: dict[str, Run] = field(default_factory=dict)
    cycles: int = 0
    evictions: int = 0
    lost_ns: int = 0
    end_ns: int = 0


class _Kind(IntEnum):
    """The order of what happens at one instant."""

    GONE = 0
    FINISH = 1
    ARRIVE = 2
    LOOK = 3


OnDecision = Callable[[int, Decision | GangCycle], None]
"""Called with the time and what the cycle decided."""


class Player:
    """One play of nodes and arrivals."""

    def __init__(
        self,
        nodes: Iterable[Node],
        arrivals: Iterable[Arrival],
        ties: Ties,
        budgets: Iterable[BudgetSpec] = (),
        on_decision: OnDecision | None = None,
        groups: Iterable[Group] = (),
    ) -> None:
        self._controller = Controller(nodes, budgets, groups, ties)
        self._on_decision = on_decision
        self._arrivals: dict[str, Arrival] = {}
        self._replaced: dict[str, tuple[str, int]] = {}
        """Of each pod in another's place: the first one's name, and how many came before it."""
        self._agenda = Agenda()
        self.day = Day()
        for each in arrivals:
            self._agenda.add(each.submit_ns, _Kind.ARRIVE, partial(self._create, each))

    def play(self) -> Day:
        """Play until nothing is left to happen.  Raises CannotGoOnError: evictions go round in a circle."""
        controller = self._controller
        while self._agenda:
            controller.begin(self._agenda.next_ns)
            self._agenda.go_on()
            for decision in controller.cycle_by_cycle():
                self._carry_out(decision)
            if self._agenda and (look_ns := controller.plan_look()) is not None:
                self._agenda.add(look_ns, _Kind.LOOK, controller.look)
        self.day.cycles, self.day.end_ns = controller.cycles, self._agenda.now_ns
        return self.day

    def _create(self, arrival: Arrival) -> None:
        name, since_ns = arrival.pod.name, self._controller.step()
        self._arrivals[name] = arrival
        self.day.runs[name] = Run(self._agenda.now_ns)
        if arrival.node is None:
            self._controller.arrive(arrival.pod, since_ns)
        else:
            self._controller.snapshot.add(Bound(arrival.pod, arrival.node, since_ns))
            self._start(name, arrival.node)

    def _origin(self, name: str) -> tuple[str, int]:
        """The first pod in whose place it is, or itself, and how many came between."""
        return self._replaced.get(name, (name, 0))

    def _create_instead(self, name: str) -> None:
        first, number = self._origin(name)
        instead = f"{first}.{number + 1}"
        self._replaced[instead] = first, number + 1
        arrival = self._arrivals[name]
        self._create(replace(arrival, pod=replace(arrival.pod, name=instead), node=None))

    def _finish(self, name: str) -> None:
        run = self.day.runs[name]
        if run.end_ns is None:  # else it was evicted
            run.end_ns = self._agenda.now_ns
            self._controller.leave(name)

    def _gone(self, name: str) -> None:
        self.day.runs[name].gone_ns = self._agenda.now_ns
        self._controller.leave(name)
        if self._arrivals[name].replacement is Replacement.GONE:
            self._create_instead(name)

    def _carry_out(self, decision: Decision | GangCycle) -> None:
        """What the rest of the cluster makes of a cycle."""
        if self._on_decision is not None:
            self._on_decision(self._agenda.now_ns, decision)
        for name, node in decision.bound.items():
            self._start(name, node)
        for name in decision.evicted:
            self._evict(name, decision.pod.name)

    def _start(self, name: str, node: str) -> None:
        run, duration_ns = self.day.runs[name], self._arrivals[name].duration_ns
        run.start_ns, run.node = self._agenda.now_ns, node
        if duration_ns is not None:
            self._agenda.add(self._agenda.now_ns + duration_ns, _Kind.FINISH, lambda: self._finish(name))

    def _evict(self, name: str, by: str) -> None:
        run, grace_ns = self.day.runs[name], self._arrivals[name].grace_ns
        assert run.start_ns is not None, "only a pod that runs is evicted"
        run.end_ns, run.by, run.lost_ns = self._agenda.now_ns, by, self._agenda.now_ns - run.start_ns
        self._controller.count_eviction(self._origin(name)[0])
        self.day.evictions += 1
        self.day.lost_ns += run.lost_ns
        self._controller.step()
        if grace_ns:
            self._agenda.add(self._agenda.now_ns + grace_ns, _Kind.GONE, lambda: self._gone(name))
        else:
            self._gone(name)
        if self._arrivals[name].replacement is Replacement.TERMINATING:
            self._create_instead(name)

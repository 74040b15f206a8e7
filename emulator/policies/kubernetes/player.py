"""Plays arrivals through whole days in virtual time: every decision, and what becomes of each pod.

At each instant first those leave whose grace is over, then some finish, then some arrive; then one cycle follows
another until no pod is ready.  A pod finishes when it has run for its duration in one piece.  A victim holds its room
for its grace; a new pod takes its place in the queue and starts anew.  Within an instant each event takes a
microsecond, so that no two pods have the same age.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from functools import partial

from msgspec.structs import replace

from emulator.policies.agenda import Agenda
from emulator.policies.kubernetes.cycle import Circle, Decision, GangCycle, arrive, run_cycle
from emulator.policies.kubernetes.model import Bound, BudgetSpec, Group, Node, Pending, Pod, State, Ties
from emulator.policies.kubernetes.queue import Queue
from emulator.policies.kubernetes.snapshot import Snapshot
from emulator.vocabulary import Frozen

STEP_NS = 1000
LOOK_NS = 30 * 10**9
"""How often those are looked at who have been set aside for long; only while anything else is still to happen."""


class Replacement(StrEnum):
    """When a new pod comes in an evicted one's place."""

    TERMINATING = "terminating"
    """At once."""
    GONE = "gone"
    """When it has left its node."""
    NEVER = "never"


class Arrival(Frozen):
    """A pod, when it is created, and how long it runs."""

    pod: Pod
    submit_ns: int
    duration_ns: int | None = None
    """None: it never ends by itself."""
    grace_ns: int = 0
    """From its eviction until it is gone."""
    replacement: Replacement = Replacement.TERMINATING
    node: str | None = None
    """Where it is from the beginning; None: it waits to be placed."""


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
        self._budgets = tuple(budgets)
        standing = tuple(each.standing(0) for each in self._budgets)
        self._snapshot = Snapshot(State(tuple(nodes), budgets=standing, groups=tuple(groups)))
        self._queue = Queue()
        self._ties, self._on_decision = ties, on_decision
        self._arrivals: dict[str, Arrival] = {}
        self._replaced: dict[str, tuple[str, int]] = {}
        """Of each pod in another's place: the first one's name, and how many came before it."""
        self._agenda = Agenda()
        self._now_ns = 0
        """With the microseconds that events take within an instant."""
        self._will_look = False
        self._circle = Circle()
        self.day = Day()
        for each in arrivals:
            self._agenda.add(each.submit_ns, _Kind.ARRIVE, partial(self._create, each))

    def play(self) -> Day:
        """Play until nothing is left to happen.  Raises CannotGoOnError: evictions go round in a circle."""
        while self._agenda:
            self._agenda.go_on()
            while self._queue.has_ready:
                self._cycle()
            if self._agenda and self._queue.has_aside and not self._will_look:
                self._will_look = True
                self._agenda.add((self._agenda.now_ns // LOOK_NS + 1) * LOOK_NS, _Kind.LOOK, self._look)
        self.day.end_ns = self._agenda.now_ns
        return self.day

    def _step(self) -> int:
        self._now_ns = max(self._now_ns, self._agenda.now_ns) + STEP_NS
        return self._now_ns

    def _create(self, arrival: Arrival) -> None:
        name = arrival.pod.name
        self._arrivals[name] = arrival
        self.day.runs[name] = Run(self._agenda.now_ns)
        since_ns = self._step()
        if arrival.node is None:
            arrive(self._snapshot, self._queue, Pending(arrival.pod, since_ns=since_ns))
        else:
            self._snapshot.add(Bound(arrival.pod, arrival.node, since_ns))
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
        if name not in self._snapshot or self._snapshot[name].terminating:
            return  # it was evicted
        self.day.runs[name].end_ns = self._agenda.now_ns
        self._leave(name)

    def _leave(self, name: str) -> None:
        self._snapshot.remove(name)
        self._step()
        self._queue.pod_left()

    def _gone(self, name: str) -> None:
        self.day.runs[name].gone_ns = self._agenda.now_ns
        self._leave(name)
        if self._arrivals[name].replacement is Replacement.GONE:
            self._create_instead(name)

    def _look(self) -> None:
        self._will_look = False
        self._queue.look(self._step())

    def _cycle(self) -> None:
        """One cycle, and what the rest of the cluster makes of it."""
        self._snapshot.restand(self._budgets)
        decision = run_cycle(self._snapshot, self._queue, self._step(), self._ties)
        assert decision is not None, "a pod was ready"
        self.day.cycles += 1
        if self._on_decision is not None:
            self._on_decision(self._agenda.now_ns, decision)
        self._step()  # the pod's new state becomes known
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
        self._circle.evicted(self._agenda.now_ns, self._origin(name)[0])
        self.day.evictions += 1
        self.day.lost_ns += run.lost_ns
        self._step()
        if grace_ns:
            self._agenda.add(self._agenda.now_ns + grace_ns, _Kind.GONE, lambda: self._gone(name))
        else:
            self._gone(name)
        if self._arrivals[name].replacement is Replacement.TERMINATING:
            self._create_instead(name)

"""Plays arrivals through whole cycles in virtual time: what becomes of each workload, and whether evictions ever end.

At each instant one cycle follows another until nothing changes.  A workload ends when it has run for its duration in
one piece; what is evicted gives its quota back ``release_ns`` later, goes back into its queue with its old age, and
starts anew.  Whoever is set aside is woken ``batch_ns`` after quota was freed in its tree.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from functools import partial

from emulator.policies.agenda import Agenda
from emulator.policies.kueue.controller import BATCH_NS, Controller
from emulator.policies.kueue.cycle import Decision, Outcome
from emulator.policies.kueue.model import Flavors, Reason, Ties
from emulator.policies.kueue.returns import Loop, Returns, RunningReturns
from emulator.policies.kueue.snapshot import Held
from emulator.sites.kueue import Arrival, Cluster, Workload
from emulator.vocabulary import Frozen

_FIRST, _LATER = 0, 1
"""The order of what happens at one instant."""


class Admission(Frozen):
    """A start."""

    at_ns: int
    flavors: Flavors


class Eviction(Frozen):
    """An end before its time."""

    at_ns: int
    by: str
    reason: Reason
    lost_ns: int
    """Of its run."""


@dataclass(slots=True)
class History:
    """What became of a workload."""

    admissions: list[Admission] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    finish_ns: int | None = None


@dataclass(slots=True)
class Day:
    """What a player has played."""

    histories: dict[str, History]
    cycles: int = 0
    end_ns: int = 0
    loop: Loop | None = None


OnDecision = Callable[[int, int, Decision], None]
"""Called with the time, the cycle and what it decided."""


class Player:
    """One play of a cluster and its arrivals."""

    def __init__(
        self,
        cluster: Cluster,
        arrivals: Iterable[Arrival],
        ties: Ties,
        release_ns: int = 0,
        batch_ns: int = BATCH_NS,
        on_decision: OnDecision | None = None,
        returns: Returns | None = None,
        minimum_runtime_ns: int = 0,
    ) -> None:
        """``returns``: tells when it is a loop; without it, the same workloads that run again and again are one.
        ``minimum_runtime_ns``: how long each runs before it may be preempted."""
        self._controller = Controller(cluster, ties, batch_ns)
        self._release_ns, self._minimum_runtime_ns = release_ns, minimum_runtime_ns
        self._on_decision = on_decision
        self._durations_ns: dict[str, int | None] = {}
        self._running: dict[str, tuple[int, Held]] = {}
        """When each was admitted."""
        self._returns = RunningReturns() if returns is None else returns
        self._agenda = Agenda()
        self.day = Day({})
        for arrival in arrivals:
            workload = arrival.workload
            self._durations_ns[workload.name] = arrival.duration_ns
            self.day.histories[workload.name] = History()
            self._agenda.add(workload.created_ns, _LATER, partial(self._arrive, workload), workload.name)

    @property
    def running(self) -> Iterable[str]:
        """The workloads that run now."""
        return self._running

    @property
    def cycles(self) -> int:
        """Run so far."""
        return self._controller.cycles

    def play(self) -> Day:
        """Play until nothing is left to happen, or until a loop."""
        while self._agenda and self.day.loop is None:
            self._agenda.go_on()
            for decisions in self._controller.cycle_by_cycle(self._agenda.now_ns):
                self._carry_out(decisions)
                if self.day.loop is not None:
                    break
        self.day.end_ns, self.day.cycles = self._agenda.now_ns, self.cycles
        return self.day

    def state(self) -> Hashable:
        """All that decides what happens next; equal if times differ only by a shift, or keep their order.

        The times of reservations matter by their order, those of what is to come by how far they are.
        """
        held = [each for queue in self._controller.snapshot.held.values() for each in queue.values()]
        order = sorted({self._agenda.now_ns, *(each.admitted.reserved_ns for each in held)})
        rank = {reserved_ns: number for number, reserved_ns in enumerate(order)}
        admitted = frozenset(
            (each.workload.name, rank[each.admitted.reserved_ns], each.evicted, *map(repr, each.admitted.flavors))
            for each in held
        )
        ends = frozenset(
            (name, since_ns + duration_ns - self._agenda.now_ns)
            for name, (since_ns, _) in self._running.items()
            if (duration_ns := self._durations_ns[name]) is not None
        )
        freed = frozenset(root.name for root in self._controller.freed)
        queued, to_come = self._controller.queues.state(self.cycles), tuple(self._agenda.to_come())
        return admitted, rank[self._agenda.now_ns], queued, to_come, ends, freed

    def _arrive(self, workload: Workload) -> None:
        self._returns.forget(self._agenda.now_ns)
        self._controller.queues.add(workload)

    def _finish(self, name: str, held: Held) -> None:
        if name not in self._running or self._running[name][1] is not held:
            return  # this run was evicted
        self._returns.forget(self._agenda.now_ns)
        del self._running[name]
        self.day.histories[name].finish_ns = self._agenda.now_ns
        self._free(held)

    def _release(self, held: Held) -> None:
        self._free(held)
        self._controller.queues.add(held.workload)

    def _free(self, held: Held) -> None:
        was_due = self._controller.wake_ns is not None
        self._controller.free(held, self._agenda.now_ns)
        if not was_due and self._controller.wake_ns is not None:
            self._agenda.add(self._controller.wake_ns, _FIRST, self._controller.wake, "wake")

    def _carry_out(self, decisions: list[Decision]) -> None:
        """Start and evict those of whom one cycle has decided so."""
        effects: dict[str, Callable[[], None]] = {}
        for decision in decisions:
            if self._on_decision is not None:
                self._on_decision(self._agenda.now_ns, self.cycles, decision)
            if decision.outcome is Outcome.ADMITTED:
                effects[decision.workload.name] = lambda decision=decision: self._start(decision)
            for victim in decision.victims:
                if victim.name in decision.evicted:
                    by, reason = decision.workload.name, victim.reason
                    effects[victim.name] = lambda name=victim.name, by=by, reason=reason: self._evict(name, by, reason)
        for name in sorted(effects):
            effects[name]()
        if effects:
            self.day.loop = self._returns.look(self, self._agenda.now_ns)

    def _start(self, decision: Decision) -> None:
        name, now_ns = decision.workload.name, self._agenda.now_ns
        held = self._controller.snapshot.held[decision.workload.queue][name]
        self._running[name] = now_ns, held
        self.day.histories[name].admissions.append(Admission(now_ns, decision.assignment.flavors))
        if self._minimum_runtime_ns:
            held.spared_until_ns = now_ns + self._minimum_runtime_ns
            self._agenda.add(held.spared_until_ns, _LATER, partial(self._controller.unspare, held), f"{name} is spared")
        duration_ns = self._durations_ns[name]
        if duration_ns is not None:
            self._agenda.add(now_ns + duration_ns, _LATER, lambda: self._finish(name, held))  # unless it is evicted

    def _evict(self, name: str, by: str, reason: Reason) -> None:
        since_ns, held = self._running.pop(name)
        now_ns = self._agenda.now_ns
        self.day.histories[name].evictions.append(Eviction(now_ns, by, reason, now_ns - since_ns))
        self._returns.evicted.append(name)
        if self._release_ns:
            self._agenda.add(now_ns + self._release_ns, _LATER, lambda: self._release(held), f"{name} is released")
        else:
            self._release(held)

"""Evictions that never end: found in a play of any scheduler, and for small plans exactly, in the state of Kueue.

``PlanPlay`` drives Kueue's controller itself, without the protocol of schedulers: a search plays tens of thousands of
plans, and compares whole states, which are the controller's own.  At each instant one cycle follows another until
nothing changes.  A workload ends when it has run for its duration in one piece; what is evicted gives its quota back
after the plan's release, and goes back into its queue with its old age.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import partial
from heapq import heappop, heappush

from emulator.loops.draw import Plan
from emulator.policies.kueue.controller import Controller
from emulator.policies.kueue.cycle import Decision, Outcome
from emulator.policies.kueue.model import first_name
from emulator.policies.kueue.snapshot import Held
from emulator.policies.schedulers.play import Player
from emulator.policies.schedulers.protocol import Cycle
from emulator.sites.kueue import Arrival
from emulator.vocabulary import Frozen

_FIRST, _LATER = 0, 1
"""The order of what happens at one instant."""
MAX_RETURNS = 10


class Loop(Frozen):
    """What comes back again and again."""

    at_ns: int
    since_ns: int
    """The last arrival or end before."""
    period_ns: int
    workloads: tuple[str, ...]
    """Those that were evicted."""
    cycles: tuple[int, int] = (0, 0)
    """The cycle after which it was so for the first time, and the one after which it was so again."""


class RunningSetDetector:
    """Finds that the same jobs run for the eleventh time since one was submitted or done: the measure of the recorded
    days of Kueue."""

    def __init__(self) -> None:
        self._changes = 0
        self._seen: dict[frozenset[str], tuple[int, int]] = {}
        """How often these jobs ran, and since when the last time."""
        self._evicted: list[str] = []

    def look(self, player: Player, cycle: Cycle) -> Loop | None:
        """Look after each cycle of a play."""
        if player.changes != self._changes:
            self._changes, self._seen, self._evicted = player.changes, {}, []
        if not (cycle.starts or cycle.victims):
            return None
        self._evicted += cycle.victims
        running = frozenset(player.running)
        times, last_ns = self._seen.get(running, (0, 0))
        self._seen[running] = times + 1, player.now_ns
        if times < MAX_RETURNS:
            return None
        return Loop(player.now_ns, player.changed_ns, player.now_ns - last_ns, tuple(sorted(set(self._evicted))))


class PlanPlay:
    """One play of a plan; see the module's text."""

    def __init__(self, plan: Plan, on_decision: Callable[[int, int, Decision], None] | None = None) -> None:
        """``on_decision`` is called with the time, the cycle and each decision."""
        self.evictions = 0
        self._controller = Controller(plan.cluster, first_name)
        self._release_ns, self._on_decision = plan.release_ns, on_decision
        self._durations_ns = {each.workload.name: each.duration_ns for each in plan.arrivals}
        self._running: dict[str, tuple[int, Held]] = {}
        """Since when each runs."""
        self._now_ns = self._since_ns = 0
        self._pending: list[tuple[int, int, int, str, Callable[[], None]]] = []
        """By their time, their order at it and their number; a name is given to what ``_state`` has not already."""
        self._added = 0
        self._seen: dict[Hashable, tuple[int, int, int]] = {}
        """Of each state since then: when it was, after which cycle and how many evictions."""
        self._evicted: list[str] = []
        """Since the last arrival or end."""
        for each in plan.arrivals:
            self._at(each.workload.created_ns, partial(self._arrive, each), each.workload.name)

    @property
    def cycles(self) -> int:
        """How many cycles were run."""
        return self._controller.cycles

    def play(self) -> Loop | None:
        """Play until a state comes back with evictions between, from where it goes the same way for ever: that loop; or
        until nothing is left to happen: None."""
        while self._pending:
            self._now_ns = self._pending[0][0]
            while self._pending and self._pending[0][0] == self._now_ns:
                heappop(self._pending)[-1]()
            for decisions in self._controller.cycle_by_cycle(self._now_ns):
                if self._carry_out(decisions) and (loop := self._loop()) is not None:
                    return loop
        return None

    def _at(self, at_ns: int, happens: Callable[[], None], name: str = "", order: int = _LATER) -> None:
        heappush(self._pending, (at_ns, order, self._added, name, happens))
        self._added += 1

    def _changed(self) -> None:
        """Somebody arrives or ends: what was before cannot come back."""
        self._seen, self._evicted, self._since_ns = {}, [], self._now_ns

    def _arrive(self, arrival: Arrival) -> None:
        self._changed()
        self._controller.queues.add(arrival.workload)

    def _finish(self, name: str, held: Held) -> None:
        if name in self._running and self._running[name][1] is held:  # else this run was evicted
            self._changed()
            del self._running[name]
            self._free(held)

    def _release(self, held: Held) -> None:
        self._free(held)
        self._controller.queues.add(held.workload)

    def _free(self, held: Held) -> None:
        was_due = self._controller.wake_ns is not None
        self._controller.free(held, self._now_ns)
        if not was_due and self._controller.wake_ns is not None:
            self._at(self._controller.wake_ns, self._controller.wake, "wake", _FIRST)

    def _carry_out(self, decisions: Iterable[Decision]) -> bool:
        """Start and evict those of whom one cycle has decided so; whether there are any."""
        effects: dict[str, Callable[[], None]] = {}
        for decision in decisions:
            if self._on_decision is not None:
                self._on_decision(self._now_ns, self.cycles, decision)
            if decision.outcome is Outcome.ADMITTED:
                effects[decision.workload.name] = partial(self._start, decision)
            for victim in decision.evicted:
                effects[victim] = partial(self._evict, victim)
        for name in sorted(effects):
            effects[name]()
        return bool(effects)

    def _start(self, decision: Decision) -> None:
        name = decision.workload.name
        held = self._controller.snapshot.held[decision.workload.queue][name]
        self._running[name] = self._now_ns, held
        duration_ns = self._durations_ns[name]
        if duration_ns is not None:
            self._at(self._now_ns + duration_ns, partial(self._finish, name, held))

    def _evict(self, name: str) -> None:
        _, held = self._running.pop(name)
        self.evictions += 1
        self._evicted.append(name)
        if self._release_ns:
            self._at(self._now_ns + self._release_ns, partial(self._release, held), f"{name} is released")
        else:
            self._release(held)

    def _loop(self) -> Loop | None:
        """Compare with every state since the last arrival or end."""
        if not self._evicted:
            return None
        now = self._now_ns, self.cycles, len(self._evicted)
        then_ns, then_cycle, then_evicted = self._seen.setdefault(self._state(), now)
        evicted = tuple(sorted(set(self._evicted[then_evicted:])))
        if not evicted:
            return None
        return Loop(self._now_ns, self._since_ns, self._now_ns - then_ns, evicted, (then_cycle, self.cycles))

    def _state(self) -> Hashable:
        """All that decides what happens next; equal if times differ only by a shift, or keep their order.

        The times of reservations matter by their order, those of what is pending by how far they are.
        """
        held = [each for queue in self._controller.snapshot.held.values() for each in queue.values()]
        order = sorted({self._now_ns, *(each.reserved_ns for each in held)})
        rank = {reserved_ns: number for number, reserved_ns in enumerate(order)}
        admitted = frozenset(
            (each.workload.name, rank[each.reserved_ns], each.evicted, *map(repr, each.flavors)) for each in held
        )
        ends = frozenset(
            (name, since_ns + duration_ns - self._now_ns)
            for name, (since_ns, _) in self._running.items()
            if (duration_ns := self._durations_ns[name]) is not None
        )
        freed = frozenset(root.name for root in self._controller.freed)
        queued = self._controller.queues.state(self.cycles)
        pending = tuple((at_ns - self._now_ns, name) for at_ns, _, _, name, _ in sorted(self._pending) if name)
        return admitted, rank[self._now_ns], queued, pending, ends, freed

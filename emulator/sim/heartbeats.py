"""Which heartbeats are run: all of them, or those that may say or change something.

Theory of operation
-------------------
A heartbeat that says nothing and changes nothing leaves no trace, in its machine, in the ResourceManager or in the
journal, so a run without it is the same run; with thousands of nodes nearly all are such.  A heartbeat is run when

* its own machine may have something to say (``PeriodicMachine.heartbeat_due_ns``);
* the ResourceManager has something to tell its sender, or to find out (``emulator.core.attention``); or
* its node has a free container and the ResourceManager has requests that a free node might serve.  Of all those nodes
  only the next one to send a heartbeat is woken, and after it the next if requests are left: a request costs one
  heartbeat, not one of every free node.

To run one too many does no harm.  Where messages travel for a while, a heartbeat that was left out would still be on
its way when something comes up that it would have met: it is then sent after the fact, from a machine that is still in
the state it was in then, because this is done before it is told anything new.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from emulator.core.effects import SetTimer
from emulator.core.machine import HEARTBEAT, PeriodicMachine, Phase
from emulator.core.messages import RESOURCE_MANAGER, Message, NodeHeartbeat, NodeLost, TimerFired, node_address
from emulator.core.resource_manager import ResourceManager
from emulator.sim.cost_model import CostModel, Network
from emulator.sim.kernel import Kernel

_OF_NODES = (NodeHeartbeat, NodeLost)

Run = Callable[[str, TimerFired, int], None]
"""``run(address, fired, at_ns)`` has a machine handle its timer, at an instant that may have passed."""


class EveryHeartbeat:
    """Runs them all."""

    def __init__(self, kernel: Kernel, costs: CostModel, run: Run) -> None:
        self._kernel = kernel
        self._costs = costs
        self._run = run
        self._ranks: dict[str, int] = {}

    def add(self, machine: PeriodicMachine, rank: int) -> None:
        """A machine is on; of beats of one instant the lower ``rank`` goes first."""
        self._ranks[machine.address] = rank

    def remove(self, address: str) -> None:
        """A machine is about to be switched off."""

    def set_timer(self, address: str, effect: SetTimer) -> None:
        """A machine has set its heartbeat's timer."""
        at_ns = max(self._kernel.now_ns, effect.at_ns + self._costs.timer_lag(address, effect.at_ns))
        fired = TimerFired(HEARTBEAT, effect.generation, effect.at_ns)
        self._kernel.beat(at_ns, self._ranks[address], partial(self._run, address, fired, at_ns))

    def before(self, address: str) -> None:
        """The machine of ``address`` is about to be told something."""

    def after(self, address: str, message: Message) -> None:
        """The machine of ``address`` has handled ``message``, and its effects have been carried out."""


@dataclass(slots=True)
class _Beats:
    """The heartbeats of one machine, by the instant each is due."""

    machine: PeriodicMachine
    phase: Phase
    rank: int
    run_ns: int
    """The last one run, or when the machine was switched on."""
    planned_ns: int | None = None
    """The next one to be run; None: none is planned."""
    awake_until_ns: int = -1
    """Until when all are run because one before could still be overtaken."""
    free: bool = False
    """Whether its node is known to have a free container."""
    place: tuple[int, int] = field(init=False)
    """Its place among the beats of a period."""

    def __post_init__(self) -> None:
        self.place = (self.phase.phase_ns, self.rank)


class HeartbeatsThatMatter:
    """Leaves out the others; see the module's theory of operation.  Methods as those of ``EveryHeartbeat``.

    No timer may be as late as a period.
    """

    def __init__(self, kernel: Kernel, costs: CostModel, network: Network, run: Run) -> None:
        self._kernel = kernel
        self._costs = costs
        self._run = run
        self._longest_lag_ns = costs.longest_timer_lag_ns
        self._horizon_ns = self._longest_lag_ns + network.longest_ns
        """No heartbeat arrives later than this after it is due."""
        self._beats: dict[str, _Beats] = {}
        self._manager: ResourceManager | None = None
        self._free: list[tuple[tuple[int, int], _Beats]] = []
        """Nodes with a free container, in the order of their beats in a period."""

    def add(self, machine: PeriodicMachine, rank: int) -> None:
        if machine.heartbeat is not None:
            self._beats[machine.address] = _Beats(machine, machine.heartbeat, rank, self._kernel.now_ns)
        if isinstance(machine, ResourceManager):
            self._manager = machine

    def remove(self, address: str) -> None:
        beats = self._beats.get(address)
        if beats is None:
            return
        self._catch_up(beats)  # what it has sent arrives, whatever becomes of it
        del self._beats[address]
        self._keep_free(beats, False)

    def set_timer(self, address: str, effect: SetTimer) -> None:
        pass  # the next beat is planned when it is known to matter

    def before(self, address: str) -> None:
        if address != RESOURCE_MANAGER:
            beats = self._beats.get(address)
            if beats is not None:
                self._catch_up(beats)

    def after(self, address: str, message: Message) -> None:
        beats = self._beats.get(address)
        if beats is None:
            return
        due_ns = self._due_ns(beats)
        if due_ns is not None:
            self._plan(beats, due_ns)
        if beats.machine is self._manager:
            self._after_manager(message)

    def _due_ns(self, beats: _Beats) -> int | None:
        """From when on a beat may matter, to its machine or because the ResourceManager awaits it; None: none will."""
        now_ns = self._kernel.now_ns
        if self._manager is not None and beats.machine.address in self._manager.state.attention.awaited:
            return now_ns
        due_ns = beats.machine.heartbeat_due_ns(now_ns)
        return None if due_ns is None else max(due_ns, now_ns)

    def _after_manager(self, message: Message) -> None:
        manager = self._manager
        assert manager is not None
        for address in manager.state.attention.newly_awaited:
            if address in self._beats:
                self._wake(self._beats[address], self._kernel.now_ns)
        if isinstance(message, _OF_NODES):
            beats = self._beats.get(node_address(message.node))
            if beats is not None:
                self._keep_free(beats, message.node in manager.state.free_nodes)
        if self._free:
            due_ns = manager.free_node_due_ns(self._kernel.now_ns)
            if due_ns is not None:
                self._wake_free(due_ns)

    # ---- nodes with a free container ----

    def _keep_free(self, beats: _Beats, free: bool) -> None:
        if free != beats.free:
            beats.free = free
            at = bisect_left(self._free, beats.place, key=_place)
            if free:
                self._free.insert(at, (beats.place, beats))
            else:
                del self._free[at]

    def _wake_free(self, due_ns: int) -> None:
        """Wake the first of them that sends a heartbeat from ``due_ns`` on."""
        if self._horizon_ns:
            for _, beats in self._free:  # which heartbeat arrives first is not known
                self._wake(beats, due_ns)
            return
        period_ns = self._free[0][1].phase.period_ns
        rank = self._kernel.beat_rank if due_ns <= self._kernel.now_ns else -1
        at = bisect_right(self._free, (due_ns % period_ns, rank), key=_place)
        self._wake(self._free[at % len(self._free)][1], due_ns)

    # ---- running beats ----

    def _wake(self, beats: _Beats, due_ns: int) -> None:
        self._catch_up(beats)
        self._plan(beats, due_ns)

    def _plan(self, beats: _Beats, due_ns: int) -> None:
        """Have the first beat from ``due_ns`` on run."""
        if due_ns + self._horizon_ns > beats.awake_until_ns:
            beats.awake_until_ns = due_ns + self._horizon_ns
        if beats.planned_ns is not None and beats.planned_ns - beats.phase.period_ns + self._longest_lag_ns < due_ns:
            return  # the one before it is too early
        nominal_ns = max(beats.phase.until(due_ns - self._longest_lag_ns), beats.phase.after(beats.run_ns))
        while True:
            fires_ns = self._fires_ns(beats, nominal_ns)
            if fires_ns >= due_ns and not self._has_passed(beats, fires_ns):
                break
            nominal_ns += beats.phase.period_ns
        if beats.planned_ns is None or nominal_ns < beats.planned_ns:
            beats.planned_ns = nominal_ns
            self._kernel.beat(fires_ns, beats.rank, partial(self._beat, beats, nominal_ns))

    def _beat(self, beats: _Beats, nominal_ns: int) -> None:
        address, now_ns = beats.machine.address, self._kernel.now_ns
        if beats.planned_ns != nominal_ns or self._beats.get(address) is not beats:
            return
        beats.planned_ns = None
        overtakes = self._horizon_ns >= beats.phase.period_ns and now_ns <= beats.awake_until_ns
        due_ns = self._due_ns(beats)
        if beats.free:
            free_ns = self._manager.free_node_due_ns(now_ns) if self._manager is not None else None
            due_ns = min((at_ns for at_ns in (due_ns, free_ns) if at_ns is not None), default=None)
        if overtakes or due_ns == now_ns:
            self._run_beat(beats, nominal_ns, now_ns)
        elif due_ns is not None:
            self._plan(beats, due_ns)
        if overtakes:
            awake_until_ns = beats.awake_until_ns
            self._plan(beats, now_ns)
            beats.awake_until_ns = awake_until_ns

    def _catch_up(self, beats: _Beats) -> None:
        """Run the beats that could still be on their way."""
        if not self._horizon_ns:
            return
        now_ns = self._kernel.now_ns
        nominal_ns = max(beats.phase.until(now_ns - self._horizon_ns), beats.phase.after(beats.run_ns))
        while nominal_ns <= now_ns:
            fires_ns = self._fires_ns(beats, nominal_ns)
            if not self._has_passed(beats, fires_ns):
                return
            self._run_beat(beats, nominal_ns, fires_ns)
            nominal_ns += beats.phase.period_ns

    def _run_beat(self, beats: _Beats, nominal_ns: int, fires_ns: int) -> None:
        beats.run_ns = nominal_ns
        self._run(beats.machine.address, TimerFired(HEARTBEAT, 0, nominal_ns), fires_ns)
        if beats.free and self._manager is not None:
            due_ns = self._manager.free_node_due_ns(self._kernel.now_ns)
            if due_ns is not None:  # it may be lost on its way: then the next one matters, else that will not be run
                self._plan(beats, max(due_ns, self._kernel.now_ns))

    def _fires_ns(self, beats: _Beats, nominal_ns: int) -> int:
        return nominal_ns + self._costs.timer_lag(beats.machine.address, nominal_ns)

    def _has_passed(self, beats: _Beats, fires_ns: int) -> bool:
        now_ns = self._kernel.now_ns
        return fires_ns < now_ns or (fires_ns == now_ns and beats.rank <= self._kernel.beat_rank)


def _place(entry: tuple[tuple[int, int], _Beats]) -> tuple[int, int]:
    return entry[0]

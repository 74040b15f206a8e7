"""Which heartbeats are run: all of them, or those that may say or change something.

Theory of operation
-------------------
A heartbeat that says and changes nothing leaves no trace in its machine, in the ResourceManager or in the journal, so a
run without it is the same run; with thousands of nodes nearly all heartbeats are empty.  A heartbeat is run when

* its own machine may have something to say (``StateMachine.heartbeat_due_ns``);
* the ResourceManager has something to tell its sender, or to find out (``ResourceManager.awaits``); or
* its node has a free container and the ResourceManager has requests that a free node might serve.  Only the next of
  these nodes to send a heartbeat is woken, and after it the next one if requests are left: a request costs one
  heartbeat, not one of every free node.

Which beats may matter is checked only after everything that an event has set for its instant.  So a machine that gets
several messages or answers at one instant is checked once.

Running a heartbeat too many does no harm.  But if messages take time to travel, a heartbeat that was left out could
still be travelling when something happens that it would meet.  Then it is sent afterwards.  Its machine is still in the
state of that time, because this is done before the machine gets any new message.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from emulator.core.completions import Committing, FirstKey, Launched
from emulator.core.machine import Phase, StateMachine
from emulator.core.messages import (
    RESOURCE_MANAGER,
    EndReceived,
    MapOutputs,
    Message,
    NodeHeartbeat,
    NodeLost,
    Tick,
    node_address,
)
from emulator.core.resource_manager.resource_manager import ResourceManager
from emulator.sim.cost_model import CostModel, Network
from emulator.sim.kernel import Kernel

_OF_NODES = (NodeHeartbeat, NodeLost)
_NO_NEWS = frozenset({Launched, FirstKey, Committing, EndReceived, MapOutputs})
"""Messages after which a node has nothing new to tell the ResourceManager."""

Run = Callable[[str, Tick, int], None]
"""``run(address, tick, at_ns)`` lets a machine handle its tick, at a time that may be past."""


class EveryHeartbeat:
    """Runs all heartbeats."""

    def __init__(self, kernel: Kernel, costs: CostModel, run: Run) -> None:
        self._kernel = kernel
        self._costs = costs
        self._run = run
        self._times_on: Counter[str] = Counter()
        """How often each machine has been switched on or off; plans made before the last time are void."""

    def add(self, machine: StateMachine, rank: int) -> None:
        """A machine is switched on; of beats at one instant, the lower ``rank`` goes first."""
        self._times_on[machine.address] += 1
        self._plan_next(machine, rank, self._times_on[machine.address])

    def remove(self, address: str) -> None:
        """A machine will be switched off now."""
        self._times_on[address] += 1

    def _plan_next(self, machine: StateMachine, rank: int, times_on: int) -> None:
        if machine.heartbeat is not None:
            nominal_ns = machine.heartbeat.after(self._kernel.now_ns)
            fires_ns = nominal_ns + self._costs.timer_lag(machine.address, nominal_ns)
            self._kernel.heartbeat(fires_ns, rank, partial(self._beat, machine, rank, times_on, nominal_ns))

    def _beat(self, machine: StateMachine, rank: int, times_on: int, nominal_ns: int) -> None:
        if self._times_on[machine.address] == times_on:
            self._run(machine.address, Tick(nominal_ns), self._kernel.now_ns)
            self._plan_next(machine, rank, times_on)

    def before(self, address: str) -> None:
        """The machine of ``address`` will now get a message."""

    def after(self, address: str, message: Message) -> None:
        """The machine of ``address`` has handled ``message``, and its effects were carried out."""


@dataclass(slots=True)
class _MachineHeartbeats:
    """The heartbeats of one machine, identified by their due times."""

    machine: StateMachine
    phase: Phase
    rank: int
    run_ns: int
    """Due time of the last beat run, or the time when the machine was switched on."""
    planned_ns: int | None = None
    """Due time of the next beat planned; None: none is planned."""
    in_kernel: set[int] = field(default_factory=set)
    """Due times of the beats that the kernel has an event for, planned or not any more."""
    awake_until_ns: int = -1
    """The time until which all beats are run, because an earlier one could still be overtaken."""
    may_be_awaited: bool = True
    """Whether it has sent a heartbeat, or there was more to tell it, since the ResourceManager last did not await it.
    """
    free: bool = False
    """Whether its node is known to have a free container."""
    place: tuple[int, int] = field(init=False)
    """The position of the machine's beat among the beats of a period."""

    def __post_init__(self) -> None:
        self.place = (self.phase.phase_ns, self.rank)


class RelevantHeartbeats:
    """Runs only the beats that may matter; see the module's theory of operation.  Same methods as ``EveryHeartbeat``.

    No timer may be late by a period or more.
    """

    def __init__(self, kernel: Kernel, costs: CostModel, network: Network, run: Run) -> None:
        self._kernel = kernel
        self._costs = costs
        self._run = run
        self._longest_lag_ns = costs.longest_timer_lag_ns
        self._horizon_ns = self._longest_lag_ns + network.longest_ns
        """The longest time between the due time of a heartbeat and its arrival."""
        self._beats: dict[str, _MachineHeartbeats] = {}
        self._manager: ResourceManager | None = None
        self._touched: dict[str, _MachineHeartbeats] = {}
        """Machines to check, because they got a message or the ResourceManager awaits them."""
        self._nodes_notified: dict[str, None] = {}
        """Nodes that the ResourceManager has heard from or lost."""
        self._free: list[tuple[tuple[int, int], _MachineHeartbeats]] = []
        """Nodes with a free container, in the order of their beats in a period, except those known to be too small."""
        self._too_small: dict[str, None] = {}
        """Nodes that were, since something smaller was last asked for."""
        self._smaller_asked = 0

    def add(self, machine: StateMachine, rank: int) -> None:
        if machine.heartbeat is not None:
            self._beats[machine.address] = _MachineHeartbeats(machine, machine.heartbeat, rank, self._kernel.now_ns)
        if isinstance(machine, ResourceManager):
            self._manager = machine

    def remove(self, address: str) -> None:
        beats = self._beats.get(address)
        if beats is None:
            return
        self._catch_up(beats)  # what it has already sent still arrives
        del self._beats[address]
        self._touched.pop(address, None)
        if beats.free:  # if it was its turn, it is now the next one's
            self._set_free(beats, False)
            manager = self._beats.get(RESOURCE_MANAGER)
            if manager is not None:
                self._touched[RESOURCE_MANAGER] = manager

    def before(self, address: str) -> None:
        beats = self._beats.get(address)
        if beats is not None and address != RESOURCE_MANAGER:
            self._catch_up(beats)

    def after(self, address: str, message: Message) -> None:
        if type(message) in _NO_NEWS:
            return
        beats = self._beats.get(address)
        if beats is None:
            return
        self._touched[address] = beats
        if beats.machine is self._manager:
            self._after_manager(message)
        if self._horizon_ns:
            self.catch_up()

    def _after_manager(self, message: Message) -> None:
        assert self._manager is not None
        for address in self._manager.state.awaited.newly_awaited:
            awaited = self._beats.get(address)
            if awaited is not None:
                awaited.may_be_awaited = True
                self._touched[address] = awaited
                self._catch_up(awaited)
        if isinstance(message, _OF_NODES):
            self._nodes_notified[message.node] = None

    def catch_up(self) -> None:
        """Plan the beats that may matter, in the present state."""
        if not self._touched:
            return
        touched, self._touched = self._touched, {}
        self._keep_free()
        for beats in touched.values():
            if beats.planned_ns is None or not self._is_next(beats, beats.planned_ns):
                due_ns = self._own_due_ns(beats)
                if due_ns is not None:
                    self._plan(beats, due_ns)
        if not self._free or self._manager is None:
            return
        # After a free node's beat it is the next one's turn, even if the network has lost the heartbeat.
        if RESOURCE_MANAGER in touched or any(beats.free for beats in touched.values()):
            due_ns = self._manager.free_node_due_ns(self._kernel.now_ns)
            if due_ns is not None:
                self._wake_free(due_ns)

    def _is_next(self, beats: _MachineHeartbeats, planned_ns: int) -> bool:
        """Whether the beat planned is the very next one; whether it matters is asked again when it comes."""
        if self._horizon_ns >= beats.phase.period_ns:
            return False
        return planned_ns - beats.phase.period_ns + self._longest_lag_ns < self._kernel.now_ns

    def _own_due_ns(self, beats: _MachineHeartbeats) -> int | None:
        """From when on a beat may matter to its machine, or to the ResourceManager other than as that of a free node;
        None: never."""
        now_ns, machine = self._kernel.now_ns, beats.machine
        if beats.may_be_awaited and self._manager is not None:
            if self._manager.awaits(machine.address, machine.received_id):
                return now_ns
            beats.may_be_awaited = False
        due_ns = machine.heartbeat_due_ns(now_ns)
        return None if due_ns is None else max(due_ns, now_ns)

    def _due_ns(self, beats: _MachineHeartbeats) -> int | None:
        """From when on a beat may matter at all."""
        now_ns, due_ns = self._kernel.now_ns, self._own_due_ns(beats)
        if due_ns == now_ns or not beats.free or self._manager is None:
            return due_ns
        free_ns = self._manager.free_node_due_ns(now_ns)
        return due_ns if free_ns is None else max(now_ns, free_ns if due_ns is None else min(due_ns, free_ns))

    # ---- nodes with a free container ----

    def _keep_free(self) -> None:
        """Take in what the ResourceManager has learnt of nodes, and what is asked of them."""
        told, self._nodes_notified = self._nodes_notified, {}
        if self._manager is None:
            return
        state = self._manager.state
        if self._smaller_asked != state.awaited.smaller_requests:
            self._smaller_asked = state.awaited.smaller_requests
            told.update(self._too_small)
            self._too_small.clear()
        for node in told:
            beats = self._beats.get(node_address(node))
            if beats is not None:
                is_small = beats.machine.address in state.awaited.too_small
                if is_small:
                    self._too_small[node] = None
                self._set_free(beats, node in state.free_nodes and not is_small)

    def _set_free(self, beats: _MachineHeartbeats, free: bool) -> None:
        if free != beats.free:
            beats.free = free
            at = bisect_left(self._free, (beats.place,))
            if free:
                self._free.insert(at, (beats.place, beats))
            else:
                del self._free[at]

    def _wake_free(self, due_ns: int) -> None:
        """Wake the first free node that sends a heartbeat from ``due_ns`` on."""
        if self._horizon_ns:
            for _, beats in self._free:  # it is not known whose heartbeat arrives first
                self._wake(beats, due_ns)
            return
        period_ns = self._free[0][1].phase.period_ns
        rank = self._kernel.beat_rank if due_ns <= self._kernel.now_ns else -1
        at = bisect_left(self._free, ((due_ns % period_ns, rank + 1),))
        self._wake(self._free[at % len(self._free)][1], due_ns)

    # ---- running beats ----

    def _wake(self, beats: _MachineHeartbeats, due_ns: int) -> None:
        self._catch_up(beats)
        self._plan(beats, due_ns)

    def _plan(self, beats: _MachineHeartbeats, due_ns: int) -> None:
        """Plan the first beat from ``due_ns`` on."""
        if due_ns + self._horizon_ns > beats.awake_until_ns:
            beats.awake_until_ns = due_ns + self._horizon_ns
        if beats.planned_ns is not None and beats.planned_ns - beats.phase.period_ns + self._longest_lag_ns < due_ns:
            return  # the one before it is too early
        nominal_ns = beats.phase.after(max(due_ns - self._longest_lag_ns - 1, beats.run_ns))
        while True:
            fires_ns = self._fires_ns(beats, nominal_ns)
            if fires_ns >= due_ns and not self._has_passed(beats, fires_ns):
                break
            nominal_ns += beats.phase.period_ns
        if beats.planned_ns is None or nominal_ns < beats.planned_ns:
            beats.planned_ns = nominal_ns
            if nominal_ns not in beats.in_kernel:
                beats.in_kernel.add(nominal_ns)
                self._kernel.heartbeat(fires_ns, beats.rank, partial(self._beat, beats, nominal_ns))

    def _beat(self, beats: _MachineHeartbeats, nominal_ns: int) -> None:
        address, now_ns = beats.machine.address, self._kernel.now_ns
        beats.in_kernel.discard(nominal_ns)
        if beats.planned_ns != nominal_ns or self._beats.get(address) is not beats:
            return
        beats.planned_ns = None
        overtakes = self._horizon_ns >= beats.phase.period_ns and now_ns <= beats.awake_until_ns
        due_ns = self._due_ns(beats)
        if overtakes or due_ns == now_ns:
            self._run_beat(beats, nominal_ns, now_ns)
        elif due_ns is not None:
            self._plan(beats, due_ns)
        if overtakes:
            awake_until_ns = beats.awake_until_ns
            self._plan(beats, now_ns)
            beats.awake_until_ns = awake_until_ns

    def _catch_up(self, beats: _MachineHeartbeats) -> None:
        """Run the beats that could still be travelling."""
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

    def _run_beat(self, beats: _MachineHeartbeats, nominal_ns: int, fires_ns: int) -> None:
        beats.run_ns, beats.may_be_awaited = nominal_ns, True
        self._run(beats.machine.address, Tick(nominal_ns), fires_ns)

    def _fires_ns(self, beats: _MachineHeartbeats, nominal_ns: int) -> int:
        if not self._longest_lag_ns:
            return nominal_ns
        return nominal_ns + self._costs.timer_lag(beats.machine.address, nominal_ns)

    def _has_passed(self, beats: _MachineHeartbeats, fires_ns: int) -> bool:
        now_ns = self._kernel.now_ns
        return fires_ns < now_ns or (fires_ns == now_ns and beats.rank <= self._kernel.beat_rank)

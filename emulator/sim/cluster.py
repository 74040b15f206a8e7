"""A simulated cluster: carries out the machines' effects in virtual time.

Theory of operation
-------------------
Every machine of the run is here, behind a recorder that journals the messages it handles.  A message arrives after the
network's delay.  Messages of one instant are handled first in, first out, each with its effects before the next.
``emulator.sim.processes`` carries out effects on containers.  Nothing here makes decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from emulator.core import effects as fx
from emulator.core.application_master.application_master import ApplicationMaster
from emulator.core.job import JobSpec
from emulator.core.machine import StateMachine
from emulator.core.messages import (
    CLIENT,
    RESOURCE_MANAGER,
    Message,
    NodeLost,
    Start,
    Tick,
    TimerFired,
    job_address,
    node_address,
)
from emulator.core.resource_manager.applications import NodeState
from emulator.core.resource_manager.resource_manager import ResourceManager
from emulator.core.settings import Settings
from emulator.external import process_of
from emulator.records.journal import Record, Recorder
from emulator.resolved import make_machine
from emulator.sim.cost_model import CostModel, Network
from emulator.sim.heartbeats import EveryHeartbeat, RelevantHeartbeats
from emulator.sim.kernel import Kernel
from emulator.sim.processes import VirtualProcesses

_SLICE_EVENTS = 2048


class SimulatedCluster:
    """Machines, virtual processes and virtual time of one run."""

    def __init__(
        self,
        settings: Settings,
        jobs: Mapping[str, JobSpec],
        sink: Callable[[Record], None],
        costs: CostModel | None = None,
        network: Network | None = None,
        every_heartbeat: bool = False,
    ) -> None:
        """``every_heartbeat``: also run heartbeats that say and change nothing; this makes no other difference."""
        self.kernel = Kernel()
        self.finished = False
        self.machines: dict[str, StateMachine] = {}
        self._settings = settings
        self.jobs = jobs
        self._sink = sink
        self._costs = costs or CostModel()
        self._network = network or Network(self._costs)
        self._at_once = type(self._network) is Network and self._network.longest_ns == 0
        """Whether every message arrives at the time it is sent."""
        self.processes = VirtualProcesses(
            self.kernel,
            settings,
            jobs,
            self._costs,
            self.tell,
            self._begin_application,
            self._end_application,
            self._at_once,
        )
        self._external = process_of(settings.scheduler.allocation)
        self._recorders: dict[str, Recorder] = {}
        self._telling = False
        self._halted: dict[str, tuple[StateMachine, Recorder]] = {}
        """Machines that have died and may start again, in the state that their journals would restore."""
        self._silent_ns: dict[str, int] = {}
        """The time at which each node that is gone has died."""
        self._heartbeats = self._make_heartbeats(every_heartbeat)
        self._travels = self._costs.longest_timer_lag_ns + self._network.longest_ns > 0
        """Whether a heartbeat may be travelling when something happens."""
        names = [RESOURCE_MANAGER, *(node_address(node.name) for node in settings.nodes), *map(job_address, jobs)]
        self._ranks = {address: rank for rank, address in enumerate(names)}
        self._carry_out = self._effects()

    def _make_heartbeats(self, every: bool) -> EveryHeartbeat | RelevantHeartbeats:
        late = self._costs.longest_timer_lag_ns >= self._settings.protocol.heartbeat_ns
        if every or late:  # with timers this late, each beat depends on all before it
            return EveryHeartbeat(self.kernel, self._costs, self._heartbeat)
        thrifty = RelevantHeartbeats(self.kernel, self._costs, self._network, self._heartbeat)
        self.kernel.settle = thrifty.catch_up
        return thrifty

    def run(self, limit_ns: int = 10**9 * 10**9, each_slice: Callable[[], None] = lambda: None) -> None:
        """Run from the start to the end of all jobs; ``each_slice`` is called every few thousand events.

        Raises RuntimeError if the end does not come by ``limit_ns``.
        """
        for address in (RESOURCE_MANAGER, *(node_address(node.name) for node in self._settings.nodes), CLIENT):
            self.boot(address, Start())
        while not self.finished:
            each_slice()
            self.kernel.run(limit_ns, _SLICE_EVENTS)
        # The last ApplicationMaster exits when it hears that the end of its job was recorded.
        timeout_ns = self.kernel.now_ns + self._settings.protocol.heartbeat_ns

        def is_over() -> bool:
            next_ns = self.kernel.next_ns
            return next_ns > (timeout_ns if self.processes.tasks else self.kernel.now_ns)

        self.kernel.run(limit_ns, until=is_over)

    def close(self) -> None:
        """End what it has started: the process of an allocation from outside."""
        if self._external is not None:
            self._external.close()

    def free(self) -> None:
        """Free all machines and processes: the tables of a large run need the memory.  The cluster cannot be used after
        that.  Its parts refer to each other, and the garbage collector is off in a simulation, so this is done here."""
        for part in (self._heartbeats, self.kernel, self.processes, self):
            vars(part).clear()

    def boot(self, address: str, start: Start) -> None:
        """Make the machine of ``address``, or restore the one that has died, and tell it to start.

        A dead machine is kept, as its journal would restore the same state (``emulator.records.replay``).
        """
        if address in self._recorders:  # another attempt begins, and the one before has not ended yet
            self.tell(address, start)
            return
        if address in self._halted:
            machine, recorder = self._halted.pop(address)
        else:
            machine = make_machine(address, self._settings, self.jobs)
            recorder = Recorder(machine, self._sink)
        self.machines[address] = machine
        self._recorders[address] = recorder
        self._heartbeats.add(machine, self._ranks.get(address, 0))
        self.tell(address, start)

    def tell(self, address: str, message: Message) -> None:
        """Let a machine handle ``message``, now or after the current one; a machine that is off gets nothing."""
        if self._telling:
            self.kernel.soon(partial(self.tell, address, message))
            return
        recorder = self._recorders.get(address)
        if recorder is None:
            return
        if self._travels:
            self._heartbeats.before(address)
        self._telling = True
        try:
            for effect in recorder.handle(message, self.kernel.now_ns):
                self._carry_out[type(effect)](address, effect)
        finally:
            self._telling = False
        self._heartbeats.after(address, message)

    def _heartbeat(self, address: str, tick: Tick, at_ns: int) -> None:
        """Run a machine's heartbeat.  One due before now is empty, and may still be travelling."""
        if at_ns == self.kernel.now_ns:
            self.tell(address, tick)
            return
        for effect in self._recorders[address].handle(tick, at_ns):
            if isinstance(effect, fx.Send):
                self._send_at(address, effect, at_ns)

    def lose_node(self, node: str, reason: str = "its host has died") -> None:
        """A node dies at once with all that runs on it; the ResourceManager is notified.

        It also gives the node up for its silence, because a registration sent just before may arrive after that news.
        """
        self.silence_node(node)
        self._report_lost(NodeLost(node, reason))

    def _report_lost(self, lost: NodeLost) -> None:
        """Tell the ResourceManager of a lost node, when it is on."""
        if self.is_on(RESOURCE_MANAGER):
            self.tell(RESOURCE_MANAGER, lost)
        else:
            self.kernel.at(self.kernel.now_ns + self._settings.protocol.heartbeat_ns, partial(self._report_lost, lost))

    def silence_node(self, node: str) -> None:
        """A node dies with all that runs on it, and nobody is notified: the ResourceManager gives it up when it has not
        heard from it for ``node_expiry_ns``."""
        self.processes.lose_node(node)
        self._switch_off(node_address(node))
        self._silent_ns[node] = self.kernel.now_ns
        expiry_ns = self._settings.protocol.node_expiry_ns
        self.kernel.at(self.kernel.now_ns + expiry_ns, partial(self._expire_node, node, self.kernel.now_ns))

    def return_node(self, node: str) -> None:
        """A node that is gone is there again, with nothing of what it had."""
        if not self.is_on(node_address(node)):
            self._silent_ns.pop(node, None)
            self.boot(node_address(node), Start())

    def _expire_node(self, node: str, since_ns: int) -> None:
        if self._silent_ns.get(node) != since_ns:
            return  # it has returned
        manager = self.machines[RESOURCE_MANAGER]
        assert isinstance(manager, ResourceManager)
        if manager.state.nodes[node].state is NodeState.LOST:
            return  # it has been notified
        expiry_ns = self._settings.protocol.node_expiry_ns
        lost = NodeLost(node, f"{node} has not been heard of for {expiry_ns / 1e9:g} s")
        if self.is_on(RESOURCE_MANAGER):
            self.tell(RESOURCE_MANAGER, lost)
        else:  # after its restart it waits for the whole time again
            self.kernel.at(self.kernel.now_ns + expiry_ns, partial(self._expire_node, node, since_ns))

    def is_on(self, address: str) -> bool:
        """Whether the machine of ``address`` is on and gets messages."""
        return address in self._recorders

    def restart_manager(self, down_ns: int) -> None:
        """The host of ResourceManager and client dies; after ``down_ns`` both start again.  Messages to them in between
        are lost.

        Leaving heartbeats out assumes that the ResourceManager is on.  So only with ``every_heartbeat`` is the run
        exact to the nanosecond.
        """
        for address in (RESOURCE_MANAGER, CLIENT):
            self._heartbeats.remove(address)
            self._halted[address] = self.machines[address], self._recorders.pop(address)
        self.kernel.at(self.kernel.now_ns + down_ns, self._manager_is_back)

    def _manager_is_back(self) -> None:
        self.boot(RESOURCE_MANAGER, Start())
        self.boot(CLIENT, Start())

    def _switch_off(self, address: str) -> None:
        self._heartbeats.remove(address)
        if address in self._recorders:
            self._halted[address] = self.machines.pop(address), self._recorders.pop(address)

    def _begin_application(self, job: str, container: str) -> None:
        self.boot(job_address(job), Start(container))

    def _end_application(self, job: str, container: str) -> None:
        address = job_address(job)
        master = self.machines.get(address)
        if isinstance(master, ApplicationMaster) and master.container != container:
            return  # a later attempt has begun
        self._switch_off(address)
        if isinstance(master, ApplicationMaster) and master.has_left:
            self._forget(address)

    def _forget(self, address: str) -> None:
        """An ApplicationMaster has left: without false deaths no other attempt is on its way, and memory counts."""
        del self._halted[address]

    # ---- effects ----

    def _effects(self) -> dict[type[fx.Effect], Callable[..., None]]:
        processes = self.processes
        return {
            fx.Send: self._send,
            fx.SetTimer: self._set_timer,
            fx.AllFinished: self._all_finished,
            fx.AskExternalScheduler: self._ask_external_scheduler,
            fx.ReadProgress: processes.read_progress,
            fx.ExitApplication: processes.exit_application,
            fx.Launch: processes.launch,
            fx.ProvideInput: processes.provide_input,
            fx.Suspend: processes.suspend,
            fx.Resume: processes.resume,
            fx.Checkpoint: processes.checkpoint,
            fx.Dump: processes.dump,
            fx.Terminate: processes.terminate,
            fx.Kill: processes.kill,
            fx.CleanUp: processes.clean_up,
            **dict.fromkeys(fx.EXPLANATIONS, self._explain),
        }

    def _send(self, sender: str, effect: fx.Send) -> None:
        if self._at_once:
            self.kernel.soon(partial(self.tell, effect.to, effect.message))
        else:
            self._send_at(sender, effect, self.kernel.now_ns)

    def _send_at(self, sender: str, effect: fx.Send, at_ns: int) -> None:
        for delay_ns in self._network.deliveries(sender, effect.to, effect.message, at_ns):
            if at_ns + delay_ns >= self.kernel.now_ns:
                self.kernel.at(at_ns + delay_ns, partial(self.tell, effect.to, effect.message))

    def _set_timer(self, address: str, effect: fx.SetTimer) -> None:
        fired = TimerFired(effect.name, effect.generation, effect.at_ns)
        fires_ns = effect.at_ns + self._costs.timer_lag(address, effect.at_ns)
        plan = self.kernel.last if effect.is_last else self.kernel.at
        plan(max(fires_ns, self.kernel.now_ns), partial(self.tell, address, fired))

    def _all_finished(self, address: str, effect: fx.AllFinished) -> None:
        self.finished = True
        self.kernel.stop()

    def _ask_external_scheduler(self, address: str, effect: fx.AskExternalScheduler) -> None:
        assert self._external is not None, "no allocation from outside"
        self.tell(address, self._external.ask(effect))

    def _explain(self, address: str, effect: fx.Effect) -> None:
        """Nothing to do: the journal has recorded it."""

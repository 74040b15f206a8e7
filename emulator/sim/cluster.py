"""A simulated cluster: carries out the machines' effects in virtual time.

Theory of operation
-------------------
Every machine of the run is here, behind a recorder that journals what it handles.  A message arrives after the
network's delay; those of one instant are handled first in, first out, each with its effects before the next.  Effects
on containers are carried out by ``emulator.sim.processes``.  Nothing here decides anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from emulator.assemble import make_machine
from emulator.core import effects as fx
from emulator.core.application_master import ApplicationMaster
from emulator.core.job import JobSpec
from emulator.core.machine import PeriodicMachine
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
from emulator.core.settings import Settings
from emulator.records.journal import Record, Recorder
from emulator.sim.cost_model import CostModel, Network
from emulator.sim.heartbeats import EveryHeartbeat, HeartbeatsThatMatter
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
        """``every_heartbeat``: run those too that say and change nothing; it makes no other difference."""
        self.kernel = Kernel()
        self.finished = False
        self.machines: dict[str, PeriodicMachine] = {}
        self._settings = settings
        self.jobs = jobs
        self._sink = sink
        self._costs = costs or CostModel()
        self._network = network or Network(self._costs)
        self.processes = VirtualProcesses(
            self.kernel, settings, jobs, self._costs, self.tell, self._begin_application, self._end_application
        )
        self._recorders: dict[str, Recorder] = {}
        self._telling = False
        self._halted: dict[str, tuple[PeriodicMachine, Recorder]] = {}
        """Machines that have died and may be on again, as their journals would restore them."""
        self._heartbeats = self._make_heartbeats(every_heartbeat)
        self._travels = self._costs.longest_timer_lag_ns + self._network.longest_ns > 0
        """Whether a heartbeat may be on its way when something happens."""
        self._at_once = type(self._network) is Network and self._network.longest_ns == 0
        """Whether every message arrives at the instant it is sent."""
        names = [RESOURCE_MANAGER, *(node_address(node.name) for node in settings.nodes), *map(job_address, jobs)]
        self._ranks = {address: rank for rank, address in enumerate(names)}
        self._carry_out = self._effects()

    def _make_heartbeats(self, every: bool) -> EveryHeartbeat | HeartbeatsThatMatter:
        late = self._costs.longest_timer_lag_ns >= self._settings.protocol.heartbeat_ns
        if every or late:  # a timer that late skips beats, so that the next one depends on all before
            return EveryHeartbeat(self.kernel, self._costs, self._beat)
        thrifty = HeartbeatsThatMatter(self.kernel, self._costs, self._network, self._beat)
        self.kernel.settle = thrifty.settle
        return thrifty

    def run(self, limit_ns: int = 10**9 * 10**9, each_slice: Callable[[], None] = lambda: None) -> None:
        """From the start to the end of all jobs; ``each_slice`` is called every few thousand events.

        Raises RuntimeError when the end does not come by ``limit_ns``.
        """
        for address in (RESOURCE_MANAGER, *(node_address(node.name) for node in self._settings.nodes), CLIENT):
            self.boot(address, Start())
        while not self.finished:
            each_slice()
            self.kernel.run(limit_ns, _SLICE_EVENTS)
        # The last ApplicationMaster leaves when it hears that its job's end has been noted.
        patience_ns = self.kernel.now_ns + self._settings.protocol.heartbeat_ns

        def is_over() -> bool:
            next_ns = self.kernel.next_ns
            return next_ns > (patience_ns if self.processes.tasks else self.kernel.now_ns)

        self.kernel.run(limit_ns, until=is_over)

    def boot(self, address: str, start: Start) -> None:
        """Make the machine of ``address``, or restore the one that has died, and tell it to start.

        A machine is what its journal makes of a fresh one (``emulator.records.replay``): it need not be fed anew.
        """
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
        """Have a machine handle ``message``, now or after the one being handled; one that is gone hears nothing."""
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

    def _beat(self, address: str, tick: Tick, at_ns: int) -> None:
        """A machine's heartbeat is due; one that was due before now says nothing and may still be under way."""
        if at_ns == self.kernel.now_ns:
            self.tell(address, tick)
            return
        for effect in self._recorders[address].handle(tick, at_ns):
            if isinstance(effect, fx.Send):
                self._send_at(address, effect, at_ns)

    def lose_node(self, node: str, reason: str = "its host has died") -> None:
        """A node and all that runs on it is gone from one moment to the next; the ResourceManager is told."""
        self.processes.lose_node(node)
        self._switch_off(node_address(node))
        self._tell_of_lost(NodeLost(node, reason))

    def _tell_of_lost(self, lost: NodeLost) -> None:
        """A ResourceManager that is off is told when it is on again."""
        if self.is_on(RESOURCE_MANAGER):
            self.tell(RESOURCE_MANAGER, lost)
        else:
            self.kernel.at(self.kernel.now_ns + self._settings.protocol.heartbeat_ns, partial(self._tell_of_lost, lost))

    def silence_node(self, node: str) -> None:
        """A node and all that runs on it is gone, and nobody is told: the ResourceManager gives it up when it has not
        heard of it for ``node_expiry_ns``."""
        self.processes.lose_node(node)
        self._switch_off(node_address(node))
        expiry_ns = self._settings.protocol.node_expiry_ns
        self.kernel.at(self.kernel.now_ns + expiry_ns, partial(self._give_up, node, expiry_ns))

    def _give_up(self, node: str, expiry_ns: int) -> None:
        lost = NodeLost(node, f"{node} has not been heard of for {expiry_ns / 1e9:g} s")
        if self.is_on(RESOURCE_MANAGER):
            self.tell(RESOURCE_MANAGER, lost)
        else:  # who is on again waits anew
            self.kernel.at(self.kernel.now_ns + expiry_ns, partial(self._give_up, node, expiry_ns))

    def is_on(self, address: str) -> bool:
        """Whether the machine of ``address`` hears what it is told."""
        return address in self._recorders

    def restart_manager(self, down_ns: int) -> None:
        """The host of ResourceManager and client dies; after ``down_ns`` both are on again.  What is said to them
        meanwhile is lost.

        Which heartbeats can be left out is worked out for a ResourceManager that is there: with ``every_heartbeat``
        only is the run the same to the nanosecond.
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

    def _end_application(self, job: str) -> None:
        address = job_address(job)
        master = self.machines.get(address)
        self._switch_off(address)
        if isinstance(master, ApplicationMaster) and master.has_left:
            del self._halted[address]  # nobody will want it

    # ---- effects ----

    def _effects(self) -> dict[type[fx.Effect], Callable[..., None]]:
        processes = self.processes
        return {
            fx.Send: self._send,
            fx.SetTimer: self._set_timer,
            fx.AllFinished: self._all_finished,
            fx.ReadProgress: processes.read_progress,
            fx.ExitApplication: processes.exit_application,
            fx.Launch: processes.launch,
            fx.ProvideInput: processes.provide_input,
            fx.Suspend: processes.suspend,
            fx.Resume: processes.resume,
            fx.Checkpoint: processes.checkpoint,
            fx.Dump: processes.dump,
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
        self.kernel.at(max(fires_ns, self.kernel.now_ns), partial(self.tell, address, fired))

    def _all_finished(self, address: str, effect: fx.AllFinished) -> None:
        self.finished = True
        self.kernel.stop()

    def _explain(self, address: str, effect: fx.Effect) -> None:
        """The journal has it."""

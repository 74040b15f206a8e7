"""A simulated cluster with faults from a list.

Theory of operation
-------------------
The machines and the simulator know nothing of faults.  Each fault is an event of the kernel.  It does something to a
process, a disk or a node, or it starts a condition (of the network, or a machine's pause) that another event ends.  A
paused machine gets no messages; they are kept, and delivered in order after the pause.  A machine whose clock is ahead
handles everything at a later time than the true one, and its plans take place that much earlier.

Every heartbeat is run, because leaving heartbeats out assumes a network and machines without faults.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from msgspec import structs

from emulator.chaos.invariants import Invariants
from emulator.chaos.schedule import Fault, FaultKind, T
from emulator.core.application_master.application_master import ApplicationMaster
from emulator.core.effects import Effect, Launch, SetTimer
from emulator.core.job import JobSpec
from emulator.core.messages import (
    CLIENT,
    RESOURCE_MANAGER,
    Message,
    NodeLost,
    Tick,
    TimerFired,
    job_address,
    node_address,
)
from emulator.core.settings import Settings
from emulator.records.journal import Record, Recorder
from emulator.sim.cluster import SimulatedCluster
from emulator.sim.cost_model import CostModel, Network
from emulator.vocabulary import Work

_LATEST_NS = 4_000_000_000
_SLOWEST_NS = 20_000_000_000
_REST_NS = 240_000_000_000
"""After the end of the last job and the time to miss a silent node, everything must be free within this time."""
_SIGNAL = 11


@dataclass(frozen=True)
class BadNetwork:
    """How often messages are lost and duplicated, and how late they arrive at most; drawn by ``seed``."""

    seed: int
    loss_percent: int
    duplication_percent: int = 0
    latest_ns: int = _LATEST_NS


class FaultyNetwork(Network):
    """Loses, duplicates and delays messages while it is ``bad``; nothing passes between ``cut_off`` and others.

    What happens to a message depends only on the message.  The client's messages are never lost: it makes a call and
    knows whether that has arrived.
    """

    def __init__(self, costs: CostModel, *bad: BadNetwork) -> None:
        """``bad``: from the start; what is added later delays a message by 4 s at most."""
        super().__init__(costs)
        self.bad = list(bad)
        self.cut_off: list[frozenset[str]] = []
        """The addresses on the far side of each partition."""
        self._latest_ns = max((each.latest_ns for each in bad), default=_LATEST_NS)

    @property
    def longest_ns(self) -> int:
        return super().longest_ns + self._latest_ns

    def deliveries(self, sender: str, to: str, message: Message, now_ns: int) -> tuple[int, ...]:
        delays_ns = super().deliveries(sender, to, message, now_ns)
        if CLIENT in (sender, to):
            return delays_ns
        if any((sender in far) != (to in far) for far in self.cut_off):
            return ()
        for bad in self.bad:
            draw = Random(f"{bad.seed}:{sender}:{to}:{now_ns}:{message}")
            if draw.randrange(100) < bad.loss_percent:
                return ()
            copies = 1 + (draw.randrange(100) < bad.duplication_percent)
            # Half of the messages are fast, because a network that delays all messages reorders few of them.
            late_ns = [draw.randrange(bad.latest_ns + 1) * draw.randrange(2) for _ in range(copies)]
            delays_ns = tuple(delay_ns + more_ns for delay_ns in delays_ns for more_ns in late_ns)
        return delays_ns


class _AheadRecorder(Recorder):
    """The recorder of a machine whose clock is ahead of the others'."""

    def __init__(self, before: Recorder, sink: Callable[[Record], None]) -> None:
        super().__init__(before.machine, sink)
        self.seq, self.ahead_ns = before.seq, 0

    def handle(self, message: Message, now_ns: int) -> list[Effect]:
        """The machine handles ``message`` at the time of its own clock; its plans refer to that clock."""
        if isinstance(message, TimerFired | Tick):
            message = structs.replace(message, due_ns=message.due_ns + self.ahead_ns)
        return [self._told(effect, now_ns) for effect in super().handle(message, now_ns + self.ahead_ns)]

    def _told(self, effect: Effect, now_ns: int) -> Effect:
        if isinstance(effect, SetTimer):
            return structs.replace(effect, at_ns=max(now_ns, effect.at_ns - self.ahead_ns))
        if isinstance(effect, Launch) and effect.first_key_at_ns:
            return structs.replace(effect, first_key_at_ns=max(now_ns, effect.first_key_at_ns - self.ahead_ns))
        return effect


class FaultyCluster(SimulatedCluster):
    """A cluster with faults, which ``Invariants`` checks all the time (see the module's theory of operation)."""

    def __init__(
        self,
        settings: Settings,
        jobs: Mapping[str, JobSpec],
        sink: Callable[[Record], None],
        costs: CostModel,
        *,
        every_heartbeat: bool,
        faults: Sequence[Fault],
        limit_ns: int,
    ) -> None:
        """``limit_ns``: by then all jobs must have ended, and the cluster must be at rest."""
        self.network = FaultyNetwork(costs)
        self.invariants = Invariants(settings, jobs)
        self.happened: list[FaultKind] = []
        """Kinds of the faults that have affected something."""
        self._held: dict[str, list[Message]] = {}
        """Messages kept for paused machines, by address."""
        self._pauses: Counter[str] = Counter()
        self._limit_ns = limit_ns
        self._nodes = [node.name for node in settings.nodes]
        super().__init__(settings, jobs, self._note_and(sink), costs, self.network, every_heartbeat=True)
        for fault in faults:
            self.kernel.at(fault.at_ns, partial(self._begin, fault))

    def _note_and(self, sink: Callable[[Record], None]) -> Callable[[Record], None]:
        def take(record: Record) -> None:
            self.invariants.note(record)
            sink(record)

        return take

    def run(self, limit_ns: int = 0, each_slice: Callable[[], None] = lambda: None) -> None:
        """Run to the end of all jobs, and on until the cluster is at rest.  Also raises Violation."""
        super().run(self._limit_ns, each_slice)
        rest_ns = self.kernel.now_ns + self._settings.protocol.node_expiry_ns + _REST_NS
        self.kernel.run(
            rest_ns + _REST_NS, until=lambda: self.kernel.next_ns > rest_ns or not self.invariants.what_is_left(self)
        )
        self.invariants.look_at_end(self)

    def tell(self, address: str, message: Message) -> None:
        """Let a machine handle ``message`` now, or after its pause."""
        if self._pauses[address] and address in self.machines:
            self._held.setdefault(address, []).append(message)
            return
        is_under_way = self._telling
        super().tell(address, message)
        if not is_under_way:  # else it is handled later, after the effects of the current one
            self.invariants.look(self, address)

    # ---- faults ----

    def _begin(self, fault: Fault) -> None:
        if not self.finished and _FAULTS[fault.kind](self, fault):
            self.happened.append(fault.kind)

    def _afterwards(self, fault: Fault, action: Callable[[], None]) -> bool:
        self.kernel.at(self.kernel.now_ns + fault.for_ns, action)
        return True

    def _crash(self, fault: Fault) -> bool:
        return self._crash_one(fault, (Work.SHUFFLE, Work.KEYS))

    def _kill_master(self, fault: Fault) -> bool:
        return self._crash_one(fault, (Work.MASTER,))

    def _crash_one(self, fault: Fault, works: tuple[Work, ...]) -> bool:
        tasks = self.processes.tasks
        container = fault.target([name for name in sorted(tasks) if tasks[name].launch.work in works])
        return _hit(container, lambda name: self.processes.crash(name, _SIGNAL, "segmentation fault"))

    def _kill_masters(self, fault: Fault) -> bool:
        tasks = self.processes.tasks
        masters = {n: task.launch.job for n, task in tasks.items() if task.launch.work is Work.MASTER}
        for job in masters.values():
            self._switch_off(job_address(job))

        def tell() -> None:
            for container in masters:
                self.processes.crash(container, _SIGNAL, "its host has died")

        return bool(masters) and self._afterwards(fault, tell)

    def _kill_manager(self, fault: Fault) -> bool:
        is_on = self.is_on(RESOURCE_MANAGER)
        if is_on:
            self.restart_manager(fault.for_ns)
        return is_on

    def _kill_supervisor(self, fault: Fault) -> bool:
        node, tasks = fault.target(self._nodes), self.processes.tasks
        here = [name for name, task in tasks.items() if task.node == node]
        crashing = [name for name in here if tasks[name].launch.work is not Work.MASTER]
        for container in crashing:
            self.processes.crash(container, _SIGNAL, "its supervisor has died")
        return bool(crashing)

    def _kill_node(self, fault: Fault) -> bool:
        return _hit(self._picked_node(fault), self.lose_node)

    def _silence_node(self, fault: Fault) -> bool:
        return _hit(self._picked_node(fault), self.silence_node)

    def _return_node(self, fault: Fault) -> bool:
        node = self._picked_node(fault)
        if node is None:
            return False
        self.lose_node(node)
        return self._afterwards(fault, partial(self.return_node, node))

    def _restart_node(self, fault: Fault) -> bool:
        node = self._picked_node(fault)
        if node is None:
            return False
        self.silence_node(node)
        for_ns = min(fault.for_ns, self._settings.protocol.node_expiry_ns // 2)
        return self._afterwards(structs.replace(fault, for_ns=for_ns), partial(self.return_node, node))

    def _switch_off(self, address: str) -> None:
        self._held.pop(address, None)  # what a machine has not been told is lost with it
        super()._switch_off(address)

    def _forget(self, address: str) -> None:
        """Nothing: an ApplicationMaster that was taken for dead may have left before the next attempt starts."""

    def _picked_node(self, fault: Fault) -> str | None:
        return fault.target([node for node in self._nodes if node_address(node) in self.machines])

    def _declare_dead(self, fault: Fault) -> bool:
        dead = "it has been taken for dead"
        return _hit(self._picked_node(fault), lambda node: self.tell(RESOURCE_MANAGER, NodeLost(node, dead)))

    def _pause(self, fault: Fault) -> bool:
        address = fault.target(sorted(self.machines.keys() - {CLIENT}))
        assert address is not None
        self.pause(address)
        return self._afterwards(fault, partial(self.go_on, address))

    def pause(self, address: str) -> None:
        """The machine of ``address`` gets no messages for now."""
        self._pauses[address] += 1

    def go_on(self, address: str) -> None:
        """Its pause is over, and it receives all that it has missed, unless another pause lasts."""
        self._pauses[address] -= 1
        if not self._pauses[address]:
            for message in self._held.pop(address, ()):
                self.tell(address, message)

    def _cut_off(self, fault: Fault) -> bool:
        node = fault.target(self._nodes)
        masters = [task.launch for task in self.processes.tasks.values() if task.node == node]
        here = [job_address(launch.job) for launch in masters if launch.work is Work.MASTER]
        far = frozenset([node_address(node or ""), *here])
        self.network.cut_off.append(far)
        return self._afterwards(fault, partial(self.network.cut_off.remove, far))

    def _spoil_network(self, fault: Fault) -> bool:
        percent = 1 + fault.pick % 30
        bad = BadNetwork(fault.pick, percent, percent)
        self.network.bad.append(bad)
        return self._afterwards(fault, partial(self.network.bad.remove, bad))

    def _lose_output(self, fault: Fault) -> bool:
        maps = [(master.job, task) for master in self._masters() for task in master.tasks.maps]
        lying = [(job, task.index, task.output_node) for job, task in maps if task.output_node]
        output: tuple[str, int, str] | None = fault.target(lying)
        return _hit(output, lambda output: self.processes.disks.lose_output(*output))

    def _stop_serving(self, fault: Fault) -> bool:
        node, disks = self._nodes[fault.pick % len(self._nodes)], self.processes.disks
        disks.stop_serving(node)
        return self._afterwards(fault, partial(disks.serve_again, node))

    def _damage_checkpoint(self, fault: Fault) -> bool:
        tasks = [task for master in self._masters() for task in (*master.tasks.maps, *master.tasks.walkers)]
        saved = [past for task in tasks if task.saved for past in task.saved.past_containers]
        container: str | None = fault.target(saved)
        return _hit(container, self.processes.disks.damage_checkpoint)

    def _fill_disk(self, fault: Fault) -> bool:
        node, disks = self._nodes[fault.pick % len(self._nodes)], self.processes.disks
        disks.fill(node)
        return self._afterwards(fault, partial(disks.empty, node))

    def _slow_disk(self, fault: Fault) -> bool:
        node, disks = self._nodes[fault.pick % len(self._nodes)], self.processes.disks
        by_ns = 1 + fault.pick % _SLOWEST_NS
        disks.slow_down(node, by_ns)
        return self._afterwards(fault, partial(disks.slow_down, node, -by_ns))

    def _step_clock(self, fault: Fault) -> bool:
        address = fault.target(sorted(self._recorders.keys() - {CLIENT}))
        if address is None:
            return False
        recorder = self._recorders[address]
        if not isinstance(recorder, _AheadRecorder):
            self._recorders[address] = recorder = _AheadRecorder(recorder, self._sink)
        recorder.ahead_ns += fault.for_ns
        return True

    def _masters(self) -> list[ApplicationMaster]:
        masters = [machine for machine in self.machines.values() if isinstance(machine, ApplicationMaster)]
        return sorted(masters, key=lambda master: master.job)


def _hit(target: T | None, act: Callable[[T], object]) -> bool:
    """Act on the target of a fault, if there is one; returns whether there is."""
    if target is not None:
        act(target)
    return target is not None


_FAULTS: dict[FaultKind, Callable[[FaultyCluster, Fault], bool]] = {
    FaultKind.CRASH: FaultyCluster._crash,
    FaultKind.MASTER_DEATH: FaultyCluster._kill_master,
    FaultKind.MASTERS_DEATH: FaultyCluster._kill_masters,
    FaultKind.MANAGER_DEATH: FaultyCluster._kill_manager,
    FaultKind.SUPERVISOR_DEATH: FaultyCluster._kill_supervisor,
    FaultKind.NODE_DEATH: FaultyCluster._kill_node,
    FaultKind.SILENT_DEATH: FaultyCluster._silence_node,
    FaultKind.NODE_RETURN: FaultyCluster._return_node,
    FaultKind.NODE_RESTART: FaultyCluster._restart_node,
    FaultKind.FALSE_DEATH: FaultyCluster._declare_dead,
    FaultKind.PAUSE: FaultyCluster._pause,
    FaultKind.PARTITION: FaultyCluster._cut_off,
    FaultKind.BAD_NETWORK: FaultyCluster._spoil_network,
    FaultKind.LOST_OUTPUT: FaultyCluster._lose_output,
    FaultKind.SHUFFLE_DEATH: FaultyCluster._stop_serving,
    FaultKind.BAD_CHECKPOINT: FaultyCluster._damage_checkpoint,
    FaultKind.FULL_DISK: FaultyCluster._fill_disk,
    FaultKind.SLOW_DISK: FaultyCluster._slow_disk,
    FaultKind.CLOCK_STEP: FaultyCluster._step_clock,
}
"""The action of each fault; returns whether it has affected something."""

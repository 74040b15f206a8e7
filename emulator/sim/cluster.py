"""A simulated cluster: carries out the machines' effects in virtual time.

Theory of operation
-------------------
Every machine of the run is here, behind a recorder that journals what it handles.  A message arrives after the
network's delay; an effect on a container takes what the cost model says and is answered by exactly one completion, as
the executor's contract has it (``emulator.core.effects``).  Nothing here decides anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from emulator.assemble import make_machine
from emulator.core import effects as fx
from emulator.core.job import JobSpec
from emulator.core.machine import Machine
from emulator.core.messages import (
    CLIENT,
    RESOURCE_MANAGER,
    Checkpointed,
    CheckpointFailed,
    Committing,
    Exited,
    FirstKey,
    Killed,
    KillFailed,
    Kind,
    Launched,
    LaunchFailed,
    Message,
    NodeLost,
    ProgressSamples,
    RealCost,
    Resumed,
    ResumeFailed,
    Start,
    Suspended,
    SuspendFailed,
    TaskCheckpoint,
    TimerFired,
    job_address,
    node_address,
)
from emulator.core.settings import Settings
from emulator.journal import Record, Recorder
from emulator.sim.cost_model import CostModel, FetchedInput, Network
from emulator.sim.kernel import Kernel
from emulator.sim.tasks import VirtualTask

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
    ) -> None:
        self.kernel = Kernel()
        self.finished = False
        self.machines: dict[str, Machine] = {}
        self.tasks: dict[str, VirtualTask] = {}
        """Virtual processes, by container."""
        self._settings = settings
        self.jobs = jobs
        self._sink = sink
        self._costs = costs or CostModel()
        self._network = network or Network(self._costs)
        self._recorders: dict[str, Recorder] = {}
        # By (node, job): where the outputs of its maps lie, as known there; reduces whose merged input lies there.
        self._inputs: dict[tuple[str, str], tuple[str, ...]] = {}
        self._localised: dict[tuple[str, str], set[int]] = {}

    def run(self, limit_ns: int = 10**9 * 10**9, each_slice: Callable[[], None] = lambda: None) -> None:
        """From the start to the end of all jobs; ``each_slice`` is called every few thousand events.

        Raises RuntimeError when the end does not come by ``limit_ns``.
        """
        for address in (RESOURCE_MANAGER, *(node_address(node.name) for node in self._settings.nodes), CLIENT):
            self.boot(address, Start())
        while not self.finished:
            each_slice()
            self.kernel.run(lambda: self.finished, limit_ns, _SLICE_EVENTS)

    def boot(self, address: str, start: Start) -> None:
        """Make the machine of ``address`` and tell it to start."""
        machine = make_machine(address, self._settings, self.jobs)
        self.machines[address] = machine
        self._recorders[address] = Recorder(machine, self._sink)
        self.tell(address, start)

    def tell(self, address: str, message: Message) -> None:
        """Have a machine handle ``message`` now; a machine that is gone hears nothing."""
        recorder = self._recorders.get(address)
        if recorder is None:
            return
        for effect in recorder.handle(message, self.kernel.now_ns):
            _CARRY_OUT[type(effect)](self, address, effect)

    def lose_node(self, node: str, reason: str = "its host has died") -> None:
        """A node and all that runs on it is gone from one moment to the next; the ResourceManager is told."""
        for container in [container for container, task in self.tasks.items() if task.node == node]:
            self._remove(container)
        self._switch_off(node_address(node))
        self.tell(RESOURCE_MANAGER, NodeLost(node, reason))

    def _switch_off(self, address: str) -> None:
        self.machines.pop(address, None)
        self._recorders.pop(address, None)

    def _later(self, delay_ns: int, action: Callable[[], None]) -> None:
        self.kernel.at(self.kernel.now_ns + delay_ns, action)

    # ---- effects of any machine ----

    def _send(self, sender: str, effect: fx.Send) -> None:
        for delay_ns in self._network.deliveries(sender, effect.to, effect.message, self.kernel.now_ns):
            self._later(delay_ns, partial(self.tell, effect.to, effect.message))

    def _set_timer(self, address: str, effect: fx.SetTimer) -> None:
        fired = TimerFired(effect.name, effect.generation, effect.at_ns)
        fires_ns = effect.at_ns + self._costs.timer_lag(address, effect.at_ns)
        self.kernel.at(max(fires_ns, self.kernel.now_ns), partial(self.tell, address, fired))

    def _read_progress(self, address: str, effect: fx.ReadProgress) -> None:
        now_ns = self.kernel.now_ns
        samples = []
        for container in effect.containers:
            task = self.tasks.get(container)
            if task is None or task.first_key_ns is None:
                continue
            samples.append((container, task.readings(now_ns, self._settings.protocol.estimate_period_ns)))
        self.tell(address, ProgressSamples(tuple(samples)))

    def _all_finished(self, address: str, effect: fx.AllFinished) -> None:
        self.finished = True

    def _exit_application(self, address: str, effect: fx.ExitApplication) -> None:
        self._end(effect.container, code=0)

    # ---- effects on containers ----

    def _launch(self, address: str, effect: fx.Launch) -> None:
        node = address.partition(":")[2]
        spec = self.jobs[effect.job]
        task = VirtualTask(effect, node, self.kernel.now_ns, keys=1, length_ns=0)
        if effect.kind is Kind.MAP:
            task.length_ns = spec.map_ns[effect.task]
        elif effect.kind is Kind.REDUCE:
            task.length_ns, task.keys = spec.reduce_ns[effect.task], spec.reduce_keys[effect.task]
            task.keys_before = effect.checkpoint.keys_done if effect.checkpoint else 0
        task.pending.append(LaunchFailed)
        self.tasks[effect.container] = task
        if effect.kind is Kind.REDUCE and not spec.map_ns and not self._is_localised(task):
            made_ns = self._costs.make_input(node, effect.container, self.kernel.now_ns)
            self._localised.setdefault((node, effect.job), set()).add(effect.task)
            self._later(made_ns, partial(self._start_process, effect.container))
        else:
            self._start_process(effect.container)

    def _start_process(self, container: str) -> None:
        task = self.tasks.get(container)
        if task is None:
            return
        kind, costs, now_ns = task.launch.kind, self._costs, self.kernel.now_ns
        if kind is Kind.APPLICATION_MASTER:
            delay_ns = costs.application_start(container, now_ns)
        elif kind is Kind.MAP:
            delay_ns = costs.launch_map(task.node, container, now_ns)
        else:
            delay_ns = costs.launch_reduce(task.node, container, self._input_is_local(task), now_ns)
        self._later(delay_ns, partial(self._launched, container))

    def _launched(self, container: str) -> None:
        task = self.tasks.get(container)
        if task is None:
            return
        task.launched_ns = self.kernel.now_ns
        task.pending.remove(LaunchFailed)
        self.tell(node_address(task.node), Launched(container, self._cost(task.launched_ns - task.ordered_ns)))
        self._await_input(container)

    def _cost(self, duration_ns: int, key_ns: int = 0) -> RealCost:
        return RealCost(self._costs.real_ns(duration_ns), self._costs.real_ns(key_ns))

    def _await_input(self, container: str) -> None:
        task = self.tasks.get(container)
        if task is None:
            return
        launch, costs = task.launch, self._costs
        now_ns = ready_ns = self.kernel.now_ns
        if launch.kind is Kind.MAP:
            ready_ns += costs.map_begin(container, now_ns)
        elif launch.kind is Kind.REDUCE:
            if self._input_is_local(task):
                ready_ns += costs.local_input(container, now_ns)
            elif (task.node, launch.job) in self._inputs:
                ready_ns += costs.fetch_input(task.node, container, self._fetched(task), now_ns)
                self._localised.setdefault((task.node, launch.job), set()).add(launch.task)
            else:
                task.waited = True
                return  # ProvideInput will come
        self.kernel.at(max(ready_ns, launch.first_key_at_ns), partial(self._first_key, container, ready_ns, now_ns))

    def _is_localised(self, task: VirtualTask) -> bool:
        return task.launch.task in self._localised.get((task.node, task.launch.job), ())

    def _input_is_local(self, task: VirtualTask) -> bool:
        """Its merged input lies on its node: an earlier attempt fetched it, or, in a job without maps, it was made."""
        return not self.jobs[task.launch.job].map_ns or self._is_localised(task)

    def _fetched(self, task: VirtualTask) -> FetchedInput:
        nodes = self._inputs[task.node, task.launch.job]
        remote = sum(node != task.node for node in nodes)
        size_bytes = self._share(task, self.jobs[task.launch.job].shuffle_bytes)
        return FetchedInput(size_bytes, size_bytes * remote // len(nodes), task.waited)

    def _share(self, task: VirtualTask, job_bytes: int | None) -> int:
        """A reduce's part of what its job reads or writes: by keys."""
        return (job_bytes or 0) * task.keys // sum(self.jobs[task.launch.job].reduce_keys)

    def _first_key(self, container: str, input_ready_ns: int, began_ns: int) -> None:
        task = self.tasks.get(container)
        if task is None or task.first_key_ns is not None or task.stopped or task.checkpointing:
            return
        now_ns = self.kernel.now_ns
        task.first_key_ns = task.since_ns = now_ns
        if task.launch.kind is Kind.APPLICATION_MASTER:
            self.boot(job_address(task.launch.job), Start(container))
            return
        cost_ns = input_ready_ns - (began_ns if task.waited else task.ordered_ns)
        first_key = FirstKey(container, now_ns, input_ready_ns if task.waited else 0, self._cost(cost_ns))
        self.tell(node_address(task.node), first_key)
        self._plan_end(container, task)

    def _plan_end(self, container: str, task: VirtualTask) -> None:
        task.token += 1
        left_ns = task.left_ns - task.active_ns(self.kernel.now_ns)
        self._later(max(0, left_ns), partial(self._walked, container, task.token))

    def _walked(self, container: str, token: int) -> None:
        """All keys are done: from here to the end it can neither stop nor save a checkpoint."""
        task = self.tasks.get(container)
        if task is None or task.token != token:
            return
        task.committing, now_ns = True, self.kernel.now_ns
        if task.launch.kind is Kind.REDUCE:
            self.tell(node_address(task.node), Committing(container))
            size_bytes = self._share(task, self.jobs[task.launch.job].output_bytes)
            end_ns = self._costs.commit(container, task.launch.checkpoint is not None, size_bytes, now_ns)
        else:
            end_ns = self._costs.map_end(container, now_ns)
        self._later(end_ns, partial(self._end, container, 0))

    def _provide_input(self, address: str, effect: fx.ProvideInput) -> None:
        node = address.partition(":")[2]
        self._inputs[node, effect.job] = effect.nodes
        for container, task in list(self.tasks.items()):
            waits = task.first_key_ns is None and task.launch.kind is Kind.REDUCE and not task.stopped
            if waits and task.node == node and task.launch.job == effect.job and task.launched_ns:
                self._await_input(container)

    def _suspend(self, address: str, effect: fx.Suspend) -> None:
        self.tasks[effect.container].pending.append(SuspendFailed)
        delay_ns = self._costs.suspend(effect.container, self.kernel.now_ns)
        self._later(delay_ns, partial(self._suspended, address, effect.container, delay_ns))

    def _suspended(self, address: str, container: str, delay_ns: int) -> None:
        task = self.tasks.get(container)
        if task is None:
            return
        task.pending.remove(SuspendFailed)
        if task.committing:
            self.tell(address, SuspendFailed(container, "the task is committing"))
            return
        now_ns = self.kernel.now_ns
        task.token += 1
        task.active_before_ns, task.since_ns, task.stopped = task.active_ns(now_ns), None, True
        self.tell(address, Suspended(container, task.keys_done(now_ns), self._cost(delay_ns)))

    def _resume(self, address: str, effect: fx.Resume) -> None:
        self.tasks[effect.container].pending.append(ResumeFailed)
        delay_ns = self._costs.resume(effect.container, self.kernel.now_ns)
        self._later(delay_ns, partial(self._resumed, address, effect.container, delay_ns))

    def _resumed(self, address: str, container: str, delay_ns: int) -> None:
        task = self.tasks.get(container)
        if task is None:
            return
        task.pending.remove(ResumeFailed)
        task.stopped = False
        self.tell(address, Resumed(container, self._cost(delay_ns)))
        if task.first_key_ns is None:
            self._await_input(container)
        else:
            task.since_ns = self.kernel.now_ns
            self._plan_end(container, task)

    def _checkpoint(self, address: str, effect: fx.Checkpoint) -> None:
        """The key in progress is finished first."""
        task = self.tasks[effect.container]
        now_ns = self.kernel.now_ns
        key_ns = 0
        keys_done = task.keys_done(now_ns)
        task.pending.append(CheckpointFailed)
        if task.first_key_ns is not None:
            keys_done = min(task.keys, keys_done + 1)
            key_ns = max(0, task.instant_of(keys_done) - task.active_ns(now_ns))
            if keys_done == task.keys:
                # The last key: it ends by itself, and the order comes too late.
                self._later(key_ns, partial(self._checkpoint_too_late, address, effect.container))
                return
        task.token += 1
        task.checkpointing = True
        delay_ns = self._costs.checkpoint(effect.container, now_ns)
        cost = self._cost(delay_ns, key_ns)
        self._later(key_ns + delay_ns, partial(self._checkpointed, address, effect.container, keys_done, cost))

    def _checkpoint_too_late(self, address: str, container: str) -> None:
        task = self.tasks.get(container)
        if task is not None:
            task.pending.remove(CheckpointFailed)
            self.tell(address, CheckpointFailed(container, "the task was done before it could be suspended"))

    def _checkpointed(self, address: str, container: str, keys_done: int, cost: RealCost) -> None:
        task = self.tasks.get(container)
        if task is None:
            return  # killed meanwhile
        task.pending.remove(CheckpointFailed)
        before = task.launch.checkpoint.past_containers if task.launch.checkpoint else ()
        checkpoint = TaskCheckpoint((*before, container), keys_done, f"{task.launch.job}/{task.launch.task}", task.node)
        self.tell(address, Checkpointed(container, checkpoint, 0, cost))
        self._end(container, code=75, keys_done=keys_done)

    def _kill(self, address: str, effect: fx.Kill) -> None:
        self.tasks[effect.container].pending.append(KillFailed)
        delay_ns = self._costs.kill(effect.container, self.kernel.now_ns)
        self._later(delay_ns, partial(self._killed, address, effect.container, delay_ns))

    def _killed(self, address: str, container: str, delay_ns: int) -> None:
        task = self.tasks.get(container)
        if task is None:
            return
        task.pending.remove(KillFailed)
        self.tell(address, Killed(container, self._cost(delay_ns)))
        self.crash(container, signal=9, reason="killed")

    def crash(self, container: str, signal: int, reason: str) -> None:
        """The process of ``container`` ends by ``signal``."""
        self._end(container, code=None, signal=signal, reason=reason)

    def _end(
        self,
        container: str,
        code: int | None,
        signal: int | None = None,
        keys_done: int | None = None,
        reason: str = "",
    ) -> None:
        task = self._remove(container)
        if task is None:
            return
        if keys_done is None:
            keys_done = task.keys if code == 0 else task.keys_done(self.kernel.now_ns)
        for failure in task.pending:
            self.tell(node_address(task.node), failure(container, "the process has ended"))
        self.tell(node_address(task.node), Exited(container, code, signal, keys_done, reason))

    def _remove(self, container: str) -> VirtualTask | None:
        task = self.tasks.pop(container, None)
        if task is not None and task.launch.kind is Kind.APPLICATION_MASTER:
            self._switch_off(job_address(task.launch.job))
        return task

    def _clean_up(self, address: str, effect: fx.CleanUp) -> None:
        here = (address.partition(":")[2], effect.job)
        self._inputs.pop(here, None)
        self._localised.pop(here, None)


_CARRY_OUT: dict[type[fx.Effect], Callable[..., None]] = {
    fx.Send: SimulatedCluster._send,
    fx.SetTimer: SimulatedCluster._set_timer,
    fx.ReadProgress: SimulatedCluster._read_progress,
    fx.AllFinished: SimulatedCluster._all_finished,
    fx.ExitApplication: SimulatedCluster._exit_application,
    fx.Launch: SimulatedCluster._launch,
    fx.ProvideInput: SimulatedCluster._provide_input,
    fx.Suspend: SimulatedCluster._suspend,
    fx.Resume: SimulatedCluster._resume,
    fx.Checkpoint: SimulatedCluster._checkpoint,
    fx.Kill: SimulatedCluster._kill,
    fx.CleanUp: SimulatedCluster._clean_up,
}

"""Virtual processes: the life of each from its launch to its end, in virtual time, as an executor does it.

Every effect takes the time that the cost model gives, and is answered by exactly one completion, as the executor's
contract says (``emulator.core.effects``).  The exit of a process comes after the completions of its pending operations.
Its input is in ``inputs``.  If a process ends before an operation on it is over, the answer is the operation's failure;
if it had ended already, its end is on the way.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial

from msgspec import structs

from emulator.core import effects as fx
from emulator.core.completions import (
    Checkpointed,
    CheckpointFailed,
    Committing,
    Exited,
    FirstKey,
    Killed,
    KillFailed,
    Launched,
    LaunchFailed,
    Paged,
    RealCost,
    Resumed,
    ResumeFailed,
    SavedByItself,
    Suspended,
    SuspendFailed,
    Terminated,
    TerminateFailed,
)
from emulator.core.job import JobSpec
from emulator.core.messages import FetchFailed, Message, ProgressSamples, job_address, node_address
from emulator.core.settings import Settings
from emulator.sim.cost_model import CostModel, LaunchTimes
from emulator.sim.disks import NO_SPACE, VirtualDevices, VirtualDisks
from emulator.sim.inputs import VirtualInputs
from emulator.sim.kernel import Kernel
from emulator.sim.memory import Moved, VirtualMemory
from emulator.sim.tasks import Failure, VirtualTask
from emulator.vocabulary import KeyCheckpoint, ProcessImage, Tier, Work, transfer_ns

_SAY_AGAIN_NS = 5_000_000_000
"""How often a failed fetch of a map's output is reported, until other outputs are known."""
_SAVED = os.EX_TEMPFAIL
"""The exit code of a process that has been saved."""
_NO_COST = RealCost(0)
"""One object for all, because a run keeps several for every process."""


class VirtualProcesses:
    """The processes of all nodes; each effect comes with the address of the machine that orders it."""

    def __init__(
        self,
        kernel: Kernel,
        settings: Settings,
        jobs: Mapping[str, JobSpec],
        costs: CostModel,
        tell: Callable[[str, Message], None],
        application_begins: Callable[[str, str], None],
        application_ended: Callable[[str, str], None],
        at_once: bool,
    ) -> None:
        """
        Args:
            kernel: virtual time.
            settings: nodes and protocol.
            jobs: by name.
            costs: how long operations take.
            tell: lets the machine of an address handle a message now.
            application_begins: called when a job's ApplicationMaster process in that container has started.
            application_ended: called when it has ended.
            at_once: whether messages between machines take no time: then a task that commits in no time tells only of
                its end.
        """
        self.tasks: dict[str, VirtualTask] = {}
        """All processes, by container."""
        self.moved_ns = 0
        """When a process was last launched, resumed or ended."""
        self.kernel, self.jobs, self.costs, self.tell = kernel, jobs, costs, tell
        self.disks = VirtualDisks()
        self.memory = VirtualMemory({node.name: node.memory_bytes for node in settings.nodes}, costs.memory)
        self.devices = VirtualDevices(kernel, settings.tier.at_once if settings.tier else 1)
        self._inputs = VirtualInputs(jobs, self.disks)
        self._nodes = {node.name: node for node in settings.nodes}
        self._estimate_period_ns = settings.protocol.estimate_period_ns
        self._tier = settings.tier
        self._application_begins = application_begins
        self._application_ended = application_ended
        self._at_once = at_once
        self._program_saves: dict[tuple[str, int], int] = {}
        """The active time of a program that is saved in files of its own, by job and task."""

    def later(self, delay_ns: int, action: Callable[[], None]) -> None:
        """Run ``action`` when ``delay_ns`` are over."""
        self.kernel.at(self.kernel.now_ns + delay_ns, action)

    @property
    def are_stuck(self) -> bool:
        """Whether no process makes progress until it is notified of something."""
        masters = Work.MASTER
        return all(task.launch.work is masters or task.is_stuck for task in self.tasks.values())

    def lose_node(self, node: str) -> None:
        """All that runs on the node ends at once, and nobody is notified."""
        for container in [container for container, task in self.tasks.items() if task.node == node]:
            self._remove(container)
        for job in self.jobs:
            self._inputs.forget(node, job)

    def read_progress(self, address: str, effect: fx.ReadProgress) -> None:
        """Answer at once with the readings of the tasks' heartbeats."""
        now_ns = self.kernel.now_ns
        samples = []
        for container in effect.containers:
            task = self.tasks.get(container)
            if task is None or task.first_key_ns is None:
                continue
            samples.append((container, task.readings(now_ns, self._estimate_period_ns)))
        self.tell(address, ProgressSamples(tuple(samples)))

    def exit_application(self, address: str, effect: fx.ExitApplication) -> None:
        """The process of the ApplicationMaster ends."""
        self.end(effect.container, code=0)

    def launch(self, address: str, effect: fx.Launch) -> None:
        """Start a process; a reduce begins when it has its input."""
        node = address.partition(":")[2]
        self.moved_ns = self.kernel.now_ns
        spec = self.jobs[effect.job]
        saved, lost = self.disks.sound(effect.saved)
        launch = effect if saved is effect.saved else structs.replace(effect, saved=saved)
        index = spec.facts.index_of(effect.group, effect.task)
        task = VirtualTask(launch, node, self.kernel.now_ns, keys=1, length_ns=0, index=index, lost=lost)
        if effect.work is Work.SHUFFLE:
            task.length_ns = self._nodes[node].duration_ns(spec.map_ns[index])
        elif effect.work is Work.KEYS:
            task.length_ns = self._nodes[node].duration_ns(spec.reduce_ns[index])
            task.keys = spec.reduce_keys[index]
            task.keys_before = saved.keys_done if saved else 0
            task.active_before_ns = task.saved_ns = self._program_saves.get((effect.job, index), 0)
            self._inputs.add(task)
        task.pending.append(LaunchFailed)
        self.tasks[effect.container] = task
        if isinstance(saved, ProcessImage):
            self._restore(task, saved)
        else:
            self._begin(effect.container)

    def _restore(self, task: VirtualTask, image: ProcessImage) -> None:
        """Bring its image here if it was made elsewhere, and read it; then the usual launch follows."""
        tier, container = self._image_tier(), task.launch.container
        task.active_before_ns = image.in_key_ns
        network_bytes_s = tier.network_bytes_s if image.node != task.node else None
        brought_ns = transfer_ns(image.size_bytes, network_bytes_s) if network_bytes_s else 0

        def read() -> None:
            if container in self.tasks:
                work_ns = tier.read_ns(image.size_bytes)
                self.devices.use(task.node, container, work_ns, partial(self._begin, container))

        self.later(brought_ns, read)

    def _begin(self, container: str) -> None:
        task = self.tasks[container]
        has_maps = bool(self.jobs[task.launch.job].map_ns)
        if task.launch.work is Work.KEYS and not has_maps and not self._inputs.is_merged(task):
            self._make_input(task)
        else:
            self._start_process(container)

    def _image_tier(self) -> Tier:
        """What images cost to write and to read, in a run that makes some."""
        assert self._tier is not None, "images without a storage tier"
        return self._tier

    def _make_input(self, task: VirtualTask) -> None:
        """Make the input of a reduce in a job without maps; this is done first, by a process of its own."""
        maker, now_ns = f"{task.launch.container}.input", self.kernel.now_ns
        times = self.costs.launch_map(task.node, maker, self._inputs.fetched(task, ()), now_ns)
        made_ns = times.written_ns + self.costs.map_end(task.node, maker, now_ns + times.written_ns)
        self.later(made_ns, partial(self._start_process, task.launch.container))

    def _start_process(self, container: str) -> None:
        task = self.tasks.get(container)
        if task is None:
            return
        now_ns = self.kernel.now_ns
        times = self._launch_times(task, now_ns)
        task.input_ready_ns = None if times.input_ready_ns is None else now_ns + times.input_ready_ns
        task.written_ns = now_ns + times.written_ns
        self.later(times.running_ns, partial(self._launched, container))

    def _launch_times(self, task: VirtualTask, now_ns: int) -> LaunchTimes:
        launch, node, costs = task.launch, task.node, self.costs
        if launch.work is Work.MASTER:
            start_ns = costs.application_start(launch.container, now_ns)
            return LaunchTimes(start_ns, start_ns)
        if launch.work is Work.SHUFFLE:
            return costs.launch_map(node, launch.container, self._inputs.data_of(launch.job).map_output(), now_ns)
        if self._inputs.is_merged(task):
            return costs.launch_reduce(node, launch.container, None, now_ns)
        known = self._inputs.known_to(task)
        if known is None or self._inputs.first_missing(known) is not None:
            return costs.launch_waiting(node, launch.container, now_ns)
        fetched = self._inputs.fetched(task, known.nodes)
        return costs.launch_reduce(node, launch.container, fetched, now_ns)

    def _launched(self, container: str) -> None:
        task = self._settled(container, LaunchFailed)
        if task is None:
            return
        task.launched_ns = now_ns = self.kernel.now_ns
        self.tell(node_address(task.node), Launched(container, self._cost(now_ns - task.ordered_ns)))
        self._await_input(container)

    def _cost(self, duration_ns: int, key_ns: int = 0) -> RealCost:
        """What an operation took, and beside it the rest of a key, as a completion tells it."""
        if not duration_ns and not key_ns:
            return _NO_COST
        return RealCost(self.costs.real_ns(duration_ns), self.costs.real_ns(key_ns))

    def _await_input(self, container: str) -> None:
        task = self.tasks.get(container)
        if task is None:
            return
        launch, now_ns = task.launch, self.kernel.now_ns
        if task.input_ready_ns is None:
            known = self._inputs.known_to(task)
            missing = None if known is None else self._inputs.first_missing(known)
            if known is None or missing is not None:
                task.waited = True
                if known is not None and missing is not None:
                    self._report_failed_fetch(container, FetchFailed(container, missing, known.version, "lost"))
                return  # ProvideInput will come
            fetched = self._inputs.fetched(task, known.nodes)
            task.input_ready_ns = now_ns + self.costs.fetch_input(task.node, container, fetched, now_ns)
        begin_ns = max(now_ns, task.input_ready_ns)
        self.kernel.at(max(begin_ns, launch.first_key_at_ns), partial(self._first_key, container, begin_ns, now_ns))

    def _report_failed_fetch(self, container: str, failed: FetchFailed) -> None:
        task = self.tasks.get(container)
        if task is None or task.input_ready_ns is not None:
            return
        known = self._inputs.known_to(task)
        if known is not None and known.version == failed.version:
            self.tell(job_address(task.launch.job), failed)
            self.later(_SAY_AGAIN_NS, partial(self._report_failed_fetch, container, failed))

    def _first_key(self, container: str, input_ready_ns: int, began_ns: int) -> None:
        task = self.tasks.get(container)
        if task is None or task.first_key_ns is not None or task.stopped or task.checkpointing:
            return
        now_ns = self.kernel.now_ns
        task.first_key_ns = task.since_ns = now_ns
        if task.launch.work is Work.MASTER:
            self._application_begins(task.launch.job, container)
            return
        cost_ns = input_ready_ns - (began_ns if task.waited else task.ordered_ns)
        ready_ns, keys_left = input_ready_ns if task.waited else 0, task.keys_before if task.lost else 0
        first_key = FirstKey(container, now_ns, ready_ns, self._cost(cost_ns), task.lost, keys_left)
        self.tell(node_address(task.node), first_key)
        if task.launch.memory_bytes:
            written = self.memory.of(task.node).write(container, task.launch.memory_bytes)
            if not isinstance(task.launch.saved, ProcessImage):  # the image has brought its memory back
                task.setup_ns = self.memory.times.write_ns(written)
                self._report_paged(container, task, written, task.setup_ns)
        self._plan_end(container, task)

    def _report_paged(self, container: str, task: VirtualTask, moved: Moved, takes_ns: int) -> None:
        """Report the paging that a task begins now; a stop meanwhile is not counted."""
        if moved.paged_out_bytes or moved.paged_in_bytes:
            now_ns = self.kernel.now_ns
            paged = Paged(container, now_ns, now_ns + takes_ns, moved.paged_out_bytes, moved.paged_in_bytes)
            self.tell(node_address(task.node), paged)

    def _plan_end(self, container: str, task: VirtualTask) -> None:
        task.token += 1
        left_ns = task.left_ns - task.active_ns(self.kernel.now_ns)
        self.later(max(0, left_ns), partial(self._walked, container, task.token))
        self._plan_save(container, task)

    def _plan_save(self, container: str, task: VirtualTask) -> None:
        """It saves by itself once in a period, when the key in progress is done."""
        spec = self.jobs[task.launch.job]
        period_ns = spec.facts.checkpoint_period_ns
        if period_ns is None or task.launch.work is not Work.KEYS or spec.program is not None:
            return
        key = task.saves_after(period_ns)
        if key is not None:
            left_ns = task.instant_of(key) - task.active_ns(self.kernel.now_ns)
            self.later(max(0, left_ns), partial(self._save, container, task.token, key))

    def _save(self, container: str, token: int, key: int) -> None:
        task = self.tasks.get(container)
        if task is None or task.token != token:
            return
        task.saved_ns = task.instant_of(key)
        if not self.disks.is_full(task.node):
            saved = KeyCheckpoint(task.containers, key, f"{task.launch.job}/{task.index}", task.node)
            self.disks.checkpoint_written(container, key)
            self.tell(node_address(task.node), SavedByItself(container, saved))
        self._plan_save(container, task)

    def _walked(self, container: str, token: int) -> None:
        """All keys are done: from here to its end it can neither stop nor save a checkpoint."""
        task = self.tasks.get(container)
        if task is None or task.token != token:
            return
        if task.launch.memory_bytes and task.check_ns is None:
            read = self.memory.of(task.node).read(container)
            task.check_ns = self.memory.times.read_ns(read)
            self._report_paged(container, task, read, task.check_ns)
            self._plan_end(container, task)
            return
        task.committing, now_ns = True, self.kernel.now_ns
        if self.disks.is_full(task.node):
            self.end(container, code=1, keys_done=task.keys, reason=NO_SPACE)
            return
        if task.launch.work is Work.KEYS:
            size_bytes = self._inputs.data_of(task.launch.job).reduce_output_bytes(task.index)
            end_ns = self.costs.commit(task.node, container, task.launch.saved is not None, size_bytes, now_ns)
        else:
            written_ns = max(now_ns, task.written_ns)
            end_ns = written_ns - now_ns + self.costs.map_end(task.node, container, written_ns)
        end_ns += self.disks.extra_ns(task.node)
        if not end_ns and self._at_once:
            self.end(container, code=0)
            return
        if task.launch.work is Work.KEYS:
            self.tell(node_address(task.node), Committing(container))
        self.later(end_ns, partial(self.end, container, 0))

    def provide_input(self, address: str, effect: fx.ProvideInput) -> None:
        """The nodes of a job's map outputs are known: reduces that wait for them start fetching."""
        for container in self._inputs.provide(address.partition(":")[2], effect):
            self._await_input(container)

    def _settled(self, container: str, failure: Failure) -> VirtualTask | None:
        """The process of which an operation is over; None: it has ended meanwhile, and ``failure`` was the answer."""
        task = self.tasks.get(container)
        if task is not None:
            task.pending.remove(failure)
        return task

    def crash(self, container: str, signal: int, reason: str) -> None:
        """The process of ``container`` ends by ``signal``."""
        self.end(container, code=None, signal=signal, reason=reason)

    def end(
        self,
        container: str,
        code: int | None,
        signal: int | None = None,
        keys_done: int | None = None,
        reason: str = "",
    ) -> None:
        """The process of ``container`` ends, with an exit code or by a signal; what is still pending for it fails."""
        task = self._remove(container)
        if task is None:
            return
        if code == 0 and task.launch.work is Work.SHUFFLE:
            self.disks.output_written(task.launch.job, task.index, task.node)
        if keys_done is None:
            keys_done = task.keys if code == 0 else task.keys_done(self.kernel.now_ns)
        for failure in task.pending:
            self.tell(node_address(task.node), failure(container, "the process has ended"))
        self.tell(node_address(task.node), Exited(container, code, signal, keys_done, reason))

    def _remove(self, container: str) -> VirtualTask | None:
        task = self.tasks.pop(container, None)
        if task is None:
            return None
        self.moved_ns = self.kernel.now_ns
        spec = self.jobs[task.launch.job]
        if spec.program is not None and spec.facts.checkpoint_period_ns is not None:
            saved_ns = task.program_saved_ns(spec.facts.checkpoint_period_ns, self.moved_ns)
            self._program_saves[task.launch.job, task.index] = saved_ns
        self.devices.leave(container)
        self.memory.of(task.node).end(container)
        if task.launch.work is Work.MASTER:
            self._application_ended(task.launch.job, container)
        elif task.launch.work is Work.KEYS:
            self._inputs.remove(task)
        return task

    def clean_up(self, address: str, effect: fx.CleanUp) -> None:
        """Forget what a node holds of a job that has ended."""
        self._inputs.forget(address.partition(":")[2], effect.job)

    # ---- what NodeManagers order of a process between its launch and its end ----

    def _begin_operation(self, container: str, failure: Failure, cost: Callable[[str, str, int], int]) -> int | None:
        """Begin an operation on a process; how long it takes.  If the process ends before, the answer is ``failure``.
        None: it has already ended, and its end is on its way to the caller."""
        task = self.tasks.get(container)
        if task is None:
            return None
        task.pending.append(failure)
        return cost(task.node, container, self.kernel.now_ns)

    def _operate(
        self,
        address: str,
        container: str,
        failure: Failure,
        cost: Callable[[str, str, int], int],
        done: Callable[[str, VirtualTask, int], None],
    ) -> None:
        """Begin an operation; when it is over, call ``done`` with the process and the time that it took."""
        delay_ns = self._begin_operation(container, failure, cost)
        if delay_ns is not None:
            self.later(delay_ns, partial(self._over, address, container, failure, done, delay_ns))

    def _over(
        self,
        address: str,
        container: str,
        failure: Failure,
        done: Callable[[str, VirtualTask, int], None],
        delay_ns: int,
    ) -> None:
        task = self._settled(container, failure)
        if task is not None:
            done(address, task, delay_ns)

    def suspend(self, address: str, effect: fx.Suspend) -> None:
        """Stop a process (SIGTSTP)."""
        self._operate(address, effect.container, SuspendFailed, self.costs.suspend, self._suspended)

    def _suspended(self, address: str, task: VirtualTask, delay_ns: int) -> None:
        container = task.launch.container
        if task.committing:
            self.tell(address, SuspendFailed(container, "the task is committing"))
            return
        now_ns = self.kernel.now_ns
        task.stop(now_ns)
        self.memory.of(task.node).stop(container)
        self.tell(address, Suspended(container, task.keys_done(now_ns), self._cost(delay_ns)))

    def resume(self, address: str, effect: fx.Resume) -> None:
        """Continue a stopped process (SIGCONT)."""
        self._operate(address, effect.container, ResumeFailed, self.costs.resume, self._resumed)

    def _resumed(self, address: str, task: VirtualTask, delay_ns: int) -> None:
        container = task.launch.container
        self.moved_ns = self.kernel.now_ns
        task.resume(self.moved_ns)
        swapped_bytes = self.memory.of(task.node).resume(container)
        self.tell(address, Resumed(container, self._cost(delay_ns), swapped_bytes))
        if task.first_key_ns is None:
            self._await_input(container)
        else:
            self._plan_end(container, task)

    def checkpoint(self, address: str, effect: fx.Checkpoint) -> None:
        """Save a process's key counter and end it; the key in progress is finished first."""
        task = self.tasks.get(effect.container)
        if task is None:
            return  # its end is on the way
        if self.disks.is_full(task.node):
            self.tell(address, CheckpointFailed(effect.container, NO_SPACE))
            return
        now_ns = self.kernel.now_ns
        key_ns = 0
        keys_done = task.keys_done(now_ns)
        task.pending.append(CheckpointFailed)
        if task.first_key_ns is not None:
            keys_done = min(task.keys, keys_done + 1)
            key_ns = max(0, task.instant_of(keys_done) - task.active_ns(now_ns))
            if keys_done == task.keys:
                # The last key: the task ends by itself, and the order comes too late.
                self.later(key_ns, partial(self._checkpoint_too_late, address, effect.container))
                return
        task.token += 1
        task.checkpointing = True
        delay_ns = self.costs.checkpoint(task.node, effect.container, now_ns) + self.disks.extra_ns(task.node)
        done = partial(self._checkpointed, address, effect.container, keys_done, self._cost(delay_ns, key_ns))
        self.later(key_ns + delay_ns, done)

    def _checkpoint_too_late(self, address: str, container: str) -> None:
        if self._settled(container, CheckpointFailed) is not None:
            self.tell(address, CheckpointFailed(container, "the task was done before it could be suspended"))

    def _checkpointed(self, address: str, container: str, keys_done: int, cost: RealCost) -> None:
        task = self._settled(container, CheckpointFailed)
        if task is None:
            return  # killed meanwhile
        saved = KeyCheckpoint(task.containers, keys_done, f"{task.launch.job}/{task.index}", task.node)
        self.disks.checkpoint_written(container, keys_done)
        self.tell(address, Checkpointed(container, saved, cost))
        self.end(container, code=_SAVED, keys_done=keys_done)

    def dump(self, address: str, effect: fx.Dump) -> None:
        """Stop a process, save it as an image on its node's device, and end it."""
        container = effect.container
        delay_ns = self._begin_operation(container, CheckpointFailed, self.costs.suspend)
        if delay_ns is not None:  # it is stopped then, and the operation goes on
            self.later(delay_ns, partial(self._stopped_for_dump, address, container, delay_ns))

    def _stopped_for_dump(self, address: str, container: str, delay_ns: int) -> None:
        task = self.tasks.get(container)
        if task is None:
            return
        if task.committing:
            self._settled(container, CheckpointFailed)
            self.tell(address, CheckpointFailed(container, "the task is committing"))
            return
        now_ns = self.kernel.now_ns
        task.stop(now_ns)
        work_ns = self._image_tier().write_ns(self._dump_bytes(task))
        self.devices.use(task.node, container, work_ns, partial(self._dumped, address, container, now_ns - delay_ns))

    def _dump_bytes(self, task: VirtualTask) -> int:
        facts, has_image = self.jobs[task.launch.job].facts, isinstance(task.launch.saved, ProcessImage)
        done_ppm = task.done_ppm(self.kernel.now_ns)
        return self._image_tier().dump_bytes(facts, task.launch.group, task.launch.task, has_image, done_ppm)

    def _dumped(self, address: str, container: str, began_ns: int) -> None:
        task = self._settled(container, CheckpointFailed)
        assert task is not None, "one that has ended has left its device"
        now_ns = self.kernel.now_ns
        keys_done, written_bytes = task.keys_done(now_ns), self._dump_bytes(task)
        facts, done_ppm = self.jobs[task.launch.job].facts, task.done_ppm(now_ns)
        size_bytes = facts.footprint_bytes(task.launch.group, task.launch.task, done_ppm)
        image = ProcessImage(
            task.containers,
            keys_done,
            f"{task.launch.job}/{task.index}",
            task.node,
            size_bytes,
            checksum="",
            in_key_ns=max(0, task.active_ns(now_ns) - task.instant_of(keys_done)),
            written_bytes=written_bytes if written_bytes < size_bytes else None,
        )
        self.tell(address, Checkpointed(container, image, self._cost(now_ns - began_ns)))
        self.end(container, code=_SAVED, keys_done=keys_done)

    def terminate(self, address: str, effect: fx.Terminate) -> None:
        """Tell a process to end (SIGTERM): a program does, other tasks work on until they are killed."""
        self._operate(address, effect.container, TerminateFailed, self.costs.kill, self._terminated)

    def _terminated(self, address: str, task: VirtualTask, delay_ns: int) -> None:
        container = task.launch.container
        self.tell(address, Terminated(container, self._cost(delay_ns)))
        if self.jobs[task.launch.job].program is not None:
            self.crash(container, signal=15, reason="killed by SIGTERM")

    def kill(self, address: str, effect: fx.Kill) -> None:
        """End a process at once (SIGKILL)."""
        self._operate(address, effect.container, KillFailed, self.costs.kill, self._killed)

    def _killed(self, address: str, task: VirtualTask, delay_ns: int) -> None:
        container = task.launch.container
        swapped_bytes = self.memory.of(task.node).end(container) if task.stopped else 0
        self.tell(address, Killed(container, self._cost(delay_ns), swapped_bytes))
        self.crash(container, signal=9, reason="killed")

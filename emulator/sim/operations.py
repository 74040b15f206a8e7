"""What NodeManagers order of running processes, in virtual time: to stop and go on, to be saved, to end.

Each operation takes the time that the cost model gives.  If the process ends before, the answer is the operation's
failure; if it had ended already, its end is on the way.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from emulator.core import effects as fx
from emulator.core.completions import (
    Checkpointed,
    CheckpointFailed,
    Killed,
    KillFailed,
    RealCost,
    Resumed,
    ResumeFailed,
    Suspended,
    SuspendFailed,
    Terminated,
    TerminateFailed,
)
from emulator.core.saved import KeyCheckpoint, ProcessImage
from emulator.sim.disks import NO_SPACE
from emulator.sim.processes import VirtualProcesses
from emulator.sim.tasks import Failure, VirtualTask

_SAVED = os.EX_TEMPFAIL
"""The exit code of a process that has been saved."""


class VirtualOperations:
    """Operations on ``processes``; each comes with the address of the machine that orders it."""

    def __init__(self, processes: VirtualProcesses) -> None:
        self._processes = processes
        self._kernel = processes.kernel
        self._jobs = processes.jobs
        self._costs = processes.costs
        self._tell = processes.tell
        self._tasks = processes.tasks
        self._disks = processes.disks
        self._memory = processes.memory
        self._devices = processes.devices

    def _begin(self, container: str, failure: Failure, cost: Callable[[str, str, int], int]) -> int | None:
        """Begin an operation on a process; how long it takes.  If the process ends before, the answer is ``failure``.
        None: it has already ended, and its end is on its way to the caller."""
        task = self._tasks.get(container)
        if task is None:
            return None
        task.pending.append(failure)
        return cost(task.node, container, self._kernel.now_ns)

    def _operate(
        self,
        address: str,
        container: str,
        failure: Failure,
        cost: Callable[[str, str, int], int],
        done: Callable[[str, VirtualTask, int], None],
    ) -> None:
        """Begin an operation; when it is over, call ``done`` with the process and the time that it took."""
        delay_ns = self._begin(container, failure, cost)
        if delay_ns is not None:
            self._processes.later(delay_ns, partial(self._over, address, container, failure, done, delay_ns))

    def _over(
        self,
        address: str,
        container: str,
        failure: Failure,
        done: Callable[[str, VirtualTask, int], None],
        delay_ns: int,
    ) -> None:
        task = self._processes.settled(container, failure)
        if task is not None:
            done(address, task, delay_ns)

    def suspend(self, address: str, effect: fx.Suspend) -> None:
        """Stop a process (SIGTSTP)."""
        self._operate(address, effect.container, SuspendFailed, self._costs.suspend, self._suspended)

    def _suspended(self, address: str, task: VirtualTask, delay_ns: int) -> None:
        container = task.launch.container
        if task.committing:
            self._tell(address, SuspendFailed(container, "the task is committing"))
            return
        now_ns = self._kernel.now_ns
        task.stop(now_ns)
        self._memory.of(task.node).stop(container)
        self._tell(address, Suspended(container, task.keys_done(now_ns), self._processes.cost(delay_ns)))

    def resume(self, address: str, effect: fx.Resume) -> None:
        """Continue a stopped process (SIGCONT)."""
        self._operate(address, effect.container, ResumeFailed, self._costs.resume, self._resumed)

    def _resumed(self, address: str, task: VirtualTask, delay_ns: int) -> None:
        container = task.launch.container
        self._processes.moved_ns = self._kernel.now_ns
        task.go_on(self._processes.moved_ns)
        swapped_bytes = self._memory.of(task.node).go_on(container)
        self._tell(address, Resumed(container, self._processes.cost(delay_ns), swapped_bytes))
        self._processes.go_on(container, task)

    def checkpoint(self, address: str, effect: fx.Checkpoint) -> None:
        """Save a process's key counter and end it; the key in progress is finished first."""
        task = self._tasks.get(effect.container)
        if task is None:
            return  # its end is on the way
        if self._disks.is_full(task.node):
            self._tell(address, CheckpointFailed(effect.container, NO_SPACE))
            return
        now_ns = self._kernel.now_ns
        key_ns = 0
        keys_done = task.keys_done(now_ns)
        task.pending.append(CheckpointFailed)
        if task.first_key_ns is not None:
            keys_done = min(task.keys, keys_done + 1)
            key_ns = max(0, task.instant_of(keys_done) - task.active_ns(now_ns))
            if keys_done == task.keys:
                # The last key: the task ends by itself, and the order comes too late.
                self._processes.later(key_ns, partial(self._checkpoint_too_late, address, effect.container))
                return
        task.token += 1
        task.checkpointing = True
        delay_ns = self._costs.checkpoint(task.node, effect.container, now_ns) + self._disks.extra_ns(task.node)
        done = partial(self._checkpointed, address, effect.container, keys_done, self._processes.cost(delay_ns, key_ns))
        self._processes.later(key_ns + delay_ns, done)

    def _checkpoint_too_late(self, address: str, container: str) -> None:
        if self._processes.settled(container, CheckpointFailed) is not None:
            self._tell(address, CheckpointFailed(container, "the task was done before it could be suspended"))

    def _checkpointed(self, address: str, container: str, keys_done: int, cost: RealCost) -> None:
        task = self._processes.settled(container, CheckpointFailed)
        if task is None:
            return  # killed meanwhile
        saved = KeyCheckpoint(task.containers, keys_done, f"{task.launch.job}/{task.index}", task.node)
        self._disks.checkpoint_written(container, keys_done)
        self._tell(address, Checkpointed(container, saved, cost))
        self._processes.end(container, code=_SAVED, keys_done=keys_done)

    def dump(self, address: str, effect: fx.Dump) -> None:
        """Stop a process, save it as an image on its node's device, and end it."""
        container = effect.container
        delay_ns = self._begin(container, CheckpointFailed, self._costs.suspend)
        if delay_ns is not None:  # it is stopped then, and the operation goes on
            self._processes.later(delay_ns, partial(self._stopped_for_dump, address, container, delay_ns))

    def _stopped_for_dump(self, address: str, container: str, delay_ns: int) -> None:
        task = self._tasks.get(container)
        if task is None:
            return
        if task.committing:
            self._processes.settled(container, CheckpointFailed)
            self._tell(address, CheckpointFailed(container, "the task is committing"))
            return
        now_ns = self._kernel.now_ns
        task.stop(now_ns)
        work_ns = self._processes.image_tier().write_ns(self._dump_bytes(task))
        self._devices.use(task.node, container, work_ns, partial(self._dumped, address, container, now_ns - delay_ns))

    def _dump_bytes(self, task: VirtualTask) -> int:
        facts, has_image = self._jobs[task.launch.job].facts, isinstance(task.launch.saved, ProcessImage)
        done_ppm = task.done_ppm(self._kernel.now_ns)
        return self._processes.image_tier().dump_bytes(facts, task.launch.group, task.launch.task, has_image, done_ppm)

    def _dumped(self, address: str, container: str, began_ns: int) -> None:
        task = self._processes.settled(container, CheckpointFailed)
        assert task is not None, "one that has ended has left its device"
        now_ns = self._kernel.now_ns
        keys_done, written_bytes = task.keys_done(now_ns), self._dump_bytes(task)
        facts, done_ppm = self._jobs[task.launch.job].facts, task.done_ppm(now_ns)
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
        self._tell(address, Checkpointed(container, image, self._processes.cost(now_ns - began_ns)))
        self._processes.end(container, code=_SAVED, keys_done=keys_done)

    def terminate(self, address: str, effect: fx.Terminate) -> None:
        """Tell a process to end (SIGTERM): a program does, other tasks work on until they are killed."""
        self._operate(address, effect.container, TerminateFailed, self._costs.kill, self._terminated)

    def _terminated(self, address: str, task: VirtualTask, delay_ns: int) -> None:
        container = task.launch.container
        self._tell(address, Terminated(container, self._processes.cost(delay_ns)))
        if self._jobs[task.launch.job].program is not None:
            self._processes.crash(container, signal=15, reason="killed by SIGTERM")

    def kill(self, address: str, effect: fx.Kill) -> None:
        """End a process at once (SIGKILL)."""
        self._operate(address, effect.container, KillFailed, self._costs.kill, self._killed)

    def _killed(self, address: str, task: VirtualTask, delay_ns: int) -> None:
        container = task.launch.container
        swapped_bytes = self._memory.of(task.node).end(container) if task.stopped else 0
        self._tell(address, Killed(container, self._processes.cost(delay_ns), swapped_bytes))
        self._processes.crash(container, signal=9, reason="killed")

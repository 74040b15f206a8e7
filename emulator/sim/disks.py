"""The disks of simulated nodes: what can be lost from them, their faults, and the queue of the storage device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import structs

from emulator.core.application_master.devices import DeviceQueue
from emulator.sim.kernel import Kernel
from emulator.vocabulary import KeyCheckpoint, ProcessImage, Saved

NO_SPACE = "no space left on device"


class VirtualDisks:
    """Disks have no faults except those set here; a temporary fault is removed by the opposite call."""

    def __init__(self) -> None:
        self._lost_outputs: set[tuple[str, int, str]] = set()
        """(job, map, node) of outputs that are lost there."""
        self._unserved: Counter[str] = Counter()
        """For each node that serves no outputs, the number of reasons."""
        self._full: Counter[str] = Counter()
        self._slow_ns: Counter[str] = Counter()
        self._checkpoints: dict[str, int] = {}
        """Keys that a checkpoint counts, by the container that made it."""
        self._bad: set[str] = set()
        """Containers whose checkpoint or image cannot be read."""

    # ---- outputs of maps ----

    def lose_output(self, job: str, map_index: int, node: str) -> None:
        """The output of a map on this node is lost; a reduce notices it when it fetches the output."""
        self._lost_outputs.add((job, map_index, node))

    def output_written(self, job: str, map_index: int, node: str) -> None:
        """The map has run there, perhaps again."""
        self._lost_outputs.discard((job, map_index, node))

    def stop_serving(self, node: str) -> None:
        """``node`` serves no outputs."""
        self._unserved[node] += 1

    def serve_again(self, node: str) -> None:
        """``node`` serves outputs again."""
        self._unserved[node] -= 1

    def first_missing(self, job: str, nodes: Sequence[str]) -> int | None:
        """The first map whose output is not available on its node; None: all are available."""
        if not self._lost_outputs and not self._unserved:
            return None
        places = enumerate(nodes)
        return next((i for i, at in places if (job, i, at) in self._lost_outputs or self._unserved[at]), None)

    # ---- checkpoints ----

    def checkpoint_written(self, container: str, keys_done: int) -> None:
        """A task has saved its key counter."""
        self._checkpoints[container] = keys_done

    def damage_checkpoint(self, container: str) -> None:
        """The checkpoint or image of ``container`` can no longer be read."""
        self._bad.add(container)

    def sound(self, saved: Saved | None) -> tuple[Saved | None, tuple[str, ...]]:
        """The part of ``saved`` that a task can resume from: all of it, the last good checkpoint before, or nothing.
        Beside it, the containers whose work is not in it."""
        if saved is None:
            return None, ()
        past = saved.past_containers
        if self._bad.isdisjoint(past):
            return self._newest(saved), ()
        first_bad = next(i for i, container in enumerate(past) if container in self._bad)
        if isinstance(saved, ProcessImage) or not first_bad:
            return None, past
        good = past[:first_bad]
        return KeyCheckpoint(good, self._checkpoints[good[-1]], saved.location, saved.node), past[first_bad:]

    def _newest(self, saved: Saved) -> Saved:
        """What the last container has saved by itself counts, even if nobody was notified of it."""
        keys_done = self._checkpoints.get(saved.past_containers[-1], saved.keys_done)
        if isinstance(saved, ProcessImage) or keys_done == saved.keys_done:
            return saved
        return structs.replace(saved, keys_done=keys_done)

    # ---- writing ----

    def fill(self, node: str) -> None:
        """The disk of ``node`` becomes full."""
        self._full[node] += 1

    def empty(self, node: str) -> None:
        """The disk of ``node`` has room again."""
        self._full[node] -= 1

    def is_full(self, node: str) -> bool:
        """Whether nothing can be written there."""
        return self._full[node] > 0

    def slow_down(self, node: str, by_ns: int) -> None:
        """Each write there takes this much longer; a negative ``by_ns`` removes the delay."""
        self._slow_ns[node] += by_ns

    def extra_ns(self, node: str) -> int:
        """The extra time that a write there takes."""
        return self._slow_ns[node]


class VirtualDevices:
    """The storage device of each node, made at its first use; dumps and restores wait for it, and end when due."""

    def __init__(self, kernel: Kernel, at_once: int) -> None:
        self._kernel = kernel
        self._at_once = at_once
        self._queues: dict[str, DeviceQueue] = {}
        self._done: dict[str, tuple[str, Callable[[], None]]] = {}
        """The node of each operation, and the function to call at its end."""

    def use(self, node: str, operation: str, work_ns: int, done: Callable[[], None]) -> None:
        """Call ``done`` when the device of ``node`` has done ``work_ns`` of work for ``operation``."""
        queue = self._queues.setdefault(node, DeviceQueue(self._at_once))
        self._done[operation] = (node, done)
        queue.submit(operation, work_ns, self._kernel.now_ns)
        self._plan(node)

    def leave(self, operation: str) -> None:
        """Cancel the operation, if it exists: it is no longer needed."""
        if operation in self._done:
            node, _ = self._done.pop(operation)
            self._queues[node].end(operation, self._kernel.now_ns)
            self._plan(node)

    def _plan(self, node: str) -> None:
        due = self._queues[node].next_due()
        if due is not None:
            self._kernel.at(due[0], partial(self._due, node, due))

    def _due(self, node: str, due: tuple[int, str]) -> None:
        if self._queues[node].next_due() != due:
            return  # other operations have begun or ended since it was planned
        self._queues[node].end(due[1], self._kernel.now_ns)
        _, done = self._done.pop(due[1])
        self._plan(node)
        done()

"""The disks of simulated nodes: what can be lost from them, and their faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import structs

from emulator.core.saved import KeyCheckpoint, ProcessImage, Saved

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
        """What the last container has saved by itself counts, even if nobody was told of it."""
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

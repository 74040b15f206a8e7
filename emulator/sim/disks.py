"""The disks of simulated nodes: what lies on them that can be lost, and what is wrong with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from emulator.core.saved import KeyCheckpoint, ProcessImage, Saved

NO_SPACE = "no space left on device"


class VirtualDisks:
    """Nothing is wrong unless it is said here; what is said for a while is taken back by its opposite."""

    def __init__(self) -> None:
        self._lost_outputs: set[tuple[str, int, str]] = set()
        """Job, map and node of outputs that cannot be had there any more."""
        self._unserved: Counter[str] = Counter()
        """Nodes from which no output can be had, and for how many reasons."""
        self._full: Counter[str] = Counter()
        self._slow_ns: Counter[str] = Counter()
        self._checkpoints: dict[str, int] = {}
        """Keys that a checkpoint counts, by the container that made it."""
        self._bad: set[str] = set()
        """Containers whose checkpoint or image cannot be read."""

    # ---- outputs of maps ----

    def lose_output(self, job: str, map_index: int, node: str) -> None:
        """What lies there of the output of a map is gone; whoever wants to fetch it will find out."""
        self._lost_outputs.add((job, map_index, node))

    def output_written(self, job: str, map_index: int, node: str) -> None:
        """The map has run there (again)."""
        self._lost_outputs.discard((job, map_index, node))

    def stop_serving(self, node: str) -> None:
        """No output can be had from ``node``."""
        self._unserved[node] += 1

    def serve_again(self, node: str) -> None:
        """It can be had again."""
        self._unserved[node] -= 1

    def first_missing(self, job: str, nodes: Sequence[str]) -> int | None:
        """The first map of which the output cannot be had where it is said to lie."""
        if not self._lost_outputs and not self._unserved:
            return None
        places = enumerate(nodes)
        return next((i for i, at in places if (job, i, at) in self._lost_outputs or self._unserved[at]), None)

    # ---- checkpoints ----

    def checkpoint_written(self, container: str, keys_done: int) -> None:
        """A task has saved its key counter."""
        self._checkpoints[container] = keys_done

    def damage_checkpoint(self, container: str) -> None:
        """What it has saved cannot be read any more."""
        self._bad.add(container)

    def sound(self, saved: Saved | None) -> Saved | None:
        """What of ``saved`` a task can go on from: all of it, the last good checkpoint before, or nothing."""
        if saved is None or self._bad.isdisjoint(saved.past_containers):
            return saved
        if isinstance(saved, ProcessImage):
            return None
        first_bad = next(i for i, container in enumerate(saved.past_containers) if container in self._bad)
        good = saved.past_containers[:first_bad]
        return KeyCheckpoint(good, self._checkpoints[good[-1]], saved.location, saved.node) if good else None

    # ---- writing ----

    def fill(self, node: str) -> None:
        """Nothing more can be written there."""
        self._full[node] += 1

    def empty(self, node: str) -> None:
        """There is room again."""
        self._full[node] -= 1

    def is_full(self, node: str) -> bool:
        """Whether nothing can be written there."""
        return self._full[node] > 0

    def slow_down(self, node: str, by_ns: int) -> None:
        """Each write there takes so much longer; a negative ``by_ns`` takes it back."""
        self._slow_ns[node] += by_ns

    def extra_ns(self, node: str) -> int:
        """How much longer than it should a write there takes."""
        return self._slow_ns[node]

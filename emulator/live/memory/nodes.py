"""The memory of the nodes of one host: a cgroup for each node, and one swap file for all of them.

Only runs whose tasks use memory have this, and only as root.  Without root the tasks' memory is real, but nodes have no
memory limit and no swap.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from emulator.core.job import JobSpec
from emulator.core.settings import NodeSettings
from emulator.live.memory.cgroup import MemoryGroup, NoMemoryGroups, find_controller, remove_groups
from emulator.live.memory.swap_file import SwapFailed, end_swap, make_swap_file

SWAP_FILE = "swap"
_PROCESS_BYTES = 8 << 20
"""Memory of a task's process beyond the memory it is to use; added to a node's limit for each process."""


def largest_task_bytes(jobs: Iterable[JobSpec]) -> int:
    """The most memory that a task of these jobs uses, emulated; 0: none uses any."""
    kinds = (sizes for job in jobs for sizes in (job.facts, *job.facts.groups))
    return max((max(sizes.task_memory_bytes, default=0) for sizes in kinds), default=0)


def why_no_swap() -> str | None:
    """Why runs on this machine cannot have their own swap and memory limits of nodes; None: they can."""
    if os.geteuid() != 0:
        return "real swap needs root"
    try:
        find_controller()
    except NoMemoryGroups as error:
        return f"real swap needs memory cgroups: {error}"
    return None


class NodeMemories:
    """The memory of the nodes of one host; exists from ``open`` to ``close``."""

    def __init__(self, mark: str, directory: Path, scale: float, nodes: Sequence[NodeSettings]) -> None:
        """
        Args:
            mark: the run's id and the host's name; the groups are named after it.
            directory: the host's own directory, which holds the swap file.
            scale: real bytes per emulated byte.
            nodes: the host's nodes.
        """
        self._mark = mark
        self._directory = directory
        self._scale = scale
        self._nodes = {node.name: node for node in nodes}
        self._groups: dict[str, MemoryGroup] = {}
        self._killed: dict[str, int] = {}
        """How many tasks the kernel had killed on each node when last checked."""

    def open(self) -> None:
        """Make groups and swap.  Raises SwapFailed, NoMemoryGroups, OSError; then nothing is left."""
        swap_bytes = sum(map(self._swap_bytes, self._nodes.values()))
        if not self._nodes:
            return
        if (why := why_no_swap()) is not None:
            if swap_bytes:
                raise SwapFailed(f"cluster.swap_gb: {why}, on every machine of the cluster; set it to 0")
            return
        controller = find_controller()
        try:
            for node in self._nodes.values():
                group = self._groups[node.name] = MemoryGroup(controller, self._mark, node.name)
                group.make(self._memory_bytes(node), self._swap_bytes(node))
            if swap_bytes:
                make_swap_file(self._directory / SWAP_FILE, swap_bytes)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove groups and swap; all tasks must have ended."""
        if self._groups:
            remove_groups(self._mark)
            end_swap([self._directory])
            self._groups.clear()

    def real_bytes(self, emulated_bytes: int) -> int:
        """Real bytes for this many emulated bytes."""
        return int(emulated_bytes * self._scale)

    def emulated_bytes(self, real_bytes: int) -> int:
        """Emulated bytes for this many real bytes."""
        return round(real_bytes / self._scale)

    def processes_file(self, node: str) -> str | None:
        """The file through which a task of the node joins its group; None: there is no group."""
        group = self._groups.get(node)
        return None if group is None else str(group.processes_file)

    def why_killed(self, node: str) -> str | None:
        """Why the kernel may have killed a task of the node; None if it has killed none since the last call."""
        group, before = self._groups.get(node), self._killed.get(node, 0)
        if group is None or (killed := group.killed_for_memory()) == before:
            return None
        self._killed[node] = killed
        settings = self._nodes[node]
        memory_mib, swap_mib = self._memory_bytes(settings) >> 20, self._swap_bytes(settings) >> 20
        return (
            f"the kernel killed it: {node} had no memory left, of {memory_mib} MiB, nor swap, of {swap_mib} MiB"
            " (cluster.memory_gb and swap_gb times live.memory_scale, and a little for each process)"
        )

    def _memory_bytes(self, node: NodeSettings) -> int:
        return self.real_bytes(node.memory_bytes) + node.containers * _PROCESS_BYTES

    def _swap_bytes(self, node: NodeSettings) -> int:
        return self.real_bytes(node.swap_bytes) + node.max_suspended * _PROCESS_BYTES if node.swap_bytes else 0

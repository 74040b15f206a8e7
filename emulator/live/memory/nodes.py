"""The memory of the nodes of one host: a cgroup for each node, and one swap file for all of them.

Only runs whose tasks use memory, or whose containers are limited, have this, and only as root.  Without root the tasks'
memory is real, but nodes have no memory limit and no swap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from emulator.core.job import JobSpec
from emulator.core.settings import NodeSettings
from emulator.live.cgroups import (
    CPU_CONTROLLER,
    Controller,
    NoMemoryGroups,
    counter,
    find_controller,
    group_folder,
    remove_node_groups,
    why_no_groups,
)
from emulator.live.memory.swap_file import SwapFailed, end_swap, make_swap_file
from emulator.policies.resources import PARTS
from emulator.vocabulary import Resources

_CONTAINER_BYTES = 16 << 20
"""Memory of a container's processes beyond what the task is to use: one of which images are made has 13 MB."""
_SWAPPINESS = 1
"""The effect of the paper's setting: with 0, today's kernels do not swap in a group of version 1 but kill instead.  In
version 2 a group has no swappiness."""
_WEIGHT = {1: "cpu.shares", 2: "cpu.weight"}
_OF_ONE_CPU, _MOST = {1: 1024, 2: 100}, {1: 262_144, 2: 10_000}
"""What each version gives a group that nobody weighs, here one processor, and the most that it takes."""


def why_no_containers() -> str | None:
    """Why containers cannot be limited on this machine; None: they can."""
    return why_no_groups("limiting single containers", "memory", CPU_CONTROLLER)


SWAP_FILE = "swap"
_PROCESS_BYTES = 8 << 20
"""Memory of a task's process beyond the memory it is to use; added to a node's limit for each process."""


def largest_task_bytes(jobs: Iterable[JobSpec]) -> int:
    """The most memory that a task of these jobs uses, emulated; 0: none uses any."""
    kinds = (sizes for job in jobs for sizes in (job.facts, *job.facts.groups))
    return max((max(sizes.task_memory_bytes, default=0) for sizes in kinds), default=0)


def why_no_swap() -> str | None:
    """Why runs on this machine cannot have their own swap and memory limits of nodes; None: they can."""
    return why_no_groups("real swap", "memory")


class NodeMemories:
    """The memory of the nodes of one host; exists from ``open`` to ``close``."""

    def __init__(
        self, mark: str, directory: Path, scale: float, nodes: Sequence[NodeSettings], limits_containers: bool = False
    ) -> None:
        """
        Args:
            mark: the run's id and the host's name; the groups are named after it.
            directory: the host's own directory, which holds the swap file.
            scale: real bytes per emulated byte.
            nodes: the host's nodes.
            limits_containers: whether each container has groups of its own.
        """
        self._mark = mark
        self._directory = directory
        self._scale = scale
        self._nodes = {node.name: node for node in nodes}
        self._killed: dict[str, int] = {}
        """How many tasks the kernel had killed on each node when last checked."""
        self._limits_containers = limits_containers
        self._memory: Controller | None = None
        """The controller of the nodes' groups; None: they have none."""
        self._cpu: Controller | None = None
        """The controller of the containers' processors; None: containers have no groups of their own."""

    def open(self) -> None:
        """Make groups and swap.  Raises SwapFailed, NoMemoryGroups, OSError; then nothing is left."""
        swap_bytes = sum(map(self._swap_bytes, self._nodes.values()))
        if not self._nodes:
            return
        if self._limits_containers and (why := why_no_containers()) is not None:
            raise NoMemoryGroups(f"live.memory: {why}, on every machine of the cluster; set it to node")
        if (why := why_no_swap()) is not None:
            if swap_bytes:
                raise SwapFailed(f"cluster.swap_gb: {why}, on every machine of the cluster; set it to 0")
            return
        self._memory = memory = find_controller()
        self._cpu = find_controller(CPU_CONTROLLER) if self._limits_containers else None
        try:
            for node in self._nodes.values():
                self._make_node_group(node, memory)
                if self._cpu is not None:
                    self._allow_container_groups(node, memory, self._cpu)
            if swap_bytes:
                make_swap_file(self._directory / SWAP_FILE, swap_bytes)
        except BaseException:
            self.close()
            raise

    def _make_node_group(self, node: NodeSettings, memory: Controller) -> None:
        folder, memory_bytes, swap_bytes = (
            self._group(node.name, memory),
            self._memory_bytes(node),
            self._swap_bytes(node),
        )
        limits = {"memory.max": memory_bytes, "memory.swap.max": swap_bytes}
        if memory.version == 1:
            limits = {
                "memory.swappiness": _SWAPPINESS,
                "memory.limit_in_bytes": memory_bytes,
                "memory.memsw.limit_in_bytes": memory_bytes + swap_bytes,
            }
        else:
            (folder.parent / "cgroup.subtree_control").write_text("+memory")
        folder.mkdir()
        for name, value in limits.items():
            (folder / name).write_text(str(value))

    def _allow_container_groups(self, node: NodeSettings, memory: Controller, cpu: Controller) -> None:
        folder = self._group(node.name, cpu)
        if memory.version == 2:
            for parent in (folder.parent, folder):
                (parent / "cgroup.subtree_control").write_text("+memory +cpu")
        else:
            folder.mkdir()
        (folder / _WEIGHT[cpu.version]).write_text(_weight(node, node.resources, cpu.version))

    def close(self) -> None:
        """Remove groups and swap; all tasks must have ended."""
        if self._memory is not None:
            remove_node_groups(self._mark)
            end_swap([self._directory])
            self._memory = None

    def real_bytes(self, emulated_bytes: int) -> int:
        """Real bytes for this many emulated bytes."""
        return int(emulated_bytes * self._scale)

    def emulated_bytes(self, real_bytes: int) -> int:
        """Emulated bytes for this many real bytes."""
        return round(real_bytes / self._scale)

    def _group(self, node: str, controller: Controller) -> Path:
        return group_folder(controller, self._mark, node)

    def _container_groups(self, node: str, container: str) -> tuple[Path, Path] | None:
        """The groups of a container for memory and processors, the same one in version 2; None: it has none."""
        if self._memory is None or self._cpu is None:
            return None
        return self._group(node, self._memory) / container, self._group(node, self._cpu) / container

    def processes_file(self, node: str) -> str | None:
        """The file through which a task of the node joins its group, by writing 0; None: there is no group."""
        return None if self._memory is None else str(self._group(node, self._memory) / "cgroup.procs")

    def container_groups(self, node: str, container: str, request: Resources) -> dict[str, dict[str, str]]:
        """The groups of a container whose task has this request: by folder, what is written to which of its files;
        empty: it has none."""
        groups = self._container_groups(node, container)
        if groups is None or self._cpu is None:
            return {}
        memory, cpu = map(str, groups)
        version, settings = self._cpu.version, self._nodes[node]
        limit, weight = str(self._limit_bytes(settings, request)), _weight(settings, request, version)
        if version == 2:
            return {memory: {"memory.max": limit, _WEIGHT[2]: weight}}
        of_memory = {"memory.limit_in_bytes": limit, "memory.memsw.limit_in_bytes": limit}
        return {memory: of_memory, cpu: {_WEIGHT[1]: weight}}

    def ended(self, node: str, container: str) -> None:
        """A container has ended: its own groups are removed.  What cannot be removed yet goes when the run ends."""
        for folder in self._container_groups(node, container) or ():
            with suppress(OSError):
                folder.rmdir()

    def why_killed(self, node: str, container: str, request: Resources) -> str | None:
        """Why the kernel may have killed a task; None if it has killed none of its container, or, where containers have
        no groups, none of the node since the last call."""
        settings = self._nodes.get(node)
        if settings is None or self._memory is None or not self._has_killed(node, container, self._memory):
            return None
        groups = self._container_groups(node, container)
        if groups is not None and _was_full(groups[0], self._memory.version):
            return (
                f"the kernel killed it: it used more than the {self._limit_bytes(settings, request) >> 20} MiB of its"
                " container (what it asks for, times live.memory_scale, and a little for its process)"
            )
        memory_mib, swap_mib = self._memory_bytes(settings) >> 20, self._swap_bytes(settings) >> 20
        return (
            f"the kernel killed it: {node} had no memory left, of {memory_mib} MiB, nor swap, of {swap_mib} MiB"
            " (cluster.memory_gb and swap_gb times live.memory_scale, and a little for each process)"
        )

    def _has_killed(self, node: str, container: str, memory: Controller) -> bool:
        groups = self._container_groups(node, container)
        if groups is not None:
            with suppress(OSError):
                return _killed_in(groups[0], memory.version) > 0
            return False
        before = self._killed.get(node, 0)
        self._killed[node] = _killed_in(self._group(node, memory), memory.version)
        return self._killed[node] != before

    def _limit_bytes(self, node: NodeSettings, request: Resources) -> int:
        """The memory that a container whose task has this request may have."""
        return self.real_bytes(node.requested_bytes(request)) + _CONTAINER_BYTES

    def _memory_bytes(self, node: NodeSettings) -> int:
        return self.real_bytes(node.memory_bytes) + node.containers * _PROCESS_BYTES

    def _swap_bytes(self, node: NodeSettings) -> int:
        return self.real_bytes(node.swap_bytes) + node.max_suspended * _PROCESS_BYTES if node.swap_bytes else 0


def _weight(node: NodeSettings, amounts: Resources, version: int) -> str:
    cpu = dict(zip(node.resource_names, amounts, strict=False)).get("cpu", PARTS)
    return str(min(max(2, cpu * _OF_ONE_CPU[version] // PARTS), _MOST[version]))


def _killed_in(folder: Path, version: int) -> int:
    """How many of the processes in a group the kernel has killed because there was no memory left."""
    return counter(folder / ("memory.oom_control" if version == 1 else "memory.events"), "oom_kill")


def _was_full(folder: Path, version: int) -> bool:
    """Whether a group itself has ever had too little memory."""
    if version == 1:
        most, limit = (folder / f"memory.memsw.{file}_in_bytes" for file in ("max_usage", "limit"))
        return int(most.read_text()) >= int(limit.read_text())  # failcnt stays 0 in today's kernels
    return counter(folder / "memory.events", "oom") > 0

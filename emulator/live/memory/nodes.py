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
from emulator.live.cgroups import Controller
from emulator.live.memory.cgroup import (
    CPU_CONTROLLER,
    MemoryGroup,
    NoMemoryGroups,
    counter,
    find_controller,
    group_folder,
    killed_in,
    remove_groups,
    why_no_groups,
)
from emulator.live.memory.swap_file import SwapFailed, end_swap, make_swap_file
from emulator.policies.resources import PARTS
from emulator.vocabulary import Resources

_CONTAINER_BYTES = 16 << 20
"""Memory of a container's processes beyond what the task is to use: one of which images are made has 13 MB."""
_WEIGHT = {1: "cpu.shares", 2: "cpu.weight"}
_OF_ONE_CPU, _MOST = {1: 1024, 2: 100}, {1: 262_144, 2: 10_000}
"""What each version gives a group that nobody weighs, here one processor, and the most that it takes."""


def why_no_containers() -> str | None:
    """Why containers cannot be limited on this machine; None: they can."""
    return why_no_groups("limiting single containers", "memory", CPU_CONTROLLER)


class ContainerGroups:
    """The groups of the containers of one host."""

    def __init__(self, mark: str, memory: Controller, cpu: Controller, scale: float) -> None:
        """``mark``: the run's id and the host's name; ``scale``: real bytes per emulated byte."""
        self._mark = mark
        self._memory, self._cpu = memory, cpu
        self._scale = scale

    def make_room(self, node: NodeSettings) -> None:
        """Let the containers of a node, whose memory group exists, have groups.  Raises OSError."""
        if self._memory.version == 2:
            folder = group_folder(self._memory, self._mark, node.name)
            for parent in (folder.parent, folder):
                (parent / "cgroup.subtree_control").write_text("+memory +cpu")
        else:
            folder = group_folder(self._cpu, self._mark, node.name)
            folder.mkdir()
        (folder / _WEIGHT[self._cpu.version]).write_text(self._weight(node, node.resources))

    def limits(self, node: NodeSettings, container: str, request: Resources) -> dict[str, dict[str, str]]:
        """The groups of a container whose task has this request: by folder, what is written to which of its files."""
        limit, weight = str(self.limit_bytes(node, request)), self._weight(node, request)
        memory, cpu = map(str, self._folders(node.name, container))
        if self._memory.version == 2:
            return {memory: {"memory.max": limit, _WEIGHT[2]: weight}}
        of_memory = {"memory.limit_in_bytes": limit, "memory.memsw.limit_in_bytes": limit}
        return {memory: of_memory, cpu: {_WEIGHT[1]: weight}}

    def has_killed(self, node: str, container: str) -> bool:
        """Whether the kernel has killed a process of the container because it, or its node, had no memory left."""
        with suppress(OSError):
            return killed_in(self._folders(node, container)[0], self._memory.version) > 0
        return False

    def was_full(self, node: str, container: str) -> bool:
        """Whether the container itself has ever had too little memory."""
        folder, _ = self._folders(node, container)
        if self._memory.version == 1:
            most, limit = (folder / f"memory.memsw.{file}_in_bytes" for file in ("max_usage", "limit"))
            return int(most.read_text()) >= int(limit.read_text())  # failcnt stays 0 in today's kernels
        return counter(folder / "memory.events", "oom") > 0

    def remove(self, node: str, container: str) -> None:
        """The container has ended.  What cannot be removed yet goes when the run ends."""
        for folder in self._folders(node, container):
            with suppress(OSError):
                folder.rmdir()

    def _folders(self, node: str, container: str) -> tuple[Path, Path]:
        memory, cpu = (group_folder(each, self._mark, node) / container for each in (self._memory, self._cpu))
        return memory, cpu

    def limit_bytes(self, node: NodeSettings, request: Resources) -> int:
        """The memory that a container whose task has this request may have."""
        return int(node.requested_bytes(request) * self._scale) + _CONTAINER_BYTES

    def _weight(self, node: NodeSettings, amounts: Resources) -> str:
        version = self._cpu.version
        cpu = dict(zip(node.resource_names, amounts, strict=False)).get("cpu", PARTS)
        return str(min(max(2, cpu * _OF_ONE_CPU[version] // PARTS), _MOST[version]))


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
        self._groups: dict[str, MemoryGroup] = {}
        self._killed: dict[str, int] = {}
        """How many tasks the kernel had killed on each node when last checked."""
        self._limits_containers = limits_containers
        self._containers: ContainerGroups | None = None

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
        controller = find_controller()
        if self._limits_containers:
            self._containers = ContainerGroups(self._mark, controller, find_controller(CPU_CONTROLLER), self._scale)
        try:
            for node in self._nodes.values():
                group = self._groups[node.name] = MemoryGroup(controller, self._mark, node.name)
                group.make(self._memory_bytes(node), self._swap_bytes(node))
                if self._containers is not None:
                    self._containers.make_room(node)
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

    def container_groups(self, node: str, container: str, request: Resources) -> dict[str, dict[str, str]]:
        """The groups of a container's own, with their limits; empty: it has none."""
        return {} if self._containers is None else self._containers.limits(self._nodes[node], container, request)

    def ended(self, node: str, container: str) -> None:
        """A container has ended: its own groups are removed."""
        if self._containers is not None:
            self._containers.remove(node, container)

    def why_killed(self, node: str, container: str, request: Resources) -> str | None:
        """Why the kernel may have killed a task; None if it has killed none of its container, or, where containers have
        no groups, none of the node since the last call."""
        settings, own = self._nodes.get(node), self._containers
        if settings is None or not self._has_killed(node, container):
            return None
        if own is not None and own.was_full(node, container):
            return (
                f"the kernel killed it: it used more than the {own.limit_bytes(settings, request) >> 20} MiB of its"
                " container (what it asks for, times live.memory_scale, and a little for its process)"
            )
        memory_mib, swap_mib = self._memory_bytes(settings) >> 20, self._swap_bytes(settings) >> 20
        return (
            f"the kernel killed it: {node} had no memory left, of {memory_mib} MiB, nor swap, of {swap_mib} MiB"
            " (cluster.memory_gb and swap_gb times live.memory_scale, and a little for each process)"
        )

    def _has_killed(self, node: str, container: str) -> bool:
        if self._containers is not None:
            return self._containers.has_killed(node, container)
        group, before = self._groups.get(node), self._killed.get(node, 0)
        if group is None:
            return False
        self._killed[node] = group.killed_for_memory()
        return self._killed[node] != before

    def _memory_bytes(self, node: NodeSettings) -> int:
        return self.real_bytes(node.memory_bytes) + node.containers * _PROCESS_BYTES

    def _swap_bytes(self, node: NodeSettings) -> int:
        return self.real_bytes(node.swap_bytes) + node.max_suspended * _PROCESS_BYTES if node.swap_bytes else 0

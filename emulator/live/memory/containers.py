"""The cgroups of single containers, below those of their nodes (``live.memory: container``).

A container has the memory that its task asks for, and a share of the machine's processors in proportion to the ``cpu``
that it asks for.  (The share counts only where the processors are not enough for all.)  A process makes its
container's groups and joins them before it does anything else; its host removes them when it has ended.

Memory and swap of a container together are limited in version 1.  In version 2 its memory is; what is above goes to the
node's swap first.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from emulator.core.settings import NodeSettings
from emulator.live.cgroups import Controller
from emulator.live.memory.cgroup import CPU_CONTROLLER, counter, group_folder, killed_in, why_no_groups
from emulator.policies.resources import PARTS
from emulator.vocabulary import Resources

_PROCESS_BYTES = 16 << 20
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
        return int(node.requested_bytes(request) * self._scale) + _PROCESS_BYTES

    def _weight(self, node: NodeSettings, amounts: Resources) -> str:
        version = self._cpu.version
        cpu = dict(zip(node.resource_names, amounts, strict=False)).get("cpu", PARTS)
        return str(min(max(2, cpu * _OF_ONE_CPU[version] // PARTS), _MOST[version]))

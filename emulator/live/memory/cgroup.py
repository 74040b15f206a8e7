"""The memory cgroup of a node, version 1 or 2: limits of its tasks' memory, and of memory and swap together.

A group is directly below the mount of the controller.  It is named after its run, so it can be found when its maker is
gone.  In version 1 its swappiness is 1, which has the effect of the paper's setting: with 0, today's kernels do not
swap in a group but kill instead.  In version 2 a group has no swappiness.  Standard library only.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from emulator.live.cgroups import PREFIX, Controller, mounted, unified
from emulator.live.cgroups import remove_groups as remove_groups_below

_SWAPPINESS = 1


class NoMemoryGroups(Exception):
    """This machine has no memory controller that this process may use; the message says why."""


def find_controller() -> Controller:
    """The memory controller.  Raises NoMemoryGroups."""
    if (found := mounted("memory")) is not None:
        return _usable(found)
    found = unified()
    if found is not None and "memory" in (found.folder / "cgroup.controllers").read_text().split():
        return _usable(found)
    raise NoMemoryGroups("no memory controller of cgroups is mounted")


def _usable(controller: Controller) -> Controller:
    if not os.access(controller.folder, os.W_OK):
        raise NoMemoryGroups(f"{controller.folder} may not be written to")
    return controller


class MemoryGroup:
    """The group of one node."""

    def __init__(self, controller: Controller, mark: str, node: str) -> None:
        """``mark`` consists of its run's id and its host's name."""
        self._version = controller.version
        self.folder = controller.folder / f"{PREFIX}{mark}-{node}"

    @property
    def processes_file(self) -> Path:
        """A process that writes 0 to it joins the group."""
        return self.folder / "cgroup.procs"

    def make(self, memory_bytes: int, swap_bytes: int) -> None:
        """Create the group with its limits.  Raises OSError."""
        if self._version == 2:
            (self.folder.parent / "cgroup.subtree_control").write_text("+memory")
        self.folder.mkdir()
        if self._version == 1:
            limits = {
                "memory.swappiness": _SWAPPINESS,
                "memory.limit_in_bytes": memory_bytes,
                "memory.memsw.limit_in_bytes": memory_bytes + swap_bytes,
            }
        else:
            limits = {"memory.max": memory_bytes, "memory.swap.max": swap_bytes}
        for name, value in limits.items():
            (self.folder / name).write_text(str(value))

    def killed_for_memory(self) -> int:
        """How many of its processes the kernel has killed because memory and swap were full."""
        name = "memory.oom_control" if self._version == 1 else "memory.events"
        return _counter(self.folder / name, "oom_kill")


def _counter(path: Path, name: str) -> int:
    """The value of ``name`` in a file of the kernel with a name and a number in each line; 0 if it is not there."""
    lines = path.read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name} ")), 0)


def swapped_bytes_in(processes_file: str) -> int:
    """How much of the memory of a group's processes is in swap."""
    folder = Path(processes_file).parent
    with suppress(OSError):
        if (current := folder / "memory.swap.current").exists():  # version 2
            return int(current.read_text())
        return _counter(folder / "memory.stat", "swap")
    return 0


def remove_groups(mark: str) -> None:
    """Remove the groups whose mark begins with ``mark``; processes still in them are killed."""
    with suppress(NoMemoryGroups, OSError):
        remove_groups_below(find_controller().folder, f"{PREFIX}{mark}-*")

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
CPU_CONTROLLER = "cpu"


class NoMemoryGroups(Exception):
    """This machine lacks a controller that this process may use; the message says why."""


def find_controller(name: str = "memory") -> Controller:
    """The controller ``name``.  Raises NoMemoryGroups."""
    if (found := mounted(name)) is not None:
        return _usable(found)
    found = unified()
    if found is not None and name in (found.folder / "cgroup.controllers").read_text().split():
        return _usable(found)
    raise NoMemoryGroups(f"no {name} controller of cgroups is mounted")


def why_no_groups(wish: str, *controllers: str) -> str | None:
    """Why runs on this machine cannot have a wish that needs root and these controllers; None: they can."""
    if os.geteuid() != 0:
        return f"{wish} needs root"
    for name in controllers:
        try:
            find_controller(name)
        except NoMemoryGroups as error:
            return f"{wish} needs {name} cgroups: {error}"
    return None


def _usable(controller: Controller) -> Controller:
    if not os.access(controller.folder, os.W_OK):
        raise NoMemoryGroups(f"{controller.folder} may not be written to")
    return controller


def group_folder(controller: Controller, mark: str, node: str) -> Path:
    """The group of a node; ``mark`` consists of its run's id and its host's name."""
    return controller.folder / f"{PREFIX}{mark}-{node}"


class MemoryGroup:
    """The group of one node."""

    def __init__(self, controller: Controller, mark: str, node: str) -> None:
        """See ``group_folder``."""
        self._version = controller.version
        self.folder = group_folder(controller, mark, node)

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
        return killed_in(self.folder, self._version)


def killed_in(folder: Path, version: int) -> int:
    """How many of the processes in a group the kernel has killed because there was no memory left."""
    return counter(folder / ("memory.oom_control" if version == 1 else "memory.events"), "oom_kill")


def counter(path: Path, name: str) -> int:
    """The value of ``name`` in a file of the kernel with a name and a number in each line; 0 if it is not there."""
    lines = path.read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name} ")), 0)


def swapped_bytes_in(processes_file: str) -> int:
    """How much of the memory of a group's processes, and of those in groups below it, is in swap."""
    folder = Path(processes_file).parent
    with suppress(OSError):
        if (current := folder / "memory.swap.current").exists():  # version 2
            return int(current.read_text())
        return counter(folder / "memory.stat", "total_swap")
    return 0


def remove_groups(mark: str) -> None:
    """Remove the groups whose mark begins with ``mark``; processes still in them are killed."""
    for name in ("memory", CPU_CONTROLLER):
        with suppress(NoMemoryGroups, OSError):
            remove_groups_below(find_controller(name).folder, f"{PREFIX}{mark}-*")

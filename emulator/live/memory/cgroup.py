"""The memory cgroup of a node, version 1 or 2: limits of its tasks' memory, and of memory and swap together.

A group is directly below the mount of the controller.  It is named after its run, so it can be found when its maker is
gone.  In version 1 its swappiness is 1, which has the effect of the paper's setting: with 0, today's kernels do not
swap in a group but kill instead.  In version 2 a group has no swappiness.  Standard library only.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_MOUNTS = Path("/proc/self/mounts")
_PREFIX = "natjam-"
_SWAPPINESS = 1
_GONE_PATIENCE_REAL_S = 5.0
_BETWEEN_TRIES_REAL_S = 0.02


class NoMemoryGroups(Exception):
    """This machine has no memory controller that this process may use; the message says why."""


@dataclass(frozen=True, slots=True)
class Controller:
    """Where the memory controller is mounted."""

    folder: Path
    version: int


def find_controller() -> Controller:
    """The memory controller.  Raises NoMemoryGroups."""
    for line in _MOUNTS.read_text().splitlines():
        _, folder, kind, options, *_ = line.split()
        if kind == "cgroup" and "memory" in options.split(","):
            return _usable(Controller(Path(folder), 1))
    for line in _MOUNTS.read_text().splitlines():
        _, folder, kind, *_ = line.split()
        if kind == "cgroup2":
            found = Controller(Path(folder), 2)
            if "memory" in (found.folder / "cgroup.controllers").read_text().split():
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
        self.folder = controller.folder / f"{_PREFIX}{mark}-{node}"

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
        for folder in find_controller().folder.glob(f"{_PREFIX}{mark}-*"):
            _remove(folder)


def _remove(folder: Path) -> None:
    deadline = time.monotonic() + _GONE_PATIENCE_REAL_S
    while True:
        try:
            folder.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                return
            _kill_members(folder)
            time.sleep(_BETWEEN_TRIES_REAL_S)


def _kill_members(folder: Path) -> None:
    with suppress(OSError):
        for pid in set((folder / "cgroup.procs").read_text().split()) - {"0"}:  # 0: a process outside our pid namespace
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)

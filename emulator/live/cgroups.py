"""Control groups of the kernel, version 1 or 2: where they are mounted, and how one is frozen, emptied and removed.

A process that is frozen does nothing, whatever it is sent, until it is thawed; so the members of a frozen group are
those that are listed, and none of them starts another.

The groups of a node are directly below the mounts of their controllers.  They are named after their run, so they can be
found when their maker is gone.  Standard library only.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

PREFIX = "natjam-"
"""The names of all groups that runs make begin with it; the run's id follows."""
CPU_CONTROLLER = "cpu"
_MOUNTS, _OWN = Path("/proc/self/mounts"), Path("/proc/self/cgroup")
_GONE_TIMEOUT_REAL_S = 5.0
_BETWEEN_TRIES_REAL_S = 0.02
_FREEZING_REAL_S, _BETWEEN_LOOKS_REAL_S = 0.05, 0.0002
_V2_FREEZER, _V1_FREEZER = "cgroup.freeze", "freezer.state"


class NoMemoryGroups(Exception):
    """This machine lacks a controller that this process may use; the message says why."""


@dataclass(frozen=True, slots=True)
class Controller:
    """Where a controller is mounted, or for version 2 the one hierarchy that has all of them."""

    folder: Path
    version: int

    def own_group(self) -> Path:
        """The group of this process; the top one if it cannot be seen from here."""
        for line in _OWN.read_text().splitlines():
            _, names, path = line.split(":", 2)
            if (not names if self.version == 2 else self.folder.name in names.split(",")) and path != "/":
                below = self.folder / path.lstrip("/")
                return below if below.is_dir() else self.folder
        return self.folder


def mounted(name: str) -> Controller | None:
    """Where the controller ``name`` of version 1 is mounted."""
    for kind, folder, options in _mounts():
        if kind == "cgroup" and name in options.split(","):
            return Controller(folder, 1)
    return None


def unified() -> Controller | None:
    """Where version 2 is mounted."""
    return next((Controller(folder, 2) for kind, folder, _ in _mounts() if kind == "cgroup2"), None)


def _mounts() -> Iterator[tuple[str, Path, str]]:
    for line in _MOUNTS.read_text().splitlines():
        _, folder, kind, options, *_ = line.split()
        yield kind, Path(folder), options


def find_controller(name: str = "memory") -> Controller:
    """The controller ``name``.  Raises NoMemoryGroups."""
    found = mounted(name) or unified()
    if found is None or (found.version == 2 and name not in (found.folder / "cgroup.controllers").read_text().split()):
        raise NoMemoryGroups(f"no {name} controller of cgroups is mounted")
    if not os.access(found.folder, os.W_OK):
        raise NoMemoryGroups(f"{found.folder} may not be written to")
    return found


def why_no_groups(request: str, *controllers: str) -> str | None:
    """Why runs on this machine cannot have what needs root and these controllers; None: they can."""
    if os.geteuid() != 0:
        return f"{request} needs root"
    for name in controllers:
        try:
            find_controller(name)
        except NoMemoryGroups as error:
            return f"{request} needs {name} cgroups: {error}"
    return None


def group_folder(controller: Controller, mark: str, node: str) -> Path:
    """The group of a node; ``mark`` consists of its run's id and its host's name."""
    return controller.folder / f"{PREFIX}{mark}-{node}"


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


def members(folder: Path) -> list[int]:
    """The processes of a group that this process can see; none if the group is gone."""
    with suppress(OSError):
        pids = map(int, (folder / "cgroup.procs").read_text().split())
        return [pid for pid in pids if pid]  # 0: a process outside our pid namespace
    return []


@contextmanager
def frozen(folder: Path) -> Iterator[None]:
    """Within the block the members of a group do nothing.

    Where the group cannot be frozen, or a member hangs in the kernel, they may.
    """
    of_v2 = (folder / _V2_FREEZER).exists()
    file, freeze, thaw = (_V2_FREEZER, "1", "0") if of_v2 else (_V1_FREEZER, "FROZEN", "THAWED")
    try:
        with suppress(OSError):
            (folder / file).write_text(freeze)
            until_real_s = time.monotonic() + _FREEZING_REAL_S
            while not _is_frozen(folder, of_v2) and time.monotonic() < until_real_s:
                time.sleep(_BETWEEN_LOOKS_REAL_S)
        yield
    finally:
        with suppress(OSError):
            (folder / file).write_text(thaw)


def _is_frozen(folder: Path, of_v2: bool) -> bool:
    if of_v2:
        return "frozen 1" in (folder / "cgroup.events").read_text().splitlines()
    return (folder / _V1_FREEZER).read_text().strip() == "FROZEN"


def remove_node_groups(mark: str) -> None:
    """Remove the groups of nodes whose mark begins with ``mark``; processes still in them are killed."""
    for name in ("memory", CPU_CONTROLLER):
        with suppress(NoMemoryGroups, OSError):
            remove_groups(find_controller(name).folder, f"{PREFIX}{mark}-*")


def remove_groups(parent: Path, pattern: str) -> None:
    """Remove the groups below ``parent`` with such names, and those in them; processes still in them are killed."""
    for folder in parent.glob(pattern):
        remove_groups(folder, "*/")
        _remove(folder)


def _remove(folder: Path) -> None:
    deadline = time.monotonic() + _GONE_TIMEOUT_REAL_S
    while True:
        try:
            folder.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                return
            with frozen(folder):
                for pid in members(folder):
                    with suppress(OSError):
                        os.kill(pid, signal.SIGKILL)
            time.sleep(_BETWEEN_TRIES_REAL_S)

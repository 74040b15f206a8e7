"""What this machine offers of the things that natjam can use, and what does not work without them."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import psutil

from emulator.live.dumpers.criu import find_criu, tracks_memory
from emulator.live.dumpers.images import SHARED_MEMORY
from emulator.live.memory.nodes import why_no_swap
from emulator.live.program_members import group_parent
from emulator.storage.images import PAGE_TRACKER
from emulator.vocabulary import counted

_CGROUP_FOLDER = Path("/sys/fs/cgroup")
_CONTROLLERS = ("memory", "freezer", "cpu")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that natjam can use."""

    name: str
    works: bool
    found: str
    without: str
    """What does not work, or works worse, because it is missing; empty if nothing is."""


def examine() -> list[Finding]:
    """Check everything; takes under a second, changes nothing."""
    of_tasks = [_cgroups(), _programs(), _swap(), _own_swap(), _staging()]
    return [_system(), _root(), *_criu(), *of_tasks, _ray(), _chromium()]


def _finding(name: str, works: bool, found: str, without: str) -> Finding:
    return Finding(name, works, found, "" if works else without)


def _system() -> Finding:
    versions = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    size = f"{counted(len(os.sched_getaffinity(0)), 'core')}, {psutil.virtual_memory().total / 2**30:.0f} GiB"
    return _finding("system", platform.system() == "Linux", f"{versions}, {size}", "live runs: they need Linux")


def _root() -> Finding:
    is_root = os.geteuid() == 0
    return _finding(
        "root", is_root, "yes" if is_root else f"no: user {os.geteuid()}", "process images by criu; swap of runs"
    )


def _criu() -> list[Finding]:
    without = "process images of any program; images then save the memory of natjam's own tasks alone"
    found = find_criu()
    if found is None:
        return [Finding("criu", False, "none; 'make criu' gets one", without)]
    if found.problem is not None:
        return [Finding("criu", False, f"{found.version or 'no version'}, {found.path}: {found.problem}", without)]
    soft_dirty = "has" if tracks_memory(found.path) else "has no"
    return [
        Finding("criu", True, f"{found.version}, {found.path}: criu check passes", ""),
        Finding("changed pages", True, f"by {PAGE_TRACKER} (the kernel {soft_dirty} soft-dirty bits)", ""),
    ]


def _cgroups() -> Finding:
    without = "limits on the memory of single tasks"
    try:
        unified = (_CGROUP_FOLDER / "cgroup.controllers").read_text().split()
    except OSError:
        there = [name for name in _CONTROLLERS if (_CGROUP_FOLDER / name).is_dir()]
        usable = "memory" in there and os.access(_CGROUP_FOLDER / "memory", os.W_OK)
        version = "version 1" if there else "none mounted"
    else:
        there = [name for name in _CONTROLLERS if name in unified or name == "freezer"]  # always there in version 2
        usable = "memory" in there and os.access(_CGROUP_FOLDER, os.W_OK)
        version = "version 2"
    may = "" if usable else "; may not be written to" if "memory" in there else "; without memory"
    return _finding("cgroups", usable, f"{version}: {', '.join(there) or 'no controller'}{may}", without)


def _programs() -> Finding:
    parent = group_parent()
    without = (
        "a process that ends and starts the next one all the time may escape its program's suspend or end, and what "
        "a program has started may outlive a supervisor that is killed"
    )
    if parent is None:
        return Finding("programs", False, "no cgroups for them: what they start is found by descent", without)
    version = 2 if (parent / "cgroup.controllers").exists() else 1
    return Finding("programs", True, f"each in a cgroup of its own (version {version}, in {parent})", "")


def _swap() -> Finding:
    swap = psutil.swap_memory()
    text = f"{swap.total / 2**30:.1f} GiB, {swap.free / 2**30:.1f} free" if swap.total else "none"
    return _finding("swap", swap.total > 0, text, "room for the memory of stopped tasks beyond the machine's own")


def _own_swap() -> Finding:
    why = why_no_swap() or ("" if shutil.which("mkswap") else "real swap needs mkswap, of util-linux")
    where = Path(tempfile.gettempdir())
    free_gib = shutil.disk_usage(where).free / 2**30
    without = "swap of a run's own: nodes have none, and what would need some is not suspended"
    return _finding("swap of runs", not why, why or f"up to {free_gib:.1f} GiB in {where}", without)


def _staging() -> Finding:
    without = "images are staged beside their store instead, at the speed of that disk"
    try:
        free_gib = shutil.disk_usage(SHARED_MEMORY).free / 2**30
    except OSError:
        return Finding("/dev/shm", False, "is not there", without)
    return _finding("/dev/shm", free_gib >= 1, f"{free_gib:.1f} GiB free", without)


def _ray() -> Finding:
    try:
        version = importlib.metadata.version("ray")
    except importlib.metadata.PackageNotFoundError:
        return Finding("Ray", False, "is not installed", "live runs")
    return Finding("Ray", True, version, "")


def _chromium() -> Finding:
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    text = f"no {' and no '.join(missing)}" if missing else str(shutil.which("chromium"))
    return _finding("Chromium", not missing, text, "the tests of the report's pages, which are skipped")

"""Memory and swap of nodes for live tests: whether they can be made here, and which ones exist."""

from __future__ import annotations

import contextlib
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.live.cgroups import NoMemoryGroups, find_controller, mounted, unified
from emulator.live.memory.nodes import why_no_containers

MIB = 1 << 20


def _why_not() -> str:
    if os.geteuid() != 0:
        return "needs root"
    try:
        find_controller()
    except NoMemoryGroups as error:
        return str(error)
    return ""


needs_containers = pytest.mark.skipif(bool(why_no_containers()), reason=str(why_no_containers()))
needs_swap = pytest.mark.skipif(bool(_why_not()), reason=f"swap and memory cgroups: {_why_not()}")


@contextlib.contextmanager
def most_bytes_taken(most_bytes: int) -> Iterator[None]:
    """Python takes at most that much memory in the block, at any time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] <= most_bytes
    finally:
        tracemalloc.stop()


def swaps_below(directory: Path) -> list[str]:
    """Active swap files below a directory."""
    lines = Path("/proc/swaps").read_text().splitlines()[1:]
    return [line.split()[0] for line in lines if line.startswith(f"{os.path.realpath(directory)}/")]


def groups_of(mark: str) -> list[Path]:
    """Cgroups of nodes and of programs whose mark begins with ``mark``."""
    at = (unified(), mounted("memory"), mounted("cpu"), mounted("freezer"))
    parents = {folder for found in at if found is not None for folder in (found.folder, found.own_group())}
    return [group for parent in parents for group in parent.glob(f"natjam-*{mark}*")]


def overwrite_memory(pid: int) -> None:
    """Flip a bit in the middle of the largest private memory of a process, which is the memory of its task."""
    sizes = {}
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        where, access, _, _, inode, *_ = line.split()
        first, last = (int(part, 16) for part in where.split("-"))
        if access == "rw-p" and inode == "0":
            sizes[first] = last - first
    first = max(sizes, key=sizes.__getitem__)
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        memory.seek(first + sizes[first] // 2)
        byte = memory.read(1)[0]
        memory.seek(first + sizes[first] // 2)
        memory.write(bytes([byte ^ 1]))

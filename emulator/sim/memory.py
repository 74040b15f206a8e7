"""The memory of the nodes in virtual time: how much each process uses, how much of it is in swap, and what that costs.

Theory of operation
-------------------
A task writes all its memory before its first key and reads it back after its last (os-assisted-preemption, section
IV-C).  If RAM has no room for what is written or read back, other processes are paged out.  Stopped processes go first,
the one stopped earliest before the others.  Then come running ones, the least recently used first (section III-A).  A
process that resumes gets nothing back until it reads it.  Memory that was paged in is written out again if it must
leave once more: a task's pages are never clean here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Moved(NamedTuple):
    """Bytes that a task has used, and how they came into RAM."""

    used_bytes: int
    paged_out_bytes: int
    """Bytes of other processes paged out to make room."""
    paged_in_bytes: int = 0
    """The part of the used bytes that was in swap."""


@dataclass(slots=True)
class _Process:
    resident_bytes: int = 0
    swapped_bytes: int = 0
    stopped: bool = False


class NodeMemory:
    """RAM of one node; swap is as large as needed, since the node's ledger limits what is stopped."""

    def __init__(self, ram_bytes: int) -> None:
        self._free_bytes = ram_bytes
        self._processes: dict[str, _Process] = {}
        """The processes of the node in the order of their last use, the least recent first."""

    def write(self, container: str, size_bytes: int) -> Moved:
        """A process fills new memory."""
        process = self._touched(container)
        paged_out_bytes = self._free_memory(size_bytes, process)
        process.resident_bytes += size_bytes
        self._free_bytes -= size_bytes
        return Moved(size_bytes, paged_out_bytes)

    def read(self, container: str) -> Moved:
        """A process reads all its memory."""
        process = self._touched(container)
        back_bytes = process.swapped_bytes
        paged_out_bytes = self._free_memory(back_bytes, process)
        process.swapped_bytes = 0
        process.resident_bytes += back_bytes
        self._free_bytes -= back_bytes
        return Moved(process.resident_bytes, paged_out_bytes, back_bytes)

    def stop(self, container: str) -> None:
        """A process is stopped."""
        if container in self._processes:
            self._touched(container).stopped = True

    def resume(self, container: str) -> int:
        """A stopped process continues; returns how many bytes of its memory are in swap."""
        if container not in self._processes:
            return 0
        self._processes[container].stopped = False
        return self._processes[container].swapped_bytes

    def end(self, container: str) -> int:
        """A process has ended; returns how many bytes of its memory were in swap."""
        process = self._processes.pop(container, None)
        if process is None:
            return 0
        self._free_bytes += process.resident_bytes
        return process.swapped_bytes

    def _touched(self, container: str) -> _Process:
        process = self._processes.pop(container, None) or _Process()
        self._processes[container] = process
        return process

    def _free_memory(self, wanted_bytes: int, for_whom: _Process) -> int:
        """Page out other processes so that ``wanted_bytes`` fit; returns the bytes paged out, which may be fewer."""
        others = [process for process in self._processes.values() if process is not for_whom]
        short_bytes = lacking_bytes = max(0, wanted_bytes - self._free_bytes)
        for process in sorted(others, key=lambda process: not process.stopped):
            out_bytes = min(short_bytes, process.resident_bytes)
            process.resident_bytes -= out_bytes
            process.swapped_bytes += out_bytes
            self._free_bytes += out_bytes
            short_bytes -= out_bytes
        return lacking_bytes - short_bytes


class MemoryTimes(NamedTuple):
    """Speeds of memory, in bytes per emulated second; 0: takes no time."""

    write_bytes_s: int = 0
    read_bytes_s: int = 0
    swap_out_bytes_s: int = 0
    """Writing when room must be made."""
    swap_in_bytes_s: int = 0
    """Reading from swap."""

    def write_ns(self, moved: Moved) -> int:
        """Time to fill new memory."""
        at_once_bytes = max(0, moved.used_bytes - moved.paged_out_bytes)
        return _ns(at_once_bytes, self.write_bytes_s) + _ns(moved.paged_out_bytes, self.swap_out_bytes_s)

    def read_ns(self, moved: Moved) -> int:
        """Time to read memory back."""
        at_once_bytes = moved.used_bytes - moved.paged_in_bytes
        swapped_ns = _ns(moved.paged_in_bytes, self.swap_in_bytes_s) + _ns(moved.paged_out_bytes, self.swap_out_bytes_s)
        return _ns(at_once_bytes, self.read_bytes_s) + swapped_ns


NO_MEMORY_TIMES = MemoryTimes()


def _ns(size_bytes: int, bytes_s: int) -> int:
    return size_bytes * 10**9 // bytes_s if bytes_s else 0


class VirtualMemory:
    """The memory of all nodes, made at first use."""

    def __init__(self, ram_bytes: Mapping[str, int], times: MemoryTimes) -> None:
        """``ram_bytes``: for each node."""
        self.times = times
        self._ram_bytes = ram_bytes
        self._nodes: dict[str, NodeMemory] = {}

    def of(self, node: str) -> NodeMemory:
        """The memory of one node."""
        if node not in self._nodes:
            self._nodes[node] = NodeMemory(self._ram_bytes[node])
        return self._nodes[node]

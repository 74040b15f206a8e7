"""The memory that a task holds: written whole at its start, read back whole at its end and compared.

Every chunk is the same random block turned by another number of bytes: no two pages are equal, none can be told from
another's, and what should stand where follows from the block alone.  Standard library only.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable

_CHUNK_BYTES = 1 << 16
_TURN_BYTES = 4099
"""A prime, so that chunks repeat after 64 Ki of them only, and pages never within one."""


class MemoryChanged(Exception):
    """A task's memory does not hold what was written to it."""


class HeldMemory:
    """So many bytes, private to this process.  Raises OSError where they cannot be had."""

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._block = os.urandom(_CHUNK_BYTES) * 2
        self.mapping = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)

    def write(self, between: Callable[[], None]) -> None:
        """Write all of it, ``between`` two chunks being called."""
        for start in range(0, self._size_bytes, _CHUNK_BYTES):
            expected = self._expected(start)
            self.mapping[start : start + len(expected)] = expected
            between()

    def check(self, between: Callable[[], None]) -> None:
        """Read all of it back, likewise.  Raises MemoryChanged."""
        for start in range(0, self._size_bytes, _CHUNK_BYTES):
            expected = self._expected(start)
            if self.mapping[start : start + len(expected)] != expected:
                raise MemoryChanged(
                    f"the task's memory has changed: of {self._size_bytes} bytes it had written, those from {start} to"
                    f" {start + len(expected)} are others now"
                )
            between()

    def _expected(self, start: int) -> bytes:
        turn = start // _CHUNK_BYTES * _TURN_BYTES % _CHUNK_BYTES
        return self._block[turn : turn + min(_CHUNK_BYTES, self._size_bytes - start)]


def swapped_bytes_of(pid: int) -> int:
    """How much of a process's memory is in swap; 0 of one that is gone."""
    try:
        with open(f"/proc/{pid}/status", "rb") as status:
            for line in status:
                if line.startswith(b"VmSwap:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0

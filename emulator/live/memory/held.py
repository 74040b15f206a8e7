"""The memory that a task uses: completely written at its start, completely read back and compared at its end.

Every chunk is the same random block, rotated by a different number of bytes.  So no two pages are equal, also not with
those of other tasks, and the expected content follows from the block alone.  Standard library only.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable

_CHUNK_BYTES = 1 << 16
_TURN_BYTES = 4099
"""A prime, so that chunks repeat only after 64 Ki chunks, and pages never repeat within a chunk."""


class MemoryChanged(Exception):
    """A task's memory differs from what was written to it."""


class HeldMemory:
    """Memory of a given size, private to this process.  Raises OSError if it cannot be allocated."""

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._block = os.urandom(_CHUNK_BYTES) * 2
        self.mapping = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)

    def write(self, between: Callable[[], None]) -> None:
        """Write all of it; ``between`` is called after each chunk."""
        for start in range(0, self._size_bytes, _CHUNK_BYTES):
            expected = self._expected(start)
            self.mapping[start : start + len(expected)] = expected
            between()

    def check(self, between: Callable[[], None]) -> None:
        """Read all of it back; ``between`` is called after each chunk.  Raises MemoryChanged."""
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
    """Bytes of a process's memory that are in swap; 0 if it is gone."""
    try:
        with open(f"/proc/{pid}/status", "rb") as status:
            for line in status:
                if line.startswith(b"VmSwap:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0

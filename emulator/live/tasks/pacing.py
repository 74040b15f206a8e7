"""Limits reads and writes to the speed of an emulated device: a token bucket that several processes share.

The bucket is one word in a file: the time at which the device is free again.  To move some bytes, a process locks the
file, reserves the device's next period of time for them, and waits until the end of that period.  The real transfer
runs meanwhile, so it adds no time as long as the real device is faster than the emulated one.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from pathlib import Path

from emulator.storage.images import Pace

_INSTANT = struct.Struct("=q")
_CREDIT_REAL_NS = 500_000_000
"""How far an operation may be behind its schedule and still catch up."""


class DevicePacer:
    """One device, shared by all processes that name the same file."""

    def __init__(self, path: Path, bytes_real_s: int, latency_real_ns: int = 0) -> None:
        """``bytes_real_s``: real bytes per real second: the tier's speed, times time scale and memory scale."""
        if bytes_real_s < 1:
            raise ValueError(f"a device of {bytes_real_s} bytes a second")
        self._path = path
        self._bytes_real_s = bytes_real_s
        self._latency_real_ns = latency_real_ns

    def operation(self) -> Pace:
        """Start a dump or a restore: wait for the latency; call the returned function before each piece of data."""
        _wait_until(self._reserve(self._latency_real_ns, credit_real_ns=0))

        def pace(size_bytes: int) -> None:
            _wait_until(self._reserve(self.expected_real_ns(size_bytes), _CREDIT_REAL_NS))

        return pace

    def expected_real_ns(self, size_bytes: int) -> int:
        """The time for this many bytes, without latency."""
        return -(-size_bytes * 10**9 // self._bytes_real_s)

    def _reserve(self, duration_real_ns: int, credit_real_ns: int) -> int:
        """Reserve the next period; returns its end (CLOCK_MONOTONIC)."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            word = os.pread(descriptor, _INSTANT.size, 0)
            free_real_ns = _INSTANT.unpack(word)[0] if len(word) == _INSTANT.size else 0
            end_real_ns = max(free_real_ns, time.monotonic_ns() - credit_real_ns) + duration_real_ns
            os.pwrite(descriptor, _INSTANT.pack(end_real_ns), 0)
            return end_real_ns
        finally:
            os.close(descriptor)


def _wait_until(real_ns: int) -> None:
    while (left_real_ns := real_ns - time.monotonic_ns()) > 0:
        time.sleep(left_real_ns / 1e9)

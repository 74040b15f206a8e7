"""Full disks, for tests: writes beyond a given size fail."""

from __future__ import annotations

import resource
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def file_size_limit(limit_bytes: int) -> Iterator[None]:
    """Writes beyond ``limit_bytes`` of a file raise OSError (EFBIG) in this process."""
    old_limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    old_handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, old_limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old_limits)
        signal.signal(signal.SIGXFSZ, old_handler)


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[None]:
    """A file system of that size at ``place``; a test that cannot have it is skipped."""
    place.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "natjam-test", str(place)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"cannot mount a small file system: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)

"""The swap file of a run on one machine: make, switch on, switch off, remove.  Root only; standard library only.

The file is in the run's own directory, and that identifies it: any swap file below that directory belongs to the run.
It has the highest priority, so the memory of tasks goes there and not to the machine's own swap.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from emulator.parent import ctypes, libc

_SWAPS = Path("/proc/swaps")
_HIGHEST_PRIORITY = 0x8000 | 32767
"""With the flag that a priority is given (swapon(2))."""


class SwapFailed(Exception):
    """A swap file cannot be made or switched on; the message says why, with the numbers."""


def make_swap_file(path: Path, size_bytes: int) -> None:
    """Make a swap file of that size and switch it on.  Raises SwapFailed; then nothing is left."""
    check_room(path.parent, size_bytes)
    try:
        _allocate(path, size_bytes)
        _switch_on(path, size_bytes)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def check_room(directory: Path, size_bytes: int) -> None:
    """Raise SwapFailed if a swap file of that size does not fit on a directory's disk."""
    free_bytes = shutil.disk_usage(directory).free
    if free_bytes < size_bytes:
        raise SwapFailed(
            f"{directory}: swap of {_mib(size_bytes)} does not fit: {_mib(free_bytes)} are free; lower"
            " live.memory_scale or cluster.swap_gb, or set TMPDIR to a directory on a larger disk"
        )


def _allocate(path: Path, size_bytes: int) -> None:
    handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        os.posix_fallocate(handle, 0, size_bytes)  # it must have no holes
    except OSError as error:
        raise SwapFailed(f"{path}: no swap file of {_mib(size_bytes)} can be made there: {error.strerror}") from None
    finally:
        os.close(handle)


def _switch_on(path: Path, size_bytes: int) -> None:
    try:
        made = subprocess.run(
            ["mkswap", str(path)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise SwapFailed(f"mkswap cannot be run: {error.strerror}; install util-linux") from None
    if made.returncode:
        raise SwapFailed(f"mkswap {path} failed: {made.stderr.strip()}")
    if libc.swapon(os.fsencode(path), _HIGHEST_PRIORITY):
        why = os.strerror(ctypes.get_errno())
        raise SwapFailed(
            f"swap of {_mib(size_bytes)} cannot be switched on at {path}: {why}; it needs root and a file system of a"
            " disk (set TMPDIR to a directory on one)"
        )


def end_swap(directories: Sequence[str | Path]) -> None:
    """Switch off and remove every swap file below one of these directories; its users must have ended."""
    below = tuple(f"{os.path.realpath(directory)}/" for directory in directories)
    for path in _active_swap():
        if below and path.startswith(below):
            libc.swapoff(os.fsencode(path))
            with suppress(OSError):
                os.unlink(path)


def _active_swap() -> list[str]:
    with suppress(OSError):
        lines = _SWAPS.read_text().splitlines()[1:]
        return [line.split()[0].encode().decode("unicode_escape") for line in lines]
    return []


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:.0f} MiB"

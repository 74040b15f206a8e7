"""From a stopped process to an image and back, with the time of each part.

The dumper's files are staged in memory if there is room.  So only what the image needs goes to its store, at the
store's own speed.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulator.live.dumpers import Dumper, DumpError
from emulator.storage.images import Image, ImageChain, Pace

STAGING_PREFIX = "natjam-image-"
SHARED_MEMORY = Path("/dev/shm")
"""Files in memory, where there is such a place."""


@dataclass(frozen=True, slots=True)
class Saved:
    """A process that was dumped; it still exists, stopped."""

    image: Image
    dump_real_ns: int
    """From the process to staged files."""
    store_real_ns: int
    """From staged files to a durable image on its store."""


@dataclass(frozen=True, slots=True)
class Restored:
    """A process that was restored; it is stopped, as before."""

    image: Image
    pid: int | None
    """None from a dumper that saves memory only."""
    load_real_ns: int
    """From the image to staged files, all checked."""
    restore_real_ns: int
    """From staged files to a process."""


def save_process(
    dumper: Dumper,
    pid: int,
    chain: ImageChain,
    counters: Mapping[str, Any] | None = None,
    pace: Pace | None = None,
    staging: Path | None = None,
) -> Saved:
    """Save a stopped process as the next image of its chain.

    ``staging``: directory for the dumper's files; by default in memory, or beside the images if memory is short.  The
    process is not changed: kill it after this has returned.

    Raises DumpError, OSError (a full disk, for example): earlier images are then unchanged.
    """
    with _staged(staging or _staging_for(_resident_bytes(pid), chain.folder)) as folder:
        began_real_ns = time.monotonic_ns()
        dumper.dump(pid, folder)
        dumped_real_ns = time.monotonic_ns()
        image = chain.save(folder, dumper.name, pid, counters, pace)
        return Saved(image, dumped_real_ns - began_real_ns, time.monotonic_ns() - dumped_real_ns)


def restore_process(dumper: Dumper, chain: ImageChain, number: int, staging: Path | None = None) -> Restored:
    """Restore a process from one of its images.

    Raises ImageDamaged, DumpError, OSError.
    """
    image = chain.read(number)
    if image.dumper != dumper.name:
        raise DumpError(f"image {number} is of the dumper {image.dumper}, not {dumper.name}")
    with _staged(staging or _staging_for(image.memory_bytes, chain.folder)) as folder:
        began_real_ns = time.monotonic_ns()
        chain.load(number, folder)
        loaded_real_ns = time.monotonic_ns()
        pid = dumper.restore(folder)
        return Restored(image, pid, loaded_real_ns - began_real_ns, time.monotonic_ns() - loaded_real_ns)


@contextmanager
def _staged(parent: Path) -> Iterator[Path]:
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=STAGING_PREFIX, dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _staging_for(size_bytes: int, otherwise: Path) -> Path:
    try:
        room_bytes = shutil.disk_usage(SHARED_MEMORY).free
    except OSError:
        return otherwise
    return SHARED_MEMORY if room_bytes > 2 * size_bytes and os.access(SHARED_MEMORY, os.W_OK) else otherwise


def _resident_bytes(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, ValueError):
        raise DumpError(f"process {pid} is gone") from None
    return pages * os.sysconf("SC_PAGE_SIZE")

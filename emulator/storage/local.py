"""Files that appear completely or not at all, in a local or shared POSIX directory."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO
from urllib.parse import quote

PARTIAL_DIRECTORY = "_partial"
"""Directory for the partial outputs of attempts, inside the output directory."""

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def job_directory_name(job: str) -> str:
    """The name of a job's directory: percent-encoded, and never ``.``, ``..`` or ``_partial`` itself."""
    name = quote(job, safe="")
    if name in ("", ".", "..", PARTIAL_DIRECTORY):
        return "%" + name[:1].encode().hex().upper() + name[1:]
    return name


def make_directory(path: str) -> None:
    """Make a directory and those above it, unless it is there: asking first is cheaper than ``makedirs``."""
    if not os.path.isdir(path):
        os.makedirs(path, exist_ok=True)


def sync_directory(path: str) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def atomic_file(
    path: str,
    temporary: str | None = None,
    *,
    durable: bool = True,
    before_publishing: Callable[[], None] = lambda: None,
) -> Iterator[BinaryIO]:
    """Write a file under a temporary name; rename it to ``path`` when the block ends without an error.

    ``temporary`` must be on the same file system; without it, a hidden name in the file's own directory is used.
    ``durable`` also waits until the bytes and the name are on the disk.  ``before_publishing`` is called when all is
    written and closed, before the rename.  On an error the temporary file is removed, and an earlier file at ``path``
    stays.  Missing directories are created.
    """
    directory, name = os.path.split(path)
    make_directory(directory)
    if temporary is None:
        temporary = os.path.join(directory, f".{name}.{os.getpid()}.tmp")
    else:
        make_directory(os.path.dirname(temporary))
    try:
        with open(temporary, "wb", buffering=1 << 18) as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        before_publishing()
        os.replace(temporary, path)
    except BaseException as error:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.errno in _NO_ROOM and error.filename is None:
            error.filename = path  # a failed write does not name its file
        raise
    if durable:
        sync_directory(directory)

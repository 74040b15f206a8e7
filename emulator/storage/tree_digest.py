"""The digest of a directory: which files it has, and what is in them.

It is the SHA-256 over its entries in the order of their paths.  An entry is a letter for its kind (``d`` directory,
``f`` file, ``l`` symbolic link, ``o`` anything else), the length of its path in four bytes, the path, and 32 bytes: the
SHA-256 of the file's contents or of the link's target, or zeros.  Links are not followed, pipes and devices not opened.
Owners, rights and times do not count.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

_READ_BYTES = 1 << 20
MAX_BYTES = 16 << 30
"""More would take minutes to read.  The holes of sparse files count: a small disk has room for a file of terabytes."""


@dataclass(frozen=True, slots=True)
class TreeDigest:
    """The digest of a directory, and how many bytes its files have together."""

    sha256: str
    size_bytes: int


def tree_digest(directory: str | os.PathLike[str]) -> TreeDigest:
    """The digest of everything below ``directory``.  Raises OSError if something cannot be read, or it is too much."""
    root = os.fsencode(directory)
    digest, size_bytes = hashlib.sha256(), 0
    entries = [(path, os.lstat(os.path.join(root, path))) for path in sorted(_entries(root))]
    if sum(status.st_size for _, status in entries) > MAX_BYTES:
        raise OSError(errno.EFBIG, f"has more than {MAX_BYTES >> 30} GiB", root)
    for path, status in entries:
        content = bytes(32)
        kind = b"d" if stat.S_ISDIR(status.st_mode) else b"o"
        if stat.S_ISREG(status.st_mode):
            kind, (content, read_bytes) = b"f", file_digest(os.path.join(root, path))
            size_bytes += read_bytes
        elif stat.S_ISLNK(status.st_mode):
            kind, content = b"l", hashlib.sha256(os.readlink(os.path.join(root, path))).digest()
        digest.update(kind + len(path).to_bytes(4, "big") + path + content)
    return TreeDigest(digest.hexdigest(), size_bytes)


def _entries(root: bytes) -> Iterator[bytes]:
    """Paths of everything below ``root``, relative to it."""

    def unreadable(error: OSError) -> None:
        raise error

    for directory, directories, files in os.walk(root, onerror=unreadable):
        for name in (*directories, *files):
            yield os.path.relpath(os.path.join(directory, name), root)


def file_digest(path: bytes | str | os.PathLike[str]) -> tuple[bytes, int]:
    """The SHA-256 of a file, and its size in bytes.  A symbolic link is not followed.  Raises OSError."""
    digest, read_bytes = hashlib.sha256(), 0
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0) as file:
        while block := file.read(_READ_BYTES):
            digest.update(block)
            read_bytes += len(block)
    return digest.digest(), read_bytes

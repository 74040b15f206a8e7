"""Output of a reduce, key by key; one partial file per attempt, named after its container (natjam, section 3.1).

An output line is ``key <tab> number of values <tab> digest`` and a newline.  The digest is the first 16 bytes, in
hexadecimal, of the SHA-256 over every value in map order, each preceded by its length in four bytes.  If the job's
output size ``O`` is given, the line of key ``g`` of the job's ``T`` keys (reduces in order) has
``O*(g+1)//T - O*g//T`` bytes: it is filled with a tab and the digest repeated.  A line is never cut below its own
length.

What a checkpoint counts is sealed: the partial file ends with a line of its keys, its bytes and the CRC-32 of its name,
of these and of all before, which the commit leaves out.  With the name in it, the file of another task or attempt does
not pass for its own.  Seals are checked at each resume and commit.  If one does not match, or at a resume is not there,
work continues from the last checkpoint before it.  A task that saves by itself and goes on has its seal in a file
beside: it counts while there is none at the end, and what comes after it is left out.
"""

from __future__ import annotations

import hashlib
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from emulator.storage.local import PARTIAL_DIRECTORY, atomic_file, job_directory_name, make_directory, sync_directory

_BUFFER_BYTES = 1 << 18
_COPY_BYTES = 1 << 20
_SEALED = b"seal %15d %15d"
_SEAL_LINE = re.compile(rb"seal +(\d+) +(\d+) [0-9a-f]{8}\n")
_BESIDE = ".seal"
_SEAL_BYTES = len(_SEALED % (0, 0)) + len(b" 00000000\n")
CONTAINER_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,150}")
"""An id that can name files and directories."""


class OutputError(Exception):
    """Output could not be written or committed.  Nothing that a checkpoint counts is lost."""


def final_path(output_directory: str, job: str, task: int, kind: str = "r") -> str:
    """The committed output file of a task; ``kind`` is "r" for a reduce, "m" for a map of a map-only job."""
    return os.path.join(output_directory, job_directory_name(job), f"part-{kind}-{task:05d}")


def partial_path(final: str, container_id: str) -> str:
    """Path of one attempt's part of the output file ``final``.  Raises ValueError for an unsafe id."""
    if not CONTAINER_ID.fullmatch(container_id):
        raise ValueError(f"container id {container_id!r} cannot name a file")
    return os.path.join(_partial_directory(final), f"{os.path.basename(final)}.{container_id}")


def kept_paths(output_directory: str, job: str, task: int, containers: Sequence[str]) -> list[str]:
    """The files that checkpoints count on: the partial outputs of a reduce's ``containers``."""
    final = final_path(output_directory, job, task)
    return [partial_path(final, container) for container in containers]


def drop_partials(final: str) -> None:
    """Remove the partial outputs of the output file ``final`` after its commit."""
    directory = _partial_directory(final)
    prefix = os.path.basename(final) + "."
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return
    for name in names:
        if name.startswith(prefix):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(directory, name))


def _partial_directory(final: str) -> str:
    output_directory, job_directory = os.path.split(os.path.dirname(final))
    return os.path.join(output_directory, PARTIAL_DIRECTORY, job_directory)


class PartialOutput:
    """The partial output file of one attempt, open for appending.

    Lines are buffered; :meth:`sync` brings them to the disk.  It must return before anybody is told a key counter that
    includes them (checkpoint), and before the process stops.  Raises :class:`OutputError` if the disk is full or the
    directory cannot be written; the lines then stay in the buffer, and a later :meth:`sync` may succeed.
    """

    def __init__(
        self,
        output_directory: str,
        job: str,
        task: int,
        container_id: str,
        reduce_keys: Sequence[int],
        output_bytes: int | None,
        keys_done: int = 0,
    ) -> None:
        """``reduce_keys`` and ``output_bytes`` are for the whole job; ``keys_done`` is the checkpoint's key counter."""
        self.path = partial_path(final_path(output_directory, job, task), container_id)
        self.keys = 0
        """Keys appended by this attempt."""
        self._output_bytes = output_bytes
        self._job_keys = sum(reduce_keys)
        self._next_key = sum(reduce_keys[:task]) + keys_done
        self._buffer = bytearray()
        self._offset = 0
        self._crc = _crc_of_name(self.path)
        """CRC-32 of the name and the first ``_offset`` bytes."""
        self._descriptor = -1
        self._open(os.O_CREAT | os.O_TRUNC)

    def append(self, key: bytes, values: Iterable[bytes]) -> None:
        """Add one key's line."""
        count, digest = 0, hashlib.sha256()
        for value in values:
            count += 1
            digest.update(len(value).to_bytes(4, "big"))
            digest.update(value)
        mark = digest.hexdigest()[:32].encode()
        line = b"%b\t%d\t%b" % (key, count, mark)
        self._buffer += line
        if self._output_bytes is not None:
            key_number = self._next_key
            target = (
                self._output_bytes * (key_number + 1) // self._job_keys
                - self._output_bytes * key_number // self._job_keys
            )
            self._fill(mark, target - len(line) - 1)
        self._buffer += b"\n"
        self._next_key += 1
        self.keys += 1
        if len(self._buffer) >= _BUFFER_BYTES:
            self._write()

    def _fill(self, mark: bytes, size: int) -> None:
        """Append a tab and ``size - 1`` bytes of repeated ``mark``, in pieces."""
        if size <= 0:
            return
        self._buffer += b"\t"
        size -= 1
        block = (mark * (min(size, _COPY_BYTES) // len(mark) + 1))[:_COPY_BYTES]
        while size > 0:
            self._buffer += block[:size]
            size -= min(size, len(block))
            if len(self._buffer) >= _BUFFER_BYTES:
                self._write()

    def sync(self) -> int:
        """Write and fsync everything appended so far; returns the size of the file in bytes."""
        self._write()
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise self._error(error) from error
        return self._offset

    def seal(self) -> None:
        """Bring the file to the disk with its seal, on which a checkpoint relies, and close it.

        :meth:`reopen` takes the seal off and continues the file.
        """
        self._write()
        sealed = self._offset, self._crc
        self._buffer += _seal_line(self.keys, *sealed)
        try:
            self.close()
        finally:
            self._buffer.clear()
            self._offset, self._crc = sealed

    def seal_beside(self) -> None:
        """Bring what was appended to the disk, with its seal in a file beside, and go on."""
        self.sync()
        try:
            with atomic_file(self.path + _BESIDE) as file:
                file.write(_seal_line(self.keys, self._offset, self._crc))
        except OSError as error:
            raise self._error(error) from error

    def close(self, *, durable: bool = True) -> None:
        """Write the buffer, fsync it, and close the file; :meth:`reopen` continues it.

        ``durable=False`` leaves out the fsync.  That is enough for a process that stops but lives, whose output is
        dropped if it dies.
        """
        if self._descriptor < 0:
            return
        if durable:
            self.sync()
        else:
            self._write()
        os.close(self._descriptor)
        self._descriptor = -1

    def reopen(self) -> None:
        """Open the file again after :meth:`close` and continue at its end.

        Raises :class:`OutputError` if the file is gone or shorter than what was written.
        """
        if self._descriptor >= 0:
            return
        self._open(0)
        try:
            size = os.fstat(self._descriptor).st_size
            if size < self._offset:
                raise OutputError(
                    f"partial output {self.path}: {size} bytes, {self._offset} were written: it was changed "
                    "while the task was suspended"
                )
            os.ftruncate(self._descriptor, self._offset)
        except OSError as error:
            raise self._error(error) from error

    def _open(self, flags: int) -> None:
        try:
            make_directory(os.path.dirname(self.path))
            self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o644)
        except OSError as error:
            raise self._error(error) from error

    def _write(self) -> None:
        """Pass the buffer to the kernel; what it does not take stays in the buffer."""
        view = memoryview(self._buffer)
        taken = 0
        try:
            while taken < len(view):
                written = os.pwrite(self._descriptor, view[taken:], self._offset + taken)
                self._crc = zlib.crc32(view[taken : taken + written], self._crc)
                taken += written
        except OSError as error:
            raise self._error(error) from error
        finally:
            view.release()
            self._offset += taken
            del self._buffer[:taken]

    def _error(self, error: OSError) -> OutputError:
        return OutputError(f"partial output {self.path}: {error.strerror or error}")


def sound_partials(output_directory: str, job: str, task: int, containers: Sequence[str]) -> list[int]:
    """Number of keys in each partial output of ``containers``, up to the first that does not match its seal."""
    final = final_path(output_directory, job, task)
    found: list[int] = []
    for container in containers:
        path = partial_path(final, container)
        try:
            seal = _seal_of(path) or _seal_beside(path)
            if seal is None or not _matches(path, seal):
                break
        except OSError:
            break
        found.append(seal.keys)
    return found


class _Seal(NamedTuple):
    line: bytes
    keys: int
    size_bytes: int
    """The size of what it seals."""


def _seal_line(keys: int, size_bytes: int, crc: int) -> bytes:
    sealed = _SEALED % (keys, size_bytes)
    return b"%b %08x\n" % (sealed, zlib.crc32(sealed, crc))


def _matches(path: str, seal: _Seal) -> bool:
    return _seal_line(seal.keys, seal.size_bytes, _crc(path, seal.size_bytes)) == seal.line


def _seal_of(path: str) -> _Seal | None:
    """The seal of a partial output, not checked; None: it has none, or one of another size.  Raises OSError."""
    with open(path, "rb", buffering=0) as file:
        size_bytes = max(0, os.fstat(file.fileno()).st_size - _SEAL_BYTES)
        line = os.pread(file.fileno(), _SEAL_BYTES, size_bytes)
    parts = _SEAL_LINE.fullmatch(line)
    if parts is None or int(parts[2]) != size_bytes:
        return None
    return _Seal(line, int(parts[1]), size_bytes)


def _seal_beside(path: str) -> _Seal | None:
    """The seal of what a task had saved by itself, not checked; None: there is none.  Raises OSError."""
    try:
        with open(path + _BESIDE, "rb", buffering=0) as file:
            line = file.read(_SEAL_BYTES + 1)
    except FileNotFoundError:
        return None
    parts = _SEAL_LINE.fullmatch(line)
    return None if parts is None else _Seal(line, int(parts[1]), int(parts[2]))


def _blocks(path: str, size_bytes: int) -> Iterator[bytes]:
    """The first ``size_bytes`` of a file."""
    with open(path, "rb", buffering=0) as file:
        while size_bytes and (block := file.read(min(size_bytes, _COPY_BYTES))):
            size_bytes -= len(block)
            yield block


def _crc_of_name(path: str) -> int:
    return zlib.crc32(os.path.basename(path).encode())


def _crc(path: str, size_bytes: int) -> int:
    crc = _crc_of_name(path)
    for block in _blocks(path, size_bytes):
        crc = zlib.crc32(block, crc)
    return crc


def commit(output_directory: str, job: str, task: int, containers: Sequence[str], keys: int) -> int:
    """Join the partial outputs of ``containers``, in that order, into the final file; returns its size in bytes.

    ``containers`` are the checkpoint's past containers and then the attempt's own; its file must be closed.  ``keys``
    is the number of keys of the whole reduce.  Partial outputs of other, crashed attempts of the task are dropped.  May
    be repeated after a crash at any point.  Raises :class:`OutputError` if a partial output is missing or the keys do
    not add up (then nothing is published or removed), or if the disk fails.
    """
    final = final_path(output_directory, job, task)
    paths = [partial_path(final, container) for container in containers]
    try:
        if not os.path.exists(final):
            _join(paths, final, keys)
        elif (found := _count_keys(final, os.stat(final).st_size)) != keys:
            raise OutputError(f"output {final}: exists with {found} keys, expected {keys}")
        drop_partials(final)
        return os.stat(final).st_size
    except OSError as error:
        name = error.filename if isinstance(error.filename, str) else final
        raise OutputError(f"commit of {final}: {name}: {error.strerror or error}") from error


def _join(paths: list[str], final: str, keys: int) -> None:
    past = [_seal_of(path) or _seal_beside(path) for path in paths[:-1]]
    seals = [*past, _seal_of(paths[-1])]
    for path, seal in zip(paths, seals, strict=True):
        if seal is not None and not _matches(path, seal):
            raise OutputError(f"commit of {final}: {os.path.basename(path)} does not match its seal: it was changed")
    sizes = [
        os.stat(path).st_size if seal is None else seal.size_bytes for path, seal in zip(paths, seals, strict=True)
    ]
    counts = [_count_keys(path, size_bytes) for path, size_bytes in zip(paths, sizes, strict=True)]
    if sum(counts) != keys:
        found = ", ".join(f"{os.path.basename(path)}: {count}" for path, count in zip(paths, counts, strict=True))
        raise OutputError(f"commit of {final}: the partial outputs hold {sum(counts)} keys, expected {keys} ({found})")
    if seals == [None]:
        # Never suspended: the partial output is the whole output and need not be copied.
        os.makedirs(os.path.dirname(final), exist_ok=True)
        os.replace(paths[0], final)
        sync_directory(os.path.dirname(final))
        return
    # Written beside the partial outputs, so that what a crash leaves of it is dropped together with them.
    with atomic_file(final, f"{paths[-1]}.joined") as output:
        for path, size_bytes in zip(paths, sizes, strict=True):
            output.writelines(_blocks(path, size_bytes))


def _count_keys(path: str, size_bytes: int) -> int:
    """Number of lines in that much of a file.  Raises :class:`OutputError` if the last one is not complete."""
    lines, last = 0, b"\n"
    for block in _blocks(path, size_bytes):
        lines += block.count(b"\n")
        last = block[-1:]
    if last != b"\n":
        raise OutputError(f"output {path}: its last line is not complete")
    return lines

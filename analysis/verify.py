"""Proof that a run's output is correct: every file is computed again from the seed and the job, and compared.

This is a second implementation of the data's definition.  It shares no code with the tasks that ran (``emulator.live``
is not imported).  The output of a job must be:

- Notation: ``M`` maps; ``K`` keys of reduce ``r``; ``T`` keys of all reduces; key ``i`` of reduce ``r`` is
  number ``g = i + keys of the reduces before r``; ``part(A, j, n) = A*(j+1)//n - A*j//n``.  A job with
  reduces and no maps has the data of one map.  All integers are big-endian, ``SHAKE(text, n)`` is ``n`` bytes
  of SHAKE-128 of its UTF-8.
- ``SHAKE("natjam/1/keys/<seed>/<r>/<b>/<job>", 21*256)`` holds 21 bytes for each of the keys 256*b to 256*b +
  255: ``x`` u64, ``a``, ``b``, ``c`` u32 and ``e`` u8.
- Key ``i`` is ``i*(2^64//K) + x % (2^64//K)`` as 16 hexadecimal digits, so keys are ascending.
- It comes from maps ``a % M``; with ``e % 3 >= 1`` also ``b % M``; with ``e % 3 == 2`` also ``c % M``: ``n``
  different ones, in ascending order.
- The ``j``-th of them emits ``part(part(S, g, T), j, n)`` bytes, ``S`` being the job's shuffle bytes, or 100
  bytes where ``S`` is not given, in values of 65,536 bytes and a rest; one empty value if none.  Value ``p``
  of map ``m`` is ``SHAKE("natjam/1/value/<seed>/<r>/<i>/<m>/<p>/<job>", its length)``.
- The key's line in ``part-r-<r>`` (five digits) is key, tab, number of values, tab, digest: the first 32
  hexadecimal digits of the SHA-256 of all values, with maps ascending, each preceded by its length as u32.  With
  output bytes ``O``, a line that with its newline is shorter than ``part(O, g, T)`` is filled to this length with
  a tab and the digest repeated.
- ``part-m-<m>`` of a job without reduces has ``part(O, m, M)`` bytes, or 100: blocks of 65,536 bytes
  ``SHAKE("natjam/1/map-output/<seed>/<m>/<job>", 65536)``, the first 8 bytes of each replaced by its number
  as u64.

What programs should write is not known.  Of a task of a job of programs three things are checked: its directory
``part-c-<task>`` exists once; files in it have the SHA-256 that the experiment gives; and the whole directory has the
digest that it had when it was committed (``emulator.storage.tree_digest``), which is in the journal.

A job that its scheduler has ended (``PreemptMode=CANCEL``, a time limit) has committed only some of its files.  Those
are compared; those that are not there, and its partial outputs, are left out.

A job's files are in a directory with the job's name, percent-encoded (all but letters, digits and ``_.-~``; a job named
``.``, ``..`` or ``_partial`` has its first character encoded too).  Nothing else may be in the output directory, except
empty directories below ``_partial``.  Only a regular file counts as an output file.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from io import FileIO
from itertools import chain
from operator import iadd
from types import MappingProxyType
from typing import Any, BinaryIO
from urllib.parse import quote

from emulator.campaign.spread import ProcessWorkers, spread
from emulator.core.job import JobSpec, ProgramSpec
from emulator.errors import printable
from emulator.storage.tree_digest import tree_digest

_BLOCK_BYTES = 1 << 16
_READ_BYTES = 1 << 20
_LISTED_FILES = 20
_PARTIAL = "_partial"


@dataclass(slots=True)
class Verification:
    """The result of the comparison; counts are over all given jobs."""

    keys_expected: int = 0
    keys_written: int = 0
    """Lines in all reduce output files, correct or not."""
    keys_lost: int = 0
    """Expected keys that are in no line of their file."""
    keys_duplicated: int = 0
    """Lines of a key beyond its first one."""
    files_expected: int = 0
    files_differing: list[str] = field(default_factory=list)
    """With the reason, if the file could not be compared: it is not a regular file, or cannot be read."""
    files_missing: list[str] = field(default_factory=list)
    files_extra: list[str] = field(default_factory=list)
    """Unexpected files, including partial outputs that were left behind; directories end with a slash."""
    bytes_compared: int = 0
    programs: int = 0
    """Tasks that are programs; each counts as one expected file."""
    programs_compared: int = 0
    """How many of these had their files compared with the digest of the commit."""
    files_given: int = 0
    """Files of programs whose SHA-256 the experiment gives."""
    files_cancelled: int = 0
    """Files that jobs which their scheduler has ended had not committed: nothing else counts them."""

    @property
    def verified(self) -> bool:
        """Whether all expected files exist and are byte for byte equal, and there are no others."""
        return not (self.files_differing or self.files_missing or self.files_extra)

    def to_summary(self) -> dict[str, Any]:
        """The ``output`` object of summary.json; file names, at most 20 of each kind, are relative to the directory."""
        found = asdict(self)
        lists = {name: value for name, value in found.items() if isinstance(value, list)}
        return {
            "verified": self.verified,
            **found,
            **{name: len(files) for name, files in lists.items()},
            **{name.removeprefix("files_"): files[:_LISTED_FILES] for name, files in lists.items()},
        }

    def add(self, part: Verification) -> None:
        """Add the counts and files of a part."""
        for each in fields(self):
            setattr(self, each.name, iadd(getattr(self, each.name), getattr(part, each.name)))


def verify_output(
    jobs: Sequence[JobSpec],
    seed: int,
    output_directory: str | os.PathLike[str],
    digests: Mapping[tuple[str, int], str] = MappingProxyType({}),
    processes: int = 1,
    cancelled: Collection[str] = (),
) -> Verification:
    """Compute and compare every output file of ``jobs``.

    ``seed`` is the data seed that the maps got; ``digests`` are of the directories of programs when they were
    committed, by job and task; ``cancelled`` names the jobs that their scheduler has ended.  Memory is bounded, except
    for the keys of one file that is wrong.
    With ``processes`` above 1, files are spread over this many new processes.
    """
    root = os.fspath(output_directory)
    tasks = [
        (job, task) for job in jobs for task in range(len(job.reduce_keys) if job.reduce_keys else len(job.map_ns))
    ]
    check = partial(_check_file, seed, root, dict(digests), frozenset(cancelled))
    result = Verification()
    if processes > 1:
        with ProcessWorkers(partial(_check_files, check), processes, preloaded=[__name__]) as workers:
            for part in chain.from_iterable(spread(tasks, workers)):
                result.add(part)
    else:
        for part in map(check, tasks):
            result.add(part)
    result.files_differing.sort()
    result.files_missing.sort()
    found = _extra(root, {_relative_path(job, task) for job, task in tasks})
    left = tuple(f"{_PARTIAL}/{_directory(name)}/" for name in cancelled)
    result.files_extra = [path for path in found if not path.startswith(left)]
    return result


def _check_files(
    check: Callable[[tuple[JobSpec, int]], Verification], tasks: Sequence[tuple[JobSpec, int]]
) -> list[Verification]:
    return list(map(check, tasks))


def _check_file(
    seed: int,
    root: str,
    digests: Mapping[tuple[str, int], str],
    cancelled: Collection[str],
    job_and_task: tuple[JobSpec, int],
) -> Verification:
    """Compare one output file; the result counts only this file."""
    job, task = job_and_task
    name = _relative_path(job, task)
    if job.name in cancelled and not os.path.lexists(os.path.join(root, name)):
        return Verification(files_cancelled=1)
    result = Verification(files_expected=1)
    if job.program is not None:
        _check_program(job.program, os.path.join(root, name), name, digests.get((job.name, task)), result)
        return result
    if job.reduce_keys:
        result.keys_expected = job.reduce_keys[task]
        expected = reduce_output(job, seed, task)
    else:
        expected = map_output(job, seed, task)
    try:
        with open(_open_regular(os.path.join(root, name)), "rb", buffering=0) as file:
            _compare(file, job_and_task, seed, expected, name, result)
    except (FileNotFoundError, NotADirectoryError):
        result.files_missing.append(name)
        result.keys_lost = result.keys_expected
    except OSError as error:
        result.files_differing.append(f"{name}: {error.strerror or error}")
        result.keys_written, result.keys_lost, result.keys_duplicated = 0, result.keys_expected, 0
    return result


def _check_program(program: ProgramSpec, directory: str, name: str, digest: str | None, result: Verification) -> None:
    """Check that a program has left its directory, with what was there at the commit and the expected files in it."""
    result.programs = 1
    if os.path.islink(directory) or not os.path.isdir(directory):
        result.files_missing.append(name)
    elif digest is not None:
        result.programs_compared = 1
        _compare_tree(directory, name, digest, result)
    for file_name, sha256 in program.sha256:
        result.files_expected += 1
        result.files_given += 1
        try:
            with open(_open_regular(os.path.join(directory, file_name)), "rb") as file:
                result.bytes_compared += 0 if digest else os.fstat(file.fileno()).st_size
                is_equal = hashlib.file_digest(file, "sha256").hexdigest() == sha256
        except OSError as error:
            result.files_differing.append(f"{name}/{file_name}: {error.strerror or error}")
        else:
            result.files_differing += [] if is_equal else [f"{name}/{file_name}"]


def _compare_tree(directory: str, name: str, digest: str, result: Verification) -> None:
    try:
        found = tree_digest(directory)
    except OSError as error:
        result.files_differing.append(f"{name}: {error.strerror or error}")
        return
    result.bytes_compared += found.size_bytes
    if found.sha256 != digest:
        result.files_differing.append(f"{name}: is not as it was when it was committed")


def _open_regular(path: str) -> int:
    """A descriptor of a regular file, without following symbolic links or waiting for pipes.  Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(None, "is not a regular file")
    return descriptor


def _compare(
    file: FileIO,
    job_and_task: tuple[JobSpec, int],
    seed: int,
    expected: Iterable[bytes],
    name: str,
    result: Verification,
) -> None:
    job, task = job_and_task
    result.bytes_compared = os.fstat(file.fileno()).st_size
    if _equal(file, expected):
        result.keys_written = result.keys_expected
        return
    result.files_differing.append(name)
    if job.reduce_keys:
        file.seek(0)
        found = Counter(_keys_in(file))
        result.keys_written = found.total()
        result.keys_lost = sum(1 for _, key, _ in _keys(job, seed, task) if key not in found)
        result.keys_duplicated = result.keys_written - len(found)


def _equal(file: BinaryIO, expected: Iterable[bytes]) -> bool:
    """Whether a file has exactly these bytes."""
    pending: list[bytes] = []
    size = 0
    for piece in expected:
        pending.append(piece)
        size += len(piece)
        if size >= _READ_BYTES:
            if not _next_equals(file, b"".join(pending)):
                return False
            pending.clear()
            size = 0
    return _next_equals(file, b"".join(pending)) and not file.read(1)


def _next_equals(file: BinaryIO, expected: bytes) -> bool:
    read = 0
    while read < len(expected):
        block = file.read(len(expected) - read)
        if not block or block != expected[read : read + len(block)]:
            return False
        read += len(block)
    return True


def _keys_in(file: BinaryIO) -> Iterator[bytes]:
    """The text before the first tab of every line, at most 64 bytes."""
    head, at_start = b"", True
    while block := file.read(_READ_BYTES):
        position = 0
        while position < len(block):
            end = block.find(b"\n", position)
            stop = len(block) if end < 0 else end
            if len(head) < 64:
                head += block[position : min(stop, position + 64)]
            at_start = False
            if end >= 0:
                yield head.partition(b"\t")[0][:64]
                head, at_start = b"", True
            position = stop + 1
    if not at_start:
        yield head.partition(b"\t")[0][:64]


def _extra(root: str, expected: Collection[str]) -> list[str]:
    """Unexpected paths below ``root``, relative to it; the contents of an unexpected directory are not listed."""
    directories_expected = {".", *map(os.path.dirname, expected)}
    found: list[str] = []

    def unreadable(error: OSError) -> None:
        if os.path.lexists(error.filename):
            found.append(f"{os.path.relpath(error.filename, root)}/: {error.strerror}")

    for directory, directories, files in os.walk(root, onerror=unreadable):
        here = os.path.relpath(directory, root)
        paths = {name: os.path.normpath(os.path.join(here, name)) for name in (*files, *directories)}
        links = {name for name in directories if os.path.islink(os.path.join(directory, name))}
        found += [path for name in (*files, *links) if (path := paths[name]) not in expected]
        foreign = {
            name
            for name in directories
            if name not in links and paths[name] not in directories_expected and paths[name].split("/")[0] != _PARTIAL
        }
        found += [f"{paths[name]}/" for name in foreign if paths[name] not in expected]
        directories[:] = [name for name in directories if name not in foreign]
    return sorted(printable(os.fsencode(path).decode(errors="backslashreplace")) for path in found)


def _relative_path(job: JobSpec, task: int) -> str:
    kind = "c" if job.program is not None else "r" if job.reduce_keys else "m"
    return f"{_directory(job.name)}/part-{kind}-{task:05d}"


def _directory(job: str) -> str:
    """The name of a job's directory."""
    name = quote(job, safe="")
    return f"%{ord(name[0]):02X}{name[1:]}" if name in (".", "..", _PARTIAL) else name


def reduce_output(job: JobSpec, seed: int, reduce_index: int) -> Iterator[bytes]:
    """The bytes of one reduce's output file, in pieces; see the module's docstring."""
    before, total = sum(job.reduce_keys[:reduce_index]), sum(job.reduce_keys)
    for i, key, maps in _keys(job, seed, reduce_index):
        digest, count = hashlib.sha256(), 0
        for j, m in enumerate(maps):
            size = 100
            if job.shuffle_bytes is not None:
                size = _part(_part(job.shuffle_bytes, before + i, total), j, len(maps))
            for p, start in enumerate(range(0, max(size, 1), _BLOCK_BYTES)):
                length = min(_BLOCK_BYTES, size - start)
                digest.update(length.to_bytes(4, "big"))
                digest.update(_shake(f"natjam/1/value/{seed}/{reduce_index}/{i}/{m}/{p}/{job.name}", length))
                count += 1
        mark = digest.hexdigest()[:32]
        line = f"{key.decode()}\t{count}\t{mark}"
        fill = 0 if job.output_bytes is None else _part(job.output_bytes, before + i, total) - len(line) - 1
        if fill <= 0:
            yield f"{line}\n".encode()
            continue
        yield f"{line}\t".encode()
        repeated = (mark * (_READ_BYTES // len(mark))).encode()
        for start in range(0, fill - 1, len(repeated)):
            yield repeated[: fill - 1 - start]
        yield b"\n"


def _keys(job: JobSpec, seed: int, reduce_index: int) -> Iterator[tuple[int, bytes, list[int]]]:
    """Number, key and maps (ascending) of every key of a reduce."""
    keys, maps = job.reduce_keys[reduce_index], max(1, len(job.map_ns))
    width = 2**64 // keys
    material = b""
    for i in range(keys):
        if i % 256 == 0:
            material = _shake(f"natjam/1/keys/{seed}/{reduce_index}/{i // 256}/{job.name}", 21 * 256)
        drawn = material[i % 256 * 21 :][:21]
        value = i * width + int.from_bytes(drawn[:8], "big") % width
        chosen = [int.from_bytes(drawn[at : at + 4], "big") % maps for at in (8, 12, 16)]
        yield i, f"{value:016x}".encode(), sorted(set(chosen[: 1 + drawn[20] % 3]))


def map_output(job: JobSpec, seed: int, map_index: int) -> Iterator[bytes]:
    """The bytes of one map's file of a map-only job, in pieces."""
    size = 100 if job.output_bytes is None else _part(job.output_bytes, map_index, len(job.map_ns))
    block = _shake(f"natjam/1/map-output/{seed}/{map_index}/{job.name}", _BLOCK_BYTES)
    for number, start in enumerate(range(0, size, _BLOCK_BYTES)):
        yield (number.to_bytes(8, "big") + block[8:])[: size - start]


def _part(amount: int, index: int, count: int) -> int:
    return amount * (index + 1) // count - amount * index // count


def _shake(text: str, length: int) -> bytes:
    return hashlib.shake_128(text.encode()).digest(length)

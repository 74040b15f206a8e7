"""Images of stopped processes: written completely or not at all, with checksums, each with only the changed pages.

The images of one task are folders below the task's own folder, named by their numbers, each with four files:

    manifest.json   what the image is, of which task, the checksums of ``table`` and ``state``, and its own
    state           the dumper's small files, packed
    table           for each page of memory: the image whose ``pages`` holds it, its position there, its hash
    pages           the pages that no earlier image of the chain holds, one after the other

An image is written in a temporary folder, synced, and renamed.  Changed pages are found by their hashes: a page that
the previous image had anywhere is not written again.  So a chain works on every kernel and with any dumper, and a page
is checked by its hash when it is read back.

The pages of an image come from at most ``at_most`` images.  If there would be more, the pages of the image with the
fewest pages left are written again.  Images are kept as long as one of the two newest needs them; the older of these
two serves if the newest proves damaged.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgpack

from emulator.storage.local import sync_directory

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
PAGE_TRACKER = "page hashes"
"""The method of finding changed pages."""
AT_MOST = 8
VERSION = 1
_MANIFEST, _STATE, _TABLE, _PAGES = "manifest.json", "state", "table", "pages"
_UNFINISHED = ".tmp"
_ROW = struct.Struct("<II16s")
_CHUNK_BYTES = 1 << 20
_KEPT = 2

Pace = Callable[[int], None]
"""Called with a number of bytes before they are written or read; waits as long as the device's speed requires."""


class ImageDamaged(Exception):
    """An image differs from what was written, or is missing; the text names the file and the problem."""


@dataclass(frozen=True, slots=True)
class Image:
    """One complete image of a task's process."""

    task: str
    """The task that it is an image of: the last two parts of the path of the task's folder."""
    number: int
    dumper: str
    pid: int
    counters: Mapping[str, Any]
    """The task's work so far, for a dumper that saves memory only."""
    memory_bytes: int
    """Size of the process's pages: what a restore reads."""
    written_bytes: int
    """Everything written for this image: what the dump writes."""
    needs: tuple[int, ...]
    """Numbers of the earlier images that hold some of its pages."""
    page_files: tuple[tuple[str, int], ...]
    """The dumper's files of pages, with the number of pages in each."""
    table_sha256: str
    state_sha256: str
    version: int = VERSION


class ImageChain:
    """The images of one task, in its own folder.  Only one writer at a time; any node that sees the folder may read."""

    def __init__(self, folder: Path, at_most: int = AT_MOST) -> None:
        if at_most < 1:
            raise ValueError(f"a chain of at most {at_most} images")
        self.folder = folder
        self._at_most = at_most

    def numbers(self) -> list[int]:
        """Numbers of the existing images, the newest first."""
        if not self.folder.is_dir():
            return []
        return sorted((int(path.name) for path in self.folder.iterdir() if path.name.isdecimal()), reverse=True)

    def files(self, number: int) -> list[str]:
        """Paths of an image's files.  The last one is written last: without it there is no image."""
        return [str(self.folder / str(number) / name) for name in (_PAGES, _TABLE, _STATE, _MANIFEST)]

    def save(
        self,
        staged: Path,
        dumper: str,
        pid: int,
        counters: Mapping[str, Any] | None = None,
        pace: Pace | None = None,
    ) -> Image:
        """Write a dumper's files in a folder as the next image, then remove images that no kept image needs.

        Raises OSError; then nothing of it is left, and earlier images are unchanged.
        """
        numbers = self.numbers()
        number = numbers[0] + 1 if numbers else 1
        self._remove_unfinished()
        temporary = self.folder / f".{number}.{os.getpid()}{_UNFINISHED}"
        temporary.mkdir(parents=True)
        try:
            known = self._known_pages(numbers[0]) if numbers else {}
            process = (self._task, dumper, pid, counters or {})
            image = _write(temporary, staged, number, known, process, pace or _at_once)
            temporary.rename(self.folder / str(number))
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        sync_directory(str(self.folder))
        self._prune()
        return image

    def read(self, number: int) -> Image:
        """Read what an image is, without checking its pages.  Raises ImageDamaged, also if it is another one's."""
        folder = self.folder / str(number)
        image = _read_manifest(folder)
        if (image.task, image.number) != (self._task, number):
            raise ImageDamaged(f"{folder}: is image {image.number} of {image.task}")
        return image

    @property
    def _task(self) -> str:
        return f"{self.folder.parent.name}/{self.folder.name}"

    def load(self, number: int, into: Path, pace: Pace | None = None) -> Image:
        """Write the dumper's files of an image into a folder; every page and file is checked.

        Raises ImageDamaged, OSError (the files cannot be written).
        """
        image = self.read(number)
        rows = self._rows(image)
        try:
            for name, data in _unpacked(self.folder / str(number), image).items():
                (into / name).write_bytes(data)
            with _Sources(self.folder, pace or _at_once) as sources:
                for name, count in image.page_files:
                    with open(into / name, "wb", buffering=0) as file:
                        sources.copy(rows, count, file)
        except FileNotFoundError as error:
            raise ImageDamaged(f"{error.filename}: is not there") from None
        return image

    def remove(self) -> None:
        """Remove all images of the task."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _rows(self, image: Image) -> Iterator[tuple[int, int, bytes]]:
        path = self.folder / str(image.number) / _TABLE
        return _ROW.iter_unpack(_checked(path, image.table_sha256))

    def _known_pages(self, newest: int) -> dict[bytes, tuple[int, int]]:
        """The positions of pages that need not be written again; empty if the newest image is damaged."""
        try:
            known = {digest: (owner, place) for owner, place, digest in self._rows(self.read(newest))}
        except ImageDamaged:
            return {}
        owners = Counter(owner for owner, _ in known.values())
        if len(owners) < self._at_most:
            return known
        fewest = min(owners, key=lambda owner: (owners[owner], owner))
        return {digest: where for digest, where in known.items() if where[0] != fewest}

    def _remove_unfinished(self) -> None:
        """Remove the unfinished image of a writer that was killed."""
        for path in self.folder.glob(f".*{_UNFINISHED}"):
            shutil.rmtree(path, ignore_errors=True)

    def _prune(self) -> None:
        numbers = self.numbers()
        needed = set(numbers[:_KEPT])
        for number in numbers[:_KEPT]:
            with suppress(ImageDamaged):
                needed.update(self.read(number).needs)
        for number in set(numbers) - needed:
            shutil.rmtree(self.folder / str(number), ignore_errors=True)


def _at_once(_size_bytes: int) -> None:
    """The pace of a device without a speed limit."""


def _write(
    folder: Path,
    staged: Path,
    number: int,
    known: Mapping[bytes, tuple[int, int]],
    process: tuple[str, str, int, Mapping[str, Any]],
    pace: Pace,
) -> Image:
    files = sorted(path for path in staged.iterdir() if path.is_file())
    page_files = [path for path in files if path.name.startswith("pages-")]
    with _DurableFile(folder / _PAGES, pace) as pages:
        writer = _PageWriter(pages, number, known)
        counts = tuple((path.name, writer.append(path)) for path in page_files)
    state = msgpack.packb({path.name: path.read_bytes() for path in files if path not in page_files})
    assert state is not None
    for name, data in ((_TABLE, bytes(writer.table)), (_STATE, state)):
        with _DurableFile(folder / name, pace) as file:
            file.write(data)
    task, dumper, pid, counters = process
    image = Image(
        task,
        number,
        dumper,
        pid,
        dict(counters),
        memory_bytes=sum(count for _, count in counts) * PAGE_BYTES,
        written_bytes=writer.new_pages * PAGE_BYTES + len(writer.table) + len(state),
        needs=tuple(sorted(writer.owners - {number})),
        page_files=counts,
        table_sha256=hashlib.sha256(writer.table).hexdigest(),
        state_sha256=hashlib.sha256(state).hexdigest(),
    )
    with _DurableFile(folder / _MANIFEST, pace) as file:
        file.write(_sealed(asdict(image)))
    sync_directory(str(folder))
    return image


class _DurableFile:
    """A new file, written at a pace, that is on the disk when the block ends."""

    def __init__(self, path: Path, pace: Pace) -> None:
        self._path = path
        self._pace = pace

    def __enter__(self) -> _DurableFile:
        self._file = open(self._path, "xb", buffering=0)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            os.fsync(self._file.fileno())
        finally:
            self._file.close()

    def write(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        for begin in range(0, len(view), _CHUNK_BYTES):
            part = view[begin : begin + _CHUNK_BYTES]
            self._pace(len(part))
            while part:
                part = part[self._file.write(part) :]


class _PageWriter:
    """Writes the new pages, and a row of the table for every page."""

    def __init__(self, pages: _DurableFile, number: int, known: Mapping[bytes, tuple[int, int]]) -> None:
        self.table = bytearray()
        self.new_pages = 0
        self.owners: set[int] = set()
        self._pages = pages
        self._number = number
        self._known = dict(known)

    def append(self, path: Path) -> int:
        """Append one file of whole pages; returns how many."""
        count = 0
        with open(path, "rb", buffering=0) as file:
            while data := file.read(_CHUNK_BYTES):
                if len(data) % PAGE_BYTES:
                    raise ValueError(f"{path}: is no whole number of pages")
                count += len(data) // PAGE_BYTES
                self._append(data)
        return count

    def _append(self, data: bytes) -> None:
        view, new = memoryview(data), bytearray()
        for begin in range(0, len(view), PAGE_BYTES):
            page = view[begin : begin + PAGE_BYTES]
            digest = _page_hash(page)
            where = self._known.get(digest)
            if where is None:
                where = self._known[digest] = (self._number, self.new_pages)
                self.new_pages += 1
                new += page
            self.owners.add(where[0])
            self.table += _ROW.pack(*where, digest)
        self._pages.write(bytes(new))


class _Sources:
    """The ``pages`` files of a chain, opened when needed; consecutive pages are read together."""

    def __init__(self, folder: Path, pace: Pace) -> None:
        self._folder = folder
        self._pace = pace
        self._files: dict[int, BinaryIO] = {}

    def __enter__(self) -> _Sources:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()

    def copy(self, rows: Iterator[tuple[int, int, bytes]], count: int, into: Any) -> None:
        """Write the next ``count`` pages of the table to a file.  Raises ImageDamaged."""
        run: list[tuple[int, int, bytes]] = []
        for _ in range(count):
            row = next(rows, None)
            if row is None:
                raise ImageDamaged(f"{self._folder}: the table has fewer pages than the manifest says")
            if run and (row[:2] != (run[-1][0], run[-1][1] + 1) or len(run) * PAGE_BYTES >= _CHUNK_BYTES):
                into.write(self._read(run))
                run = []
            run.append(row)
        if run:
            into.write(self._read(run))

    def _read(self, run: list[tuple[int, int, bytes]]) -> bytes:
        owner, place, _ = run[0]
        path = self._folder / str(owner) / _PAGES
        file = self._files.get(owner)
        if file is None:
            file = self._files[owner] = open(path, "rb", buffering=0)  # noqa: SIM115 closed with the others
        self._pace(len(run) * PAGE_BYTES)
        data = os.pread(file.fileno(), len(run) * PAGE_BYTES, place * PAGE_BYTES)
        view = memoryview(data)
        for index, (_, _, digest) in enumerate(run):
            if _page_hash(view[index * PAGE_BYTES : (index + 1) * PAGE_BYTES]) != digest:
                raise ImageDamaged(f"{path}: page {place + index} is not what was written")
        return data


def _page_hash(page: memoryview) -> bytes:
    return hashlib.sha256(page).digest()[:16]


def _checked(path: Path, sha256: str) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ImageDamaged(f"{path}: cannot be read: {error.strerror}") from None
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ImageDamaged(f"{path}: is not what was written")
    return data


def _unpacked(folder: Path, image: Image) -> dict[str, bytes]:
    files = msgpack.unpackb(_checked(folder / _STATE, image.state_sha256))
    if any(os.path.basename(name) != name for name in (*files, *(name for name, _ in image.page_files))):
        raise ImageDamaged(f"{folder}: holds the name of a file elsewhere")
    return files


def _sealed(manifest: Mapping[str, Any]) -> bytes:
    body = json.dumps(manifest, sort_keys=True)
    return json.dumps({"sha256": hashlib.sha256(body.encode()).hexdigest(), "manifest": body}).encode()


def _read_manifest(folder: Path) -> Image:
    path = folder / _MANIFEST
    try:
        sealed = json.loads(path.read_bytes())
        body = sealed["manifest"]
        if hashlib.sha256(body.encode()).hexdigest() != sealed["sha256"]:
            raise ImageDamaged(f"{path}: is not what was written")
        manifest = json.loads(body)
        if manifest["version"] != VERSION:
            raise ImageDamaged(f"{path}: is of version {manifest['version']}, not {VERSION}")
        manifest["needs"] = tuple(manifest["needs"])
        manifest["page_files"] = tuple((name, count) for name, count in manifest["page_files"])
        return Image(**manifest)
    except OSError as error:
        raise ImageDamaged(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ImageDamaged(f"{path}: is no manifest of an image: {error}") from None

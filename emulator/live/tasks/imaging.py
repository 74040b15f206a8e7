"""Dumps and restores for a supervisor: queued at each node's device, each done by a process of its own.

Theory of operation
-------------------
A process to be saved has been stopped, and waits for its turn at the device of its node.  At most ``at_once``
operations run there together (adaptive-checkpointing, section 5.2.2).  A forked helper does the work at the device's
pace and leaves a file with the result; a helper that leaves none was killed.

A restore has two steps.  The first reads the image, checks every page, and stages the dumper's files.  If an image is
damaged, the one before it is tried; if none is sound, the task starts from nothing.  An image of ``pages`` needs no
second step: the task is forked as usual and continues from the counters in the image.  For an image of ``criu``, a
second helper *becomes* criu, which makes the process its own sibling, and so the supervisor's child.  That step is
short and never interrupted.

Before it stopped, the restored process had closed everything it shared with its supervisor.  The file ``ATTACHMENT`` in
the folder of its images describes its new place; the process reads it when it continues.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import tarfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgpack

from emulator.live.dumpers import Dumper, DumpError
from emulator.live.dumpers.criu import CLOCKS_FILE, CriuDumper, criu_complaint
from emulator.live.dumpers.images import save_process
from emulator.live.dumpers.pages import PagesDumper
from emulator.live.tasks.containers import ContainerProcess
from emulator.live.tasks.kept_files import KeptFiles, kept_files
from emulator.live.tasks.partial_output import OutputError
from emulator.live.tasks.task import ATTACHMENT, EXIT_DONE, EXIT_IO_FAILED, failure_reason, join_groups, pack
from emulator.storage.images import Image, ImageChain, ImageDamaged, Pace

_INSTANT = struct.Struct("=q")
_CREDIT_REAL_NS = 500_000_000
"""How far an operation may be behind its schedule and still catch up."""


class DevicePacer:
    """Limits reads and writes to the speed of an emulated device, shared by all processes that name the same file.

    A token bucket: one word in the file is the time at which the device is free again.  To move some bytes, a process
    locks the file, reserves the device's next period of time for them, and waits until the end of that period.  The
    real transfer runs meanwhile, so it adds no time as long as the real device is faster than the emulated one.
    """

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


_RESULT, _FILES, _WORK = "result", "files", "work"
_DIRECTORY = "directory.tar"
"""In an image of a program: its directory, so that it continues with the files of that time."""


@dataclass(frozen=True, slots=True)
class ImageParameters:
    """Where and how images of a task are made; launch parameter ``images``."""

    dumper: str
    criu: str
    """Path of the criu to use; empty for the dumper ``pages``."""
    folder: str
    """Folder of the task's images."""
    staging: str
    """A directory of the node for files in progress."""
    at_most: int
    """The most images that the pages of one image may come from; 1: each image is complete."""
    device: str
    """The node's device: a file that all its users share (``DevicePacer``)."""
    at_once: int
    write_bytes_real_s: int
    """Bytes that the device writes in a real second; 0: its speed is not limited."""
    read_bytes_real_s: int
    latency_real_ns: int

    def pace(self, bytes_real_s: int) -> Pace | None:
        """Start an operation on the device: waits for its latency."""
        if not bytes_real_s:
            return None
        return DevicePacer(Path(self.device), bytes_real_s, self.latency_real_ns).operation()


@dataclass(frozen=True, slots=True)
class ImageSource:
    """The image that a task resumes from; launch parameter ``restore``."""

    folder: str
    number: int
    """The image that its ApplicationMaster has accepted; later images are unknown to it and not used."""
    checksum: str
    """The checksum of that image, as it was made."""
    brought_real_ns: int = 0
    """When it arrives, because it was made on another node; it must not be used earlier."""


Outcome = Mapping[str, Any]
"""The result of a dump or a restore; ``failed`` says why it failed."""
Done = Callable[[ContainerProcess, Outcome], None]


@dataclass(slots=True, eq=False)
class _Work:
    container: ContainerProcess
    images: ImageParameters
    source: ImageSource | None
    """None: this is a dump."""
    done: Done
    helper: int | None = None
    loaded: dict[str, Any] | None = None
    """For a restore by criu, after its image has been read."""

    @property
    def staging(self) -> Path:
        return Path(self.images.staging, self.container.id)


@dataclass(slots=True)
class _Device:
    active: int = 0
    waiting: deque[_Work] = field(default_factory=deque)


class ImageWork:
    """The dumps and restores of one supervisor; see the module's text."""

    def __init__(self, fork: Callable[[Callable[[], None]], int]) -> None:
        """``fork`` runs a function in a new process with its own process group, and returns its id."""
        self._fork = fork
        self._devices: dict[str, _Device] = {}
        self._of: dict[str, _Work] = {}
        """By container, from the request to the end."""
        self._helpers: dict[int, _Work] = {}

    def dump(self, container: ContainerProcess, done: Done) -> None:
        """Save a stopped process; ``done`` gets the image, or why there is none.  The process stays stopped."""
        self._want(_Work(container, ImageParameters(**container.params["images"]), None, done))

    def restore(self, container: ContainerProcess, done: Done) -> None:
        """Read the image that a task resumes from.  ``done`` gets its counters, and its ``pid`` if the process was
        restored: stopped, a child of this process."""
        images = ImageParameters(**container.params["images"])
        self._want(_Work(container, images, ImageSource(**container.params["restore"]), done))

    def leave(self, container: ContainerProcess) -> int | None:
        """Cancel its operation; returns the process group to kill for that, if any.  A running restore by criu is not
        cancelled: it is waited for, and then the process can be killed."""
        work = self._of.get(container.id)
        if work is None or work.loaded is not None:
            return None
        del self._of[container.id]
        if work.helper is None:
            with suppress(ValueError):
                self._devices[work.images.device].waiting.remove(work)
        return work.helper

    def has(self, container: ContainerProcess) -> bool:
        """Whether it has an operation that can no longer be cancelled."""
        return container.id in self._of

    def is_helper(self, pid: int) -> bool:
        """Whether a process dumps or restores."""
        return pid in self._helpers

    @property
    def is_restoring(self) -> bool:
        """Whether criu makes processes just now."""
        return any(work.loaded is not None for work in self._of.values())

    def helper_ended(self, pid: int, code: int | None) -> bool:
        """Returns whether a process that has ended was a helper; if so, handles its end.  ``code``: None if it was
        killed."""
        work = self._helpers.pop(pid, None)
        if work is None:
            return False
        work.helper = None
        outcome = _outcome(work, code)
        if self._of.get(work.container.id) is work and outcome.pop("by_criu", False):
            work.loaded = outcome
            self._begin(work, lambda: _become_criu(work))
            return True
        shutil.rmtree(work.staging, ignore_errors=True)
        self._devices[work.images.device].active -= 1
        self._next(work.images.device)
        if self._of.get(work.container.id) is work:
            del self._of[work.container.id]
            work.done(work.container, outcome)
        return True

    def _want(self, work: _Work) -> None:
        self._of[work.container.id] = work
        self._devices.setdefault(work.images.device, _Device()).waiting.append(work)
        self._next(work.images.device)

    def _next(self, name: str) -> None:
        device = self._devices[name]
        while device.waiting and device.active < device.waiting[0].images.at_once:
            work = device.waiting.popleft()
            device.active += 1
            self._begin(work, lambda work=work: _leave_result(work, _save if work.source is None else _load))

    def _begin(self, work: _Work, body: Callable[[], None]) -> None:
        work.helper = self._fork(body)
        self._helpers[work.helper] = work


def attach(folder: str, attachment: Mapping[str, Any]) -> None:
    """Write the new place of a restored process to its file, before the process continues.  Raises OSError."""
    Path(folder, ATTACHMENT).write_bytes(pack(dict(attachment)))


def _outcome(work: _Work, code: int | None) -> dict[str, Any]:
    if work.loaded is not None:
        return _made_again(work, code)
    if code == EXIT_DONE:
        return msgpack.unpackb((work.staging / _RESULT).read_bytes())
    if code == EXIT_IO_FAILED:
        return {"failed": f"{work.images.staging}: cannot be written to"}
    return {"failed": "its process was killed", "broken": True}


def _made_again(work: _Work, code: int | None) -> dict[str, Any]:
    assert work.loaded is not None
    if code == EXIT_DONE:
        return {**work.loaded, "pid": int((work.staging / _WORK / "pid").read_text())}
    log = work.staging / _WORK / "log"
    text = log.read_text(errors="replace") if log.exists() else ""
    return {
        "failed": f"criu restore: {criu_complaint(text)}",
        "broken": code is None,
        "left_pid": work.loaded["image_pid"],
    }


# ---- in a helper ----


def _leave_result(work: _Work, do: Callable[[_Work], dict[str, Any]]) -> None:
    """Run ``do`` and write its result to a file.  Raises OSError if even that cannot be written."""
    work.staging.mkdir(parents=True)
    try:
        result = do(work)
    except (DumpError, OutputError, OSError) as error:
        result = {"failed": failure_reason(error) if isinstance(error, OSError) else str(error)}
    (work.staging / _RESULT).write_bytes(pack(result))


def _save(work: _Work) -> dict[str, Any]:
    container, images = work.container, work.images
    assert container.pid is not None
    with suppress(FileNotFoundError):
        Path(images.folder, ATTACHMENT).unlink()
    dumper: Dumper = CriuDumper(images.criu) if images.dumper == CriuDumper.name else PagesDumper()
    pace = images.pace(images.write_bytes_real_s)
    chain = ImageChain(Path(images.folder), images.at_most)
    if container.is_program:
        dumper = _WithDirectory(dumper, Path(container.counters["directory"]))
    before = chain.numbers()
    image = save_process(dumper, container.pid, chain, container.counters, pace, work.staging).image
    kept = kept_files(container.params)
    kept.put(*chain.files(image.number))
    kept.remove(*(file for number in set(before) - set(chain.numbers()) for file in chain.files(number)))
    return {
        "folder": images.folder,
        "number": image.number,
        "memory_bytes": image.memory_bytes,
        "written_bytes": image.written_bytes,
        "incremental": bool(image.needs),
        "checksum": image.table_sha256,
        "keys_done": container.counters["keys_done"],
        "in_key_ns": container.counters["in_key_ns"],
    }


def _load(work: _Work) -> dict[str, Any]:
    assert work.source is not None
    chain, pace = ImageChain(Path(work.source.folder)), work.images.pace(work.images.read_bytes_real_s)
    damaged = []
    for number in _numbers(chain, work.source.number, kept_files(work.container.params)):
        staged = work.staging / _FILES
        shutil.rmtree(staged, ignore_errors=True)
        staged.mkdir()
        try:
            if number == work.source.number and chain.read(number).table_sha256 != work.source.checksum:
                raise ImageDamaged(f"{chain.folder / str(number)}: is not the image that was made")
            image = chain.load(number, staged, pace)
        except ImageDamaged as error:
            damaged.append(str(error))
            continue
        return _loaded(work, image, damaged)
    return {"anew": "; ".join(damaged) or f"{work.source.folder}: has no image"}


def _numbers(chain: ImageChain, newest: int, kept: KeptFiles) -> Iterator[int]:
    """The image that was accepted, then those before it; what the next one needs is here when it is named."""
    _bring(chain, newest, kept)
    if newest in chain.numbers():
        yield newest
    _bring(chain, newest - 1, kept)
    yield from [number for number in chain.numbers() if number < newest]


def _bring(chain: ImageChain, number: int, kept: KeptFiles) -> None:
    kept.get(*chain.files(number))
    with suppress(ImageDamaged):
        for owner in chain.read(number).needs:
            kept.get(*chain.files(owner))


class _WithDirectory:
    """A dumper that also saves a program's directory."""

    def __init__(self, dumper: Dumper, directory: Path) -> None:
        self._dumper = dumper
        self._directory = directory
        self.name = dumper.name
        self.restore = dumper.restore

    def dump(self, pid: int, directory: Path) -> None:
        """See ``Dumper.dump``."""
        self._dumper.dump(pid, directory)
        with tarfile.open(directory / _DIRECTORY, "w") as archive:
            archive.add(self._directory, ".")


def _unpack(archive: Path, directory: Path) -> None:
    """Restore a program's directory from an archive."""
    shutil.rmtree(directory, ignore_errors=True)
    shutil.unpack_archive(archive, directory)
    archive.unlink()


def _loaded(work: _Work, image: Image, damaged: list[str]) -> dict[str, Any]:
    by_criu = image.dumper == CriuDumper.name
    if by_criu and not work.images.criu:
        return {"anew": "its image is of criu, which is not used here"}
    if (work.staging / _FILES / _DIRECTORY).exists():
        _unpack(work.staging / _FILES / _DIRECTORY, Path(image.counters["directory"]))
    if not work.container.is_program:  # a task tells its host when its keys ended: both must read the same clock
        (work.staging / _FILES / CLOCKS_FILE).unlink(missing_ok=True)
    (work.staging / _WORK).mkdir()
    loaded = {"counters": dict(image.counters), "damaged": damaged, "image_pid": image.pid}
    return loaded | ({"by_criu": True} if by_criu else {})


def _become_criu(work: _Work) -> None:
    join_groups(work.container.params)  # criu's processes, and those that it makes, belong to the task
    command = CriuDumper(work.images.criu).restore_command(work.staging / _FILES, work.staging / _WORK)
    os.execv(command[0], command)

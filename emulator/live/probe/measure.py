"""The measurements of ``natjam probe``: stop and continue, memory, full and incremental images on each store."""

from __future__ import annotations

import os
import secrets
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from emulator.costs.probe_result import ImageCost, Probed, StoreCost, estimated
from emulator.costs.tiers import load_tier
from emulator.errors import ConfigError, RunError
from emulator.files.whole_files import new_held_directory
from emulator.live.dumpers import Dumper, DumpError
from emulator.live.dumpers.criu import CriuDumper, find_criu
from emulator.live.dumpers.images import restore_process, save_process
from emulator.live.dumpers.pages import PagesDumper
from emulator.live.janitor import run_directory, start_janitor
from emulator.live.probe.process import ProbedProcess
from emulator.storage.images import PAGE_TRACKER, ImageChain, ImageDamaged
from emulator.storage.local import atomic_file

BETWEEN_DUMPS_REAL_S = 1.0
ESTIMATED_TIERS = ("hdd", "ssd", "nvm")
_STOPS = 5
_SPEED_BYTES = 32 << 20
_SHARED_MEMORY = Path("/dev/shm")

Progress = Callable[[str, float], None]
"""Called with the current step, and the share of all work that is done."""


def probe(command: list[str], stores: Mapping[str, Path], settle_real_s: float, on_progress: Progress) -> Probed:
    """Measure what it costs to preempt a program; nothing of it is left, however this ends.

    Args:
        command: the program and its arguments.
        stores: directories for images, by name.
        settle_real_s: how long the program runs first, so that it has its usual memory.
        on_progress: called with each step.

    Raises:
        ConfigError: there is no such program or directory.
        RunError: the program ended before it was measured, or could not be restored.
    """
    if shutil.which(command[0]) is None:
        raise ConfigError(f"{command[0]}: there is no such program; give its path, or one that is on the PATH")
    for name, directory in stores.items():
        if not directory.is_dir() or not os.access(directory, os.W_OK):
            raise ConfigError(f"--store {name}={directory}: is no directory that can be written to")
    run_id = secrets.token_hex(4)
    folders = {name: directory / f"natjam-probe-{run_id}" for name, directory in stores.items()}
    work, staging = run_directory(run_id), _staging_base() / f"natjam-staging-{run_id}"
    janitor = start_janitor(run_id, [work, staging, *folders.values()])
    process = None
    try:
        for folder in (staging, *folders.values()):
            folder.mkdir(mode=0o700)
        with new_held_directory(work):
            process = ProbedProcess(command, work / "output", run_id)
            return _Measurements(command, process, staging, on_progress).all(folders, settle_real_s)
    except OSError as error:
        raise RunError(f"the probe failed: {error.strerror}: {error.filename}") from error
    finally:
        if process is not None:
            process.end()
        for folder in (work, staging, *folders.values()):
            shutil.rmtree(folder, ignore_errors=True)
        janitor.goodbye()


def _staging_base() -> Path:
    return _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else Path(tempfile.gettempdir())


class _Measurements:
    def __init__(self, command: list[str], process: ProbedProcess, staging: Path, on_progress: Progress) -> None:
        self._command = command
        self._process = process
        self._staging = staging
        self._on_progress = on_progress
        self._notes: list[str] = []

    def all(self, folders: Mapping[str, Path], settle_real_s: float) -> Probed:
        self._on_progress("letting it run", 0.0)
        self._process.run_for(settle_real_s)
        memory = self._process.memory()
        self._on_progress("stopping it", 0.1)
        stop_s, go_on_s = self._stops()
        dumper = self._dumper()
        costs = []
        for number, (name, folder) in enumerate(folders.items()):
            self._on_progress(f"saving it to {name}", 0.2 + 0.8 * number / len(folders))
            cost, dumper = self._store(name, folder, dumper)
            if cost is None:
                break
            costs.append(cost)
        return Probed(
            tuple(self._command),
            self._process.start_real_ns / 1e9,
            memory,
            stop_s,
            go_on_s,
            dumper.name if costs and dumper else None,
            PAGE_TRACKER if costs else None,
            tuple(costs) + tuple(estimated(load_tier(tier), costs[0]) for tier in ESTIMATED_TIERS if costs),
            tuple(self._notes),
        )

    def _stops(self) -> tuple[float | None, float | None]:
        """Median seconds to stop and to continue."""
        stops, continues = [], []
        for _ in range(_STOPS):
            stopped_real_ns, continued_real_ns = self._process.stop(), self._process.go_on()
            if stopped_real_ns is None:
                self._notes.append("suspending by SIGTSTP: the program ignores it; it was stopped by SIGSTOP instead")
                return None, None
            stops.append(stopped_real_ns)
            if continued_real_ns is not None:
                continues.append(continued_real_ns)
            self._process.run_for(0.02)
        return statistics.median(stops) / 1e9, statistics.median(continues) / 1e9 if continues else None

    def _dumper(self) -> Dumper:
        found = find_criu()
        if found is not None and found.problem is None:
            return CriuDumper(found.path)
        self._memory_alone(
            "there is no criu here ('make criu' gets one)" if found is None else f"{found.path}: {found.problem}"
        )
        return PagesDumper()

    def _memory_alone(self, why: str) -> None:
        limits = "images are of its memory alone: what is written and read is real, no process is restored"
        self._notes.append(f"{why}; {limits}")

    def _store(self, name: str, folder: Path, dumper: Dumper) -> tuple[StoreCost | None, Dumper]:
        """The cost of images on one store, and the dumper that could make them; None if no dumper could."""
        chain = ImageChain(folder / "images")
        try:
            full = self._image(chain, dumper)
        except DumpError as error:
            self._process.go_on()
            if dumper.name == PagesDumper.name:
                self._notes.append(f"images cannot be measured: {error}")
                return None, dumper
            self._memory_alone(f"criu cannot save this program: {error}")
            return self._store(name, folder, PagesDumper())
        self._process.run_for(BETWEEN_DUMPS_REAL_S)
        try:
            incremental = self._image(chain, dumper)
        except DumpError as error:
            raise RunError(f"the program could be saved once, and then not again: {error}") from None
        chain.remove()
        write_mb_s, read_mb_s = _speeds(folder / "speed")
        return StoreCost(name, True, write_mb_s, read_mb_s, full, incremental), dumper

    def _image(self, chain: ImageChain, dumper: Dumper) -> ImageCost:
        """Stop the program, save it, restore it, and let it continue.  Raises DumpError if it cannot be saved."""
        self._process.stop()
        saved = save_process(dumper, self._process.pid, chain, staging=self._staging)
        if dumper.name == CriuDumper.name:
            self._process.kill()
        _forget_cached(chain.folder)
        try:
            restored = restore_process(dumper, chain, saved.image.number, staging=self._staging)
        except (DumpError, ImageDamaged) as error:
            raise RunError(f"the program was saved but cannot be made again: {error}") from None
        if restored.pid is not None:
            self._process.made_again()
        self._process.go_on()
        image = saved.image
        return ImageCost(
            image.written_bytes,
            image.memory_bytes,
            (saved.dump_real_ns + saved.store_real_ns) / 1e9,
            (restored.load_real_ns + restored.restore_real_ns) / 1e9,
        )


def _speeds(path: Path) -> tuple[float, float]:
    """Speed of a store in MB per second, durable writing and reading, measured with one file."""
    chunk = secrets.token_bytes(1 << 20)
    began_s = time.perf_counter()
    with atomic_file(str(path)) as file:
        for _ in range(_SPEED_BYTES // len(chunk)):
            file.write(chunk)
    written_s = time.perf_counter() - began_s
    _forget_cached(path.parent)
    began_s = time.perf_counter()
    with open(path, "rb", buffering=0) as file:
        while file.read(len(chunk)):
            pass
    read_s = time.perf_counter() - began_s
    path.unlink()
    return _SPEED_BYTES / written_s / 1e6, _SPEED_BYTES / read_s / 1e6


def _forget_cached(folder: Path) -> None:
    """Drop what was just written from the page cache, so that it is read from its device."""
    for path in folder.rglob("*"):
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)

"""The measurements of ``natjam probe``: stop and continue, memory, full and incremental images on each store."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from emulator.costs.overheads import load_tier
from emulator.costs.probe_result import ImageCost, MemoryUse, Probed, StoreCost, estimated
from emulator.errors import ConfigError, RunError
from emulator.files.whole_files import new_held_directory
from emulator.live.dumpers import Dumper, DumpError
from emulator.live.dumpers.criu import CriuDumper, find_criu
from emulator.live.dumpers.images import SHARED_MEMORY, restore_process, save_process
from emulator.live.dumpers.pages import PagesDumper
from emulator.live.janitor import RUN_VARIABLE, run_directory, start_janitor
from emulator.parent import PR_SET_CHILD_SUBREAPER, libc
from emulator.storage.images import PAGE_TRACKER, ImageChain, ImageDamaged
from emulator.storage.local import atomic_file

BETWEEN_DUMPS_REAL_S = 1.0
ESTIMATED_TIERS = ("hdd", "ssd", "nvm")
_STOPS = 5
_SPEED_BYTES = 32 << 20

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
    return SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else Path(tempfile.gettempdir())


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


_STOP_TIMEOUT_REAL_S = 2.0
_STOP_TRIES = 3
_END_TIMEOUT_REAL_S = 10.0
_SPINNING_REAL_NS = 5_000_000
_PAUSE_REAL_S = 0.0005
_TOLD_CHARACTERS = 400


class ProbedProcess:
    """A program under probe, with all its children: start, stop, continue, kill and restore it; call ``end`` when done.

    Its processes have the probe's id in their environment, restored ones too, so a janitor ends them if the probe is
    killed.
    """

    def __init__(self, command: list[str], output: Path, run_id: str) -> None:
        """Start it, with its output to a file.  Raises ConfigError if there is no such program."""
        # Its orphans become our children and are reaped here, so that their ids are free when it is restored.
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._output = output
        began_real_ns = self.started_real_ns = time.monotonic_ns()
        try:
            with open(output, "wb") as file:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, RUN_VARIABLE: run_id},
                    preexec_fn=os.setpgrp,  # no new session: there it would ignore SIGTSTP
                )
        except OSError as error:
            raise ConfigError(f"{command[0]}: cannot be started: {error.strerror}") from None
        self.start_real_ns = time.monotonic_ns() - began_real_ns
        process.returncode = 0  # reaped here
        self.pid = process.pid
        self._killed: list[int] = []
        self._gone = False
        self._ignores_stop = False

    def run_for(self, real_s: float) -> None:
        """Let it run for a time.  Raises RunError if it ends meanwhile."""
        deadline = time.monotonic() + real_s
        while (left_s := deadline - time.monotonic()) > 0:
            self._changed(os.WEXITED)
            time.sleep(min(0.01, left_s))

    def stop(self) -> int | None:
        """Send SIGTSTP; returns nanoseconds until it has stopped.  If it ignores that: SIGSTOP, and None.

        Raises RunError if it ends.
        """
        if not self._ignores_stop and (taken_real_ns := self._signal_and_wait(signal.SIGTSTP, os.WSTOPPED)):
            return taken_real_ns
        self._ignores_stop = True
        for _ in range(_STOP_TRIES):
            if self._signal_and_wait(signal.SIGSTOP, os.WSTOPPED) is not None:
                return None
            self.go_on()  # it may be in vfork, with a child that has stopped before exec
        raise RunError(f"the program cannot be stopped: process {self.pid} hangs in the kernel")

    def go_on(self) -> int | None:
        """Send SIGCONT; returns nanoseconds until it continues.  Raises RunError if it ends."""
        return self._signal_and_wait(signal.SIGCONT, os.WCONTINUED)

    def memory(self) -> MemoryUse:
        """Its memory now.  Raises RunError if it has ended."""
        try:
            uses = [process.memory_full_info() for process in self._tree()]
        except psutil.Error:
            self._changed(os.WEXITED)
            raise RunError("the memory of the program cannot be read") from None
        return MemoryUse(
            processes=len(uses),
            resident_bytes=sum(use.rss for use in uses),
            own_bytes=sum(use.uss for use in uses),
            swapped_bytes=sum(use.swap for use in uses),
        )

    def kill(self) -> None:
        """Kill it, stopped or not, and reap it with all its children, so that their ids are free."""
        if self._gone:
            return
        with suppress(psutil.Error):
            self._killed = [process.pid for process in self._tree()]
        for pid in self._killed or [self.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in self._killed or [self.pid]:
            self._reap(pid)
        self._gone = True

    def made_again(self) -> None:
        """It has been restored, with its old ids."""
        self._gone = False

    end = kill

    def _tree(self) -> list[psutil.Process]:
        """Its processes, parents first."""
        process = psutil.Process(self.pid)
        return [process, *process.children(recursive=True)]

    def _reap(self, pid: int) -> None:
        deadline = time.monotonic() + _END_TIMEOUT_REAL_S
        while time.monotonic() < deadline and os.path.exists(f"/proc/{pid}"):
            with suppress(ChildProcessError):  # our child only after its parent was reaped
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG)
            time.sleep(_PAUSE_REAL_S)

    def _signal_and_wait(self, number: int, change: int) -> int | None:
        began_real_ns = time.monotonic_ns()
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)
        while (passed_real_ns := time.monotonic_ns() - began_real_ns) < _STOP_TIMEOUT_REAL_S * 1e9:
            if self._changed(change | os.WEXITED):
                return time.monotonic_ns() - began_real_ns
            if passed_real_ns > _SPINNING_REAL_NS:
                time.sleep(_PAUSE_REAL_S)
        return None

    def _changed(self, options: int) -> bool:
        """Whether it has stopped or continued, as asked; raises RunError if it has ended."""
        try:
            change = os.waitid(os.P_PID, self.pid, options | os.WNOHANG)
        except ChildProcessError:
            raise RunError("the program is gone") from None
        if change is None:
            return False
        if change.si_code in (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED):
            self._gone = True
            how = "ended with status" if change.si_code == os.CLD_EXITED else "was killed by signal"
            after_s = (time.monotonic_ns() - self.started_real_ns) / 1e9
            raise RunError(
                f"the program {how} {change.si_status} after {after_s:.2f} s, before it could be measured; "
                f"probe one that runs longer{self._told()}"
            )
        return True

    def _told(self) -> str:
        with suppress(OSError):
            if text := self._output.read_text(errors="replace").strip():
                return f". It printed: {text[-_TOLD_CHARACTERS:]}"
        return ""

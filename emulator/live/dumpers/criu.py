"""Process images by criu (https://criu.org): it saves and restores any program, without its help.  Needs root.

The process is dumped while it is stopped and stays stopped, so a failed dump costs it nothing.  The caller kills it
when the image is safe.  It is restored as a sibling of criu, and so as our own child: we reap it, and it gets its
parent-death signal when we die.  (Restored detached, below criu, it would get that signal when criu ends.)  It gets its
old id; if that is taken, the restore fails with a message.

criu's ``--track-mem`` is not used to find changed pages.  If a process was restored since its last dump, criu takes it
for another process with the same id and saves all of it (``detect_pid_reuse``); and some kernels have no soft-dirty
bits at all.  Instead ``emulator.storage.images`` compares pages by their hashes, which works on every kernel.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.files.data_folder import data_folder
from emulator.live.dumpers import DumpError

if TYPE_CHECKING:
    from subprocess import CompletedProcess

CRIU_VARIABLE = "NATJAM_CRIU"
"""Path of the criu to use; if unset, a working one on the PATH, else natjam's own (``make criu``)."""
CLOCKS_FILE = "timens-0.img"
"""The file of criu that has the clocks at the dump.  criu makes a time namespace of them, in which CLOCK_MONOTONIC goes
on from there for the restored process; without the file, the process has the clocks of its machine."""
_CHECK_TIMEOUT_REAL_S = 20.0
_TIMEOUT_REAL_S = 600.0
_OUTSIDE = "the session of this shell began outside its pid namespace: call natjam by 'setsid -w'"
_HARMLESS = "RLIMIT_NOFILE"
_PREFIX = re.compile(r"^\(\d+\.\d+\)\s*|^\s*\d+:\s*")


@dataclass(frozen=True, slots=True)
class CriuFound:
    """One criu on this machine, and whether it can be used."""

    path: str
    version: str | None
    problem: str | None
    """Why it cannot be used; None if it passes ``criu check``."""


def find_criu() -> CriuFound | None:
    """The first criu that works, else the first one found, else None; see ``CRIU_VARIABLE`` for where it looks."""
    first = None
    for path in _candidates():
        found = _examine(path)
        if found.problem is None:
            return found
        first = first or found
    return first


def why_no_criu() -> str | None:
    """Why processes cannot be saved by criu on this machine; None: they can."""
    found = find_criu()
    if found is None:
        return "there is none here ('make criu' gets one)"
    return None if found.problem is None else f"{found.path}: {found.problem}"


def _candidates() -> Iterator[str]:
    if named := os.environ.get(CRIU_VARIABLE):
        yield named
        return
    if on_path := shutil.which("criu"):
        yield on_path
    own = data_folder() / "criu" / "bin" / "criu"
    if own.exists():
        yield str(own)


def _examine(path: str) -> CriuFound:
    try:
        number = re.search(r"Version:\s*(\S+)", _run([path, "--version"], _CHECK_TIMEOUT_REAL_S).stdout)
        if number is None:
            return CriuFound(path, None, "it does not answer --version as criu does")
        if os.geteuid() != 0:
            return CriuFound(path, number[1], "it needs root")
        check = _run([path, "check"], _CHECK_TIMEOUT_REAL_S)
    except TimeoutError:
        return CriuFound(path, None, f"it does not answer within {_CHECK_TIMEOUT_REAL_S:g} s")
    except OSError as error:
        return CriuFound(path, None, f"it cannot be run: {error.strerror}")
    if check.returncode == 0:
        return CriuFound(path, number[1], None if os.getsid(0) else _OUTSIDE)
    return CriuFound(path, number[1], f"criu check: {criu_complaint(check.stderr + check.stdout)}")


def tracks_memory(path: str) -> bool:
    """Whether the kernel has soft-dirty bits, according to ``criu check``.  Raises OSError."""
    return _run([path, "check", "--feature", "mem_dirty_track"], _CHECK_TIMEOUT_REAL_S).returncode == 0


def _run(command: list[str], timeout_real_s: float) -> CompletedProcess[str]:
    import subprocess  # here, because it imports threading, with which each fork of a supervisor takes 0.4 ms more

    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_real_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError from error


def criu_complaint(log: str) -> str:
    """The first errors in criu's log, in one line."""
    lines = [_PREFIX.sub("", _PREFIX.sub("", line)).strip() for line in log.splitlines()]
    errors = [line for line in lines if line.startswith("Error") and _HARMLESS not in line] or [
        line for line in lines if line
    ][-1:]
    return "; ".join(dict.fromkeys(errors[:2]))[:500] or "it says nothing"


class CriuDumper:
    """The dumper ``criu``; see the module's text and ``emulator.live.dumpers.Dumper``."""

    name = "criu"

    def __init__(self, path: str) -> None:
        self.path = path

    def dump(self, pid: int, directory: Path) -> None:
        """See ``Dumper.dump``."""
        with _work_beside(directory) as work:
            _carry_out(self._command("dump", directory, work, "--tree", str(pid), "--leave-stopped"), work)

    def restore(self, directory: Path) -> int | None:
        """See ``Dumper.restore``."""
        with _work_beside(directory) as work:
            _carry_out(self.restore_command(directory, Path(work)), work)
            return int(Path(work, "pid").read_text())

    def restore_command(self, directory: Path, work: Path) -> list[str]:
        """The command that restores a process; it leaves the files ``log`` and ``pid`` in ``work``."""
        pid_file = str(work / "pid")
        return self._command(
            "restore", directory, str(work), "--restore-detached", "--restore-sibling", "--pidfile", pid_file
        )

    def _command(self, action: str, directory: Path, work: str, *options: str) -> list[str]:
        command = [self.path, action, "--images-dir", str(directory), "--work-dir", work]
        # A process that is made again stays in the groups that criu has joined, and does not look for its old ones.
        return [*command, "--shell-job", "--manage-cgroups=ignore", "--log-file", "log", *options]


def _work_beside(directory: Path) -> tempfile.TemporaryDirectory[str]:
    """A directory for criu's log, beside the image: whatever removes the images of a killed process removes it too."""
    return tempfile.TemporaryDirectory(prefix="criu-", dir=directory.parent)


def _carry_out(command: list[str], work: str) -> None:
    action = command[1]
    try:
        done = _run(command, _TIMEOUT_REAL_S)
    except TimeoutError:
        raise DumpError(f"criu {action} took longer than {_TIMEOUT_REAL_S:g} s") from None
    if done.returncode:
        log = Path(work, "log")
        text = log.read_text(errors="replace") if log.exists() else done.stderr
        raise DumpError(f"criu {action}: {criu_complaint(text)}")

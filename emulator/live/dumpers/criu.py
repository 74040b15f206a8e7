"""Process images by criu (https://criu.org): any program, saved and made again without its help.  Needs root.

The process is dumped from its stop and left stopped, so that a dump that fails costs it nothing; who asked kills it
once the image is safe.  It is restored as a sibling of criu, and so as our own child: reaped by us, and killed with
us, since the kernel counts a parent-death signal from there.  (Restored detached, below criu, it would get that signal
when criu ends.)  It gets its old id; should that be taken, the restore fails and says so.

Changed pages are not found by criu's ``--track-mem``: criu takes a process that was restored since the last dump for
another one of the same id and saves all of it (``detect_pid_reuse``), and some kernels have no soft-dirty bits at all.
``emulator.storage.images`` compares pages by their hashes instead, which works on every kernel.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from emulator.files.data_folder import data_folder
from emulator.live.dumpers import DumpError

CRIU_VARIABLE = "NATJAM_CRIU"
"""Names the criu to use; else one on the PATH that works, else natjam's own (``make criu``)."""
_CHECK_PATIENCE_REAL_S = 20.0
_PATIENCE_REAL_S = 600.0
_OUTSIDE = "the session of this shell began outside its pid namespace: call natjam by 'setsid -w'"
_HARMLESS = "RLIMIT_NOFILE"
_PREFIX = re.compile(r"^\(\d+\.\d+\)\s*|^\s*\d+:\s*")


@dataclass(frozen=True, slots=True)
class CriuFound:
    """One criu on this machine, and whether it can be used."""

    path: str
    version: str | None
    problem: str | None
    """Why it cannot be used, None where it passes ``criu check``."""


def find_criu() -> CriuFound | None:
    """The first criu that works, else the first there is, else None; ``CRIU_VARIABLE`` says where it is looked for."""
    first = None
    for path in _candidates():
        found = _examine(path)
        if found.problem is None:
            return found
        first = first or found
    return first


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
        number = re.search(r"Version:\s*(\S+)", _run([path, "--version"], _CHECK_PATIENCE_REAL_S).stdout)
        if number is None:
            return CriuFound(path, None, "it does not answer --version as criu does")
        if os.geteuid() != 0:
            return CriuFound(path, number[1], "it needs root")
        check = _run([path, "check"], _CHECK_PATIENCE_REAL_S)
    except OSError as error:
        return CriuFound(path, None, f"it cannot be run: {error.strerror}")
    except subprocess.TimeoutExpired:
        return CriuFound(path, None, f"it does not answer within {_CHECK_PATIENCE_REAL_S:g} s")
    if check.returncode == 0:
        return CriuFound(path, number[1], None if os.getsid(0) else _OUTSIDE)
    return CriuFound(path, number[1], f"criu check: {criu_complaint(check.stderr + check.stdout)}")


def tracks_memory(path: str) -> bool:
    """Whether the kernel has soft-dirty bits, as ``criu check`` sees it.  Raises OSError."""
    return _run([path, "check", "--feature", "mem_dirty_track"], _CHECK_PATIENCE_REAL_S).returncode == 0


def _run(command: list[str], patience_real_s: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=patience_real_s,
        check=False,
    )


def criu_complaint(log: str) -> str:
    """What criu's log calls an error, the first of it, in one line."""
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
        with tempfile.TemporaryDirectory(prefix="natjam-criu-") as work:
            _carry_out(self._command("dump", directory, work, "--tree", str(pid), "--leave-stopped"), work)

    def restore(self, directory: Path) -> int | None:
        """See ``Dumper.restore``."""
        with tempfile.TemporaryDirectory(prefix="natjam-criu-") as work:
            _carry_out(self.restore_command(directory, Path(work)), work)
            return int(Path(work, "pid").read_text())

    def restore_command(self, directory: Path, work: Path) -> list[str]:
        """The program that makes a process again and its arguments; it leaves ``log`` and ``pid`` in ``work``."""
        pid_file = str(work / "pid")
        return self._command(
            "restore", directory, str(work), "--restore-detached", "--restore-sibling", "--pidfile", pid_file
        )

    def _command(self, action: str, directory: Path, work: str, *options: str) -> list[str]:
        command = [self.path, action, "--images-dir", str(directory), "--work-dir", work]
        return [*command, "--shell-job", "--log-file", "log", *options]


def _carry_out(command: list[str], work: str) -> None:
    action = command[1]
    try:
        done = _run(command, _PATIENCE_REAL_S)
    except subprocess.TimeoutExpired:
        raise DumpError(f"criu {action} took longer than {_PATIENCE_REAL_S:g} s") from None
    if done.returncode:
        log = Path(work, "log")
        text = log.read_text(errors="replace") if log.exists() else done.stderr
        raise DumpError(f"criu {action}: {criu_complaint(text)}")

"""Detached runs, campaigns and measurements: separate commands start, follow and stop them, and need not keep running.

Theory of operation
-------------------
``natjam run --detach`` starts ``emulator.cli.script`` as a process in its own session, which becomes the run.  It
writes the output of ``natjam run`` to a file beside the run's directory (``DIR.log``), and its exit status as the last
line.  Whether the run is alive is seen from the command lines of processes, one of which then names that file.  So no
file can be outdated: without that last line, the run was killed.  Campaigns and measurements do the same.

The address of a page of ``--watch`` is a secret and no part of a log: it is in ``DIR.page`` as long as there is a page.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from emulator.display.closing_tables import MAX_JOBS
from emulator.errors import ConfigError, RunError
from emulator.files.whole_files import is_held, writing, written_whole
from emulator.interruption import EXIT_CODE
from emulator.live.janitor import process_with_arguments
from emulator.records.run_directory import SUMMARY_NAME, RunDirectory
from emulator.records.summary import FAILED, failures

_COMMAND = "emulator.cli.script"
"""A process that becomes a command of natjam; called by its name, because the command line is above this."""
ENDED = "natjam: ended with exit status "
_STOP_TIMEOUT_REAL_S = 30.0
_LOOK_REAL_S = 0.1
_LAST_FILES = (SUMMARY_NAME, "campaign.parquet", "calibration.yaml")
"""What a run, a campaign and a measurement write last."""


def log_path(directory: Path) -> Path:
    """The file that a detached run prints to."""
    return directory.resolve().with_name(f"{directory.name}.log")


def _page_path(directory: Path) -> Path:
    return log_path(directory).with_suffix(".page")


def start(directory: Path, command: Sequence[str]) -> None:
    """Start a command of natjam (its name and arguments) in the background, into ``directory``.  Raises RunError."""
    if process_of(directory) is not None:
        raise RunError(f"{directory}: is still running; 'natjam attach {directory}' shows what it prints")
    log = log_path(directory)
    with writing(log):
        log.parent.mkdir(parents=True, exist_ok=True)
        _page_path(directory).unlink(missing_ok=True)  # of a run that was killed
        with _own_file(log) as file:
            subprocess.Popen(
                [sys.executable, "-m", _COMMAND, str(log), *command, "--out", str(directory)],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )


def _own_file(path: Path) -> BinaryIO:
    """A new file in place of any at ``path``, to write; nobody else can read it.  Raises OSError."""
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


@contextmanager
def page_kept(directory: Path, address: str) -> Iterator[bool]:
    """If this process is the detached run of ``directory``, ``attach`` finds the address of its page meanwhile.

    Raises RunError.
    """
    if process_of(directory) != os.getpid():
        yield False
        return
    path = _page_path(directory)
    with written_whole(path) as unfinished, _own_file(unfinished) as file:
        file.write(f"{address}\n".encode())
    try:
        yield True
    finally:
        path.unlink(missing_ok=True)


def process_of(directory: Path) -> int | None:
    """The process of a detached run, which is of the user who owns its log; None if it has ended."""
    log = log_path(directory)
    try:
        owner = log.stat().st_uid
    except OSError:
        owner = os.getuid()
    return process_with_arguments(owner, _COMMAND, str(log))


def printed(directory: Path) -> Iterator[bytes]:
    """The output of a detached run, from start to end, as it comes, and where its page is.

    Raises ConfigError if there is no such run, RunError if it is another user's.
    """
    page = b""
    try:
        file = log_path(directory).open("rb")
    except PermissionError:
        raise RunError(f"{directory}: is another user's run, who alone sees what it prints") from None
    except OSError:
        raise ConfigError(_not_detached(directory)) from None
    with file:
        while True:
            running = process_of(directory) is not None  # ask first, then read, so that its last output is not missed
            if running and not page:
                with suppress(OSError):
                    page = _page_path(directory).read_bytes()
                    yield b"watch it at " + page
            while piece := file.read(65536):
                yield piece
            if not running:
                return
            time.sleep(_LOOK_REAL_S)


def _not_detached(directory: Path) -> str:
    if is_held(directory):
        return f"{directory}: was not started with --detach; it prints, and Ctrl-C ends it, in its own terminal"
    return f"{directory}: no run that was started with --detach; 'natjam status {directory}' says how a run ended"


def verdict(directory: Path) -> str:
    """The state of a run, campaign or measurement in one line, whether it was started with ``--detach`` or not.

    Raises ConfigError if there is none, RunError if it has ended and failed.
    """
    if process_of(directory) is not None:
        return f"{directory}: running"
    if any(map(is_held, (directory, *directory.glob("repeat-*")))):
        return f"{directory}: running, in the terminal where it was started"
    log = log_path(directory)
    try:
        *printed, last = log.read_text(errors="replace").splitlines() or [""]
    except OSError:
        printed, last = [], ""
    if last == f"{ENDED}0":
        return f"{directory}: finished"
    why = next((line for line in reversed(printed) if line.startswith("natjam: ")), "")
    if last == f"{ENDED}{EXIT_CODE}" or (last.startswith(ENDED) and not why):
        raise RunError(f"{directory}: has ended without results; {log} says why")
    if last.startswith(ENDED):
        raise RunError(f"{directory}: has failed: {why.removeprefix('natjam: ')}")
    return _verdict_of_results(directory)


def _verdict_of_results(directory: Path) -> str:
    """As ``verdict``, of what was not started with ``--detach``, or was killed: from the files in its directory."""
    runs = [RunDirectory(path) for path in (directory, *directory.glob("repeat-*"))]
    if damaged := [str(path) for run in runs if (path := run.path / SUMMARY_NAME).exists() and run.summary() is None]:
        raise RunError(f"{', '.join(damaged)}: is damaged, it is no JSON object; run the experiment again")
    found = [why for run in runs for why in _failures(run)]
    if found:
        raise RunError(f"{directory}: has failed: {'; '.join(found[:MAX_JOBS])}")
    if any((directory / name).exists() for name in _LAST_FILES):
        return f"{directory}: finished"
    if RunDirectory(directory).found_journal() is not None:
        raise RunError(f"{directory}: has ended without results; 'natjam report {directory}' shows how far it got")
    if (directory / "campaign.json").exists():
        raise RunError(f"{directory}: a campaign that has ended before its last run; the same command continues it")
    raise ConfigError(f"{directory}: there is no run, campaign or measurement")


def _failures(run: RunDirectory) -> list[str]:
    summary = run.summary() or {}
    if summary.get("state") == FAILED:
        return [str(summary.get("reason") or "the run did not come to its end")]
    return failures(summary)


def stop(directory: Path) -> None:
    """End a detached run like Ctrl-C; returns when it has ended.

    Raises ConfigError if there is none, RunError if it does not end or is another user's.
    """
    if not log_path(directory).exists():
        raise ConfigError(_not_detached(directory))
    pid = process_of(directory)
    if pid is None:
        return
    try:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    except PermissionError:
        raise RunError(f"{directory}: is another user's run, who alone can stop it") from None
    until_real_s = time.monotonic() + _STOP_TIMEOUT_REAL_S
    while process_of(directory) is not None:
        if time.monotonic() > until_real_s:
            raise RunError(f"{directory}: has not ended within {_STOP_TIMEOUT_REAL_S:g} s (process {pid})")
        time.sleep(_LOOK_REAL_S)

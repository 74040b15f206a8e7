"""A watchdog process that outlives the driver of a run: whatever becomes of it, nothing of the run stays.

It is started first, in a session of its own, with a pipe from the driver as stdin.  When the pipe ends
without a goodbye (the driver crashed or was killed), or after a goodbye, it kills every process that
carries the run's id in its environment and removes the run's temporary directories.  After a goodbye there
should be nothing of either left; it says how many processes there were.  A node host away from the driver has
one of its own, for what it has started and its directory.  Standard library only.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

RUN_VARIABLE = "NATJAM_RUN"
HOST_VARIABLE = "NATJAM_HOST"
"""In the environment of a Ray actor of a run, and of what it starts: the host's name."""
_GOODBYE = b"goodbye\n"
_PATIENCE_REAL_S = 10.0
_BETWEEN_ROUNDS_REAL_S = 0.02


def find_run_processes(run_id: str, host: str | None = None) -> list[int]:
    """Ids of the processes, except this one, that have exactly ``NATJAM_RUN=<run_id>`` in their environment.

    Only those of one host, if one is named.

    Processes of other users, which cannot be read, and zombies, which have no environment, are not found.
    """
    candidates = (int(name) for name in os.listdir("/proc") if name.isdecimal())
    marks = _marks(run_id, host)
    return sorted(pid for pid in candidates if pid != os.getpid() and _carries(pid, marks))


def _marks(run_id: str, host: str | None) -> set[bytes]:
    run = {f"{RUN_VARIABLE}={run_id}".encode()}
    return run if host is None else run | {f"{HOST_VARIABLE}={host}".encode()}


def _carries(pid: int, marks: set[bytes]) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return marks.issubset(environment.split(b"\0"))


def end_run_processes(run_id: str, host: str | None = None) -> set[int]:
    """Kill the processes of a run (of one host of it), stopped ones too, until none is found; returns their ids.

    Gives up after ten seconds.
    """
    killed: set[int] = set()
    deadline = time.monotonic() + _PATIENCE_REAL_S
    while time.monotonic() < deadline and (found := find_run_processes(run_id, host)):
        for pid in found:
            if _kill(pid, _marks(run_id, host)):
                killed.add(pid)
        time.sleep(_BETWEEN_ROUNDS_REAL_S)
    return killed


def _kill(pid: int, marks: set[bytes]) -> bool:
    """Kill one process, if it is still the one that was found."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if not _carries(pid, marks):
            return False
        signal.pidfd_send_signal(handle, signal.SIGCONT)
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        return True
    except OSError:
        return False
    finally:
        os.close(handle)


class Janitor:
    """The driver's end; see `start_janitor`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """Process id of the janitor."""
        return self._process.pid

    def goodbye(self, timeout_real_s: float = 15.0) -> int:
        """The driver has cleaned up: have that checked; returns how many processes were left, now killed.

        Also removes what is left of the directories.  Raises RuntimeError if the janitor has died or does
        not end in time.
        """
        try:
            answer, _ = self._process.communicate(_GOODBYE, timeout=timeout_real_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            raise RuntimeError(f"the janitor did not end within {timeout_real_s:g} s") from None
        if self._process.returncode or not answer.strip().isdigit():
            raise RuntimeError(f"the janitor ended with status {self._process.returncode}")
        return int(answer)


def start_janitor(run_id: str, directories: Sequence[str | Path], host: str | None = None) -> Janitor:
    """Start the janitor of a run, before any other process of it.  Raises OSError.

    `directories` are removed at the end with all they hold; they need not exist yet.  That of one ``host`` sees to
    what that host has started, and nobody says goodbye to it.
    """
    command = [sys.executable, "-m", "emulator.live.janitor", "--run-id", run_id]
    if host is not None:
        command += ["--host", host]
    for directory in directories:
        command += ["--dir", str(Path(directory).absolute())]
    # A janitor must not be taken for a process of the run by another one.
    environment = {name: value for name, value in os.environ.items() if name not in (RUN_VARIABLE, HOST_VARIABLE)}
    # Only our end may keep the pipe open: Python's descriptors are not inherited by what starts later.
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, start_new_session=True)
    if host is not None:
        process.wait()  # it has made itself an orphan
    return Janitor(process)


def _wait_for_driver() -> bool:
    """Wait until the driver has gone; True if it said goodbye."""
    said = b""
    while data := os.read(0, 4096):
        said += data
    return said == _GOODBYE


def main() -> int:
    """Entry point of ``python -m emulator.live.janitor``; see the module's text."""
    parser = argparse.ArgumentParser(prog="python -m emulator.live.janitor", description=__doc__)
    parser.add_argument("--run-id", required=True, help="the value of NATJAM_RUN in the run's processes")
    parser.add_argument("--host", help="end only the processes with this value of NATJAM_HOST")
    parser.add_argument("--dir", action="append", default=[], help="a directory to remove; may be repeated")
    arguments = parser.parse_args()
    if arguments.host is not None and os.fork():
        return 0  # go on as an orphan: Ray kills the children of an actor that it ends
    clean = _wait_for_driver()
    killed = end_run_processes(arguments.run_id, arguments.host)
    for directory in arguments.dir:
        shutil.rmtree(directory, ignore_errors=True)
    if killed and not clean:
        with suppress(OSError):
            print(f"natjam: the run's driver is gone; ended {len(killed)} of its processes", file=sys.stderr)
    with suppress(OSError):
        print(len(killed), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

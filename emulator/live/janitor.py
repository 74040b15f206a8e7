"""A watchdog process that outlives the driver of a run: whatever happens to the driver, nothing of the run stays.

It is started first, in a session of its own, with a pipe from the driver as stdin.  It acts when the pipe ends: after a
goodbye, or without one if the driver crashed or was killed.  It then kills every process that carries the run's id in
its environment, or has a file of the run's directories open for writing (two of Ray's processes, and programs,
overwrite their environment), or is in a cgroup of one of its programs.  It also removes the run's swap file, cgroups
and directories.  After a goodbye nothing of these should be left; it reports how many processes there were.

A node host on another machine than the driver has its own janitor, for the processes it has started and its directory.
If a janitor is killed together with its driver, the next run finds what they left by the names of their directories
(``end_left_over_runs``).  Standard library only.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pwd
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from emulator.live.cgroups import remove_node_groups
from emulator.live.memory.swap_file import end_swap
from emulator.live.program_members import remove_program_groups

RUN_VARIABLE = "NATJAM_RUN"
"""Set in the environment of every process of a run, so that leaks can be found."""
HOST_VARIABLE = "NATJAM_HOST"
"""Set in the environment of a run's Ray actors and of what they start: the host's name."""
_GOODBYE = b"goodbye\n"
_DIRECTORY_PREFIX = "natjam-"
_RUN_ID = re.compile("(ray-)?[0-9a-f]{8}")
_TIMEOUT_REAL_S = 10.0
_OWN_END_TIMEOUT_REAL_S = 2.0
"""For processes whose driver has told them to end: Ray tells the user about each one that is killed before."""
_BETWEEN_ROUNDS_REAL_S = 0.02


class _Belongings:
    """How to recognise the processes of a run: by their environment, or by the files that they write."""

    def __init__(
        self, run_id: str, host: str | None, directories: Sequence[str | Path], spared: int | None = None
    ) -> None:
        marks = (f"{RUN_VARIABLE}={run_id}", *([] if host is None else [f"{HOST_VARIABLE}={host}"]))
        self._marks = frozenset(mark.encode() for mark in marks)
        self._directories = tuple(f"{os.path.realpath(directory)}/" for directory in directories)
        self._spared = (os.getpid(), spared)

    def found(self) -> list[int]:
        """The ids of the processes."""
        candidates = (int(name) for name in os.listdir("/proc") if name.isdecimal())
        return sorted(pid for pid in candidates if self.hold(pid))

    def hold(self, pid: int) -> bool:
        """Whether a process belongs to the run; False if it is gone or cannot be read."""
        if pid in self._spared:
            return False
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            return self._marks.issubset(environment.split(b"\0")) or (bool(self._directories) and self._written_by(pid))
        except OSError:
            return False

    def _written_by(self, pid: int) -> bool:
        with os.scandir(f"/proc/{pid}/fd") as descriptors:
            for descriptor in descriptors:
                with suppress(OSError):  # just closed
                    written = descriptor.stat(follow_symlinks=False).st_mode & stat.S_IWUSR
                    if written and os.readlink(descriptor.path).startswith(self._directories):
                        return True
        return False


def find_run_processes(run_id: str, host: str | None = None, directories: Sequence[str | Path] = ()) -> list[int]:
    """Ids of the processes that have exactly ``NATJAM_RUN=<run_id>`` in their environment, or have a file below one of
    ``directories`` open for writing; this process is left out.

    If ``host`` is given, the environment must name that host too.

    Processes of other users (unreadable) and zombies (without environment) are not found.
    """
    return _Belongings(run_id, host, directories).found()


def end_run_processes(
    run_id: str, host: str | None = None, directories: Sequence[str | Path] = (), spared: int | None = None
) -> set[int]:
    """Kill the processes of a run (see ``find_run_processes``), stopped ones too, until none is found.

    The process ``spared`` is not killed.  Gives up after ten seconds.  Returns the ids of the processes killed.
    """
    belongings = _Belongings(run_id, host, directories, spared)
    killed: set[int] = set()
    deadline = time.monotonic() + _TIMEOUT_REAL_S
    while time.monotonic() < deadline and (found := belongings.found()):
        for pid in found:
            if _kill(pid, belongings):
                killed.add(pid)
        time.sleep(_BETWEEN_ROUNDS_REAL_S)
    return killed


def clean_up(run_id: str, directories: Sequence[str | Path], host: str | None = None) -> None:
    """Remove the cgroups, swap files and ``directories`` of a run, or of one of its hosts, whose processes have been
    killed."""
    mark = run_id if host is None else f"{run_id}-{host}"
    remove_program_groups(mark)
    remove_node_groups(mark)
    end_swap(directories)  # after the groups: its content might not have fitted into memory
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


def _kill(pid: int, belongings: _Belongings) -> bool:
    """Kill one process, if it is still the one that was found."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if not belongings.hold(pid):
            return False
        signal.pidfd_send_signal(handle, signal.SIGCONT)
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        return True
    except OSError:
        return False
    finally:
        os.close(handle)


def run_directory(run_id: str) -> Path:
    """Directory of a run's temporary files; its driver locks it (``flock``) as long as it lives."""
    return Path(tempfile.gettempdir()) / f"{_DIRECTORY_PREFIX}{run_id}"


def socket_directory(run_id: str) -> Path:
    """Directory of a run's Unix sockets, whose paths may have 107 bytes: a short one, whatever ``TMPDIR`` is.

    It lies in ``/run/user/UID`` if that is this user's alone and stays when the user logs out, because a run in the
    background goes on then; else in ``/tmp``.  Its driver makes it new, for this user alone, and locks it, as
    ``run_directory``.
    """
    user = os.getuid()
    try:
        name = pwd.getpwuid(user).pw_name
    except KeyError:  # this user has none
        name = ""
    place = short_place(Path(f"/run/user/{user}"), Path("/var/lib/systemd/linger", name or str(user)))
    return place / f"{_DIRECTORY_PREFIX}{run_id}"


def short_place(own: Path, lingering: Path) -> Path:
    """The user's ``own`` runtime directory, if it is private and stays at a logout, else ``/tmp``.

    It stays if the file ``lingering`` is there (``loginctl enable-linger`` makes it).
    """
    return own if _is_own(own) and os.path.exists(lingering) else Path("/tmp")


def _is_own(directory: Path) -> bool:
    """Whether this user, and nobody else, may make files in a directory."""
    try:
        found = directory.lstat()
    except OSError:
        return False
    is_private = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    return is_private and os.access(directory, os.W_OK | os.X_OK)


def end_left_over_runs() -> int:
    """Clean up after runs of this user whose driver and janitor are both gone; returns how many directories they
    left."""
    ended = 0
    places = {run_directory("").parent, socket_directory("").parent}
    for directory in (each for place in places for each in place.glob(f"{_DIRECTORY_PREFIX}*")):
        run_id = directory.name.removeprefix(_DIRECTORY_PREFIX)
        if _RUN_ID.fullmatch(run_id) and not _has_janitor(run_id) and _is_forsaken(directory):
            end_run_processes(run_id, directories=[directory])
            clean_up(run_id, [directory])
            ended += 1
    return ended


def _has_janitor(run_id: str) -> bool:
    return process_with_arguments(os.getuid(), "emulator.live.janitor", "--run-id", run_id) is not None


def process_with_arguments(user: int, *arguments: str) -> int | None:
    """Id of a user's process with these arguments in a row on its command line, with others before and after; or None.

    Other users can start processes that look the same.
    """
    wanted = "".join(f"\0{argument}" for argument in (*arguments, "")).encode()
    for name in os.listdir("/proc"):
        with suppress(OSError):
            process = Path("/proc", name)
            if name.isdecimal() and wanted in (process / "cmdline").read_bytes() and process.stat().st_uid == user:
                return int(name)
    return None


def _is_forsaken(directory: Path) -> bool:
    """Whether the directory is ours and no driver has locked it."""
    try:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.fstat(handle).st_uid == os.getuid()
    except OSError:
        return False
    finally:
        os.close(handle)


class Janitor:
    """The driver's handle of the janitor; see `start_janitor`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """Process id of the janitor."""
        return self._process.pid

    def goodbye(self, timeout_real_s: float = 15.0) -> int:
        """The driver has cleaned up: let the janitor check; returns how many processes were left and are now killed.

        Also removes what is left of the directories.  Raises RuntimeError if the janitor has died or does not end in
        time.
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


def start_janitor(
    run_id: str, directories: Sequence[str | Path], host: str | None = None, kept: Sequence[str | Path] = ()
) -> Janitor:
    """Start the janitor of a run, before any other process of it.  Raises OSError.

    `directories` are removed at the end with all their content; they need not exist yet.  Who writes to those or to
    the directories ``kept`` belongs to the run.  The janitor of one ``host`` cleans up after the processes that the
    host has started; it gets no goodbye.
    """
    command = [sys.executable, "-m", "emulator.live.janitor", "--run-id", run_id]
    if host is not None:
        command += ["--host", host]
    for option, paths in (("--dir", directories), ("--kept", kept)):
        command += [part for path in paths for part in (option, str(Path(path).absolute()))]
    # Another janitor must not take this one for a process of the run.
    environment = {name: value for name, value in os.environ.items() if name not in (RUN_VARIABLE, HOST_VARIABLE)}
    # Only our end may keep the pipe open: later children do not inherit Python's descriptors.
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, start_new_session=True)
    if host is not None:
        process.wait()  # it has forked and continues as an orphan
    return Janitor(process)


def _wait_for_driver() -> bool:
    """Wait until the driver has gone; True if it said goodbye."""
    said = b""
    while data := os.read(0, 4096):
        said += data
    return said == _GOODBYE


def main() -> int:
    """Entry point of ``python -m emulator.live.janitor``; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m emulator.live.janitor", description=__doc__)
    parser.add_argument("--run-id", required=True, help="the value of NATJAM_RUN in the run's processes")
    parser.add_argument("--host", help="end only the processes with this value of NATJAM_HOST")
    parser.add_argument("--dir", action="append", default=[], help="a directory to remove; may be repeated")
    parser.add_argument("--kept", action="append", default=[], help="a directory that only the run writes to")
    arguments = parser.parse_args()
    if arguments.host is not None and os.fork():
        return 0  # the fork continues as an orphan: Ray kills the children of an actor that it ends
    clean = _wait_for_driver()
    driver = os.getppid() if clean else None  # the driver may still have a log of Ray open
    written = [*arguments.dir, *arguments.kept]
    if clean:  # its processes have been notified to end
        belongings = _Belongings(arguments.run_id, arguments.host, written, driver)
        deadline = time.monotonic() + _OWN_END_TIMEOUT_REAL_S
        while time.monotonic() < deadline and belongings.found():
            time.sleep(_BETWEEN_ROUNDS_REAL_S)
    killed = end_run_processes(arguments.run_id, arguments.host, written, driver)
    clean_up(arguments.run_id, arguments.dir, arguments.host)
    if killed and not clean:
        with suppress(OSError):
            print(f"natjam: the run's driver is gone; ended {len(killed)} of its processes", file=sys.stderr)
    with suppress(OSError):
        print(len(killed), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

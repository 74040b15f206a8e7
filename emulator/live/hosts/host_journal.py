"""The journal that a host keeps on its own disk, so that its machines can be restored if it dies.

Theory of operation
-------------------
A machine is pure: given to a new machine, its journal restores its state.  The records of a host's machines are written
here first; only then may any message of theirs leave the host, and only then does the driver get the records.  So if
the host is killed, a record that is missing here has had no effect.  To all others its message was lost, which the
protocol tolerates.  Written bytes survive the death of the process that wrote them.  The death of the computer ends the
run in any case.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from emulator.core.machine import PeriodicMachine
from emulator.files.whole_files import writing
from emulator.records.journal import Record, Recorder, decode_record


class HostJournal:
    """Lines of records; see the module's theory of operation."""

    def __init__(self, path: Path) -> None:
        """Continue the file ``path``, or create it.  Raises OSError."""
        self._path = path
        self.found = _whole_lines(path)
        """The records found in it, one encoded record each."""
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.truncate(path, sum(len(line) + 1 for line in self.found))
        os.lseek(self._descriptor, 0, os.SEEK_END)
        self._unwritten: list[bytes] = []

    def add(self, line: bytes) -> None:
        """Add a record, encoded."""
        self._unwritten.append(line)

    def write(self) -> None:
        """Write all records that were added.

        Raises:
            RunError: they cannot be written; nothing may be added then.
        """
        if not self._unwritten:
            return
        rest = memoryview(b"\n".join([*self._unwritten, b""]))
        with writing(self._path):
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        self._unwritten.clear()


def restored(
    lines: list[bytes], make_machine: Callable[[str], PeriodicMachine], sink: Callable[[Record], None]
) -> dict[str, Recorder]:
    """The machines that a journal restores, by address, each in a recorder that continues with ``sink``."""
    recorders: dict[str, Recorder] = {}
    for record in map(decode_record, lines):
        recorder = recorders.get(record.actor)
        if recorder is None:
            recorder = recorders[record.actor] = Recorder(make_machine(record.actor), sink)
        recorder.machine.handle(record.message, record.t_ns)
        recorder.seq = record.seq + 1
    return recorders


def _whole_lines(path: Path) -> list[bytes]:
    """All complete lines; a line that was being written when its writer died is left out."""
    try:
        return path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []

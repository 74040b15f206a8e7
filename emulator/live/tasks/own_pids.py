"""Starts a program in a new pid namespace whose first process it is: ``python -m emulator.live.tasks.own_pids FIRST
..``.

criu finds processes through /proc, so the program gets its own /proc.  The program must be started after that is
mounted, because criu cannot save a process that runs from files of other mounts than its own.  ``FIRST``: the first
process id in the namespace, so that ids of several namespaces do not clash.
"""

from __future__ import annotations

import os
import sys

from emulator.parent import ctypes, libc

CLONE_NEWPID = 0x20000000
_CLONE_NEWNS, _MS_REC, _MS_PRIVATE = 0x20000, 0x4000, 1 << 18


def unshare(what: int) -> None:
    """Leave the namespaces ``what``; a new pid namespace holds for later children of this thread.  Raises OSError."""
    if libc.unshare(what):
        raise OSError(ctypes.get_errno(), "natjam cannot make a namespace for processes that criu can make again")


def main() -> None:
    """The entry point (see the module's docstring)."""
    unshare(_CLONE_NEWNS)
    if libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None) or libc.mount(b"proc", b"/proc", b"proc", 0, None):
        raise OSError(ctypes.get_errno(), "natjam cannot mount /proc in a namespace of its own")
    with open("/proc/sys/kernel/ns_last_pid", "w") as last:
        last.write(sys.argv[1])
    os.execv(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()

"""Begins a program in the pid namespace that it is the first process of: ``python -m emulator.live.own_pids FIRST ..``.

criu finds processes by /proc, so the program gets one of its own; it is started anew behind that, since criu saves no
process that runs from files of other mounts than its own.  ``FIRST``: where the ids of its processes begin, so that
those of several namespaces do not clash.
"""

from __future__ import annotations

import ctypes
import os
import sys

CLONE_NEWPID = 0x20000000
_CLONE_NEWNS, _MS_REC, _MS_PRIVATE = 0x20000, 0x4000, 1 << 18
libc = ctypes.CDLL(None, use_errno=True)


def unshare(what: int) -> None:
    """Leave the namespaces ``what``; that of pids for what this thread starts from now on.  Raises OSError."""
    if libc.unshare(what):
        raise OSError(ctypes.get_errno(), "natjam cannot make a namespace for processes that criu can make again")


def main() -> None:
    """See the module's text."""
    unshare(_CLONE_NEWNS)
    if libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None) or libc.mount(b"proc", b"/proc", b"proc", 0, None):
        raise OSError(ctypes.get_errno(), "natjam cannot mount /proc in a namespace of its own")
    with open("/proc/sys/kernel/ns_last_pid", "w") as last:
        last.write(sys.argv[1])
    os.execv(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()

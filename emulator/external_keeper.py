"""The process between natjam and an external scheduler: nothing that the scheduler has started outlives natjam.

Theory of operation
-------------------
It starts the scheduler in a session of its own, and has no part in what natjam and the scheduler say to each other.
Orphans of the scheduler become its children.  When natjam ends, by SIGKILL too, or sends SIGTERM, it ends all that
descends from it.  When the scheduler ends by itself, it ends the rest, and then itself in the same way.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys

from emulator.parent import PR_SET_CHILD_SUBREAPER, libc


def main() -> int:
    """Keep the command of the arguments, which come after the process id of natjam; returns its exit status."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    natjam = os.pidfd_open(parent)
    if os.getppid() != parent:
        return 1  # it has ended already
    try:
        status = _run(command, natjam)
    except OSError as error:
        print(f"it cannot be started: {error}", file=sys.stderr)
        return 1
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _end_all()
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


def _run(command: list[str], natjam: int) -> int:
    """Run the command to its end, or to the end of natjam; returns its status.  Raises OSError if it cannot start."""
    scheduler = subprocess.Popen(command, start_new_session=True)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)  # what natjam reads ends with the scheduler
    select.select([natjam, os.pidfd_open(scheduler.pid)], [], [])
    return scheduler.poll() or 0


def _end_all() -> None:
    """End all that descends from this process, stopped first, so that nothing is started meanwhile."""
    import psutil  # here, because it is needed at the end only

    stopped: set[psutil.Process] = set()
    while found := set(psutil.Process().children(recursive=True)) - stopped:
        for child in found:
            with contextlib.suppress(psutil.Error):
                child.suspend()
        stopped |= found
    for child in stopped:
        with contextlib.suppress(psutil.Error):
            child.kill()
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


if __name__ == "__main__":
    sys.exit(main())

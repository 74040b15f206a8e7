"""A user's own code cannot end a command as if all were well.

Theory of operation
-------------------
Code in a process can end it anywhere, with any status: ``os._exit(0)``, or another program in its place.  So success
has to be said.  Before a command imports code of the user's, its process parts in two.  The new one goes on with the
command and, when that has come to its end, says so in a pipe.  The old one only waits: it passes signals on, and ends
with the same status; but if nothing was said, never with 0.  The new one hears a signal only between two steps of
Python.  If there are none, as in ``sum(itertools.repeat(0))``, it is killed some time after the signal.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import NoReturn

from emulator.interruption import END_TIMEOUT_REAL_S, EXIT_CODE

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_DONE = b"done"
TIMEOUT_REAL_S = END_TIMEOUT_REAL_S + 2
"""Time from the first signal to the end by force: a process that hears it ends before."""


class _Command:
    """State of this process, whose status somebody waits for."""

    parts = False
    pipe: int | None = None
    """The pipe in which the end of the command is reported; None: nobody else waits for it."""


_state = _Command()


def part_before_own_code() -> None:
    """This process is a command: from now on ``part`` parts it."""
    _state.parts = True


def part() -> None:
    """Go on in a new process, if this one is a command and has not parted yet; see the module's text."""
    if not _state.parts or threading.active_count() > 1:
        return
    from emulator.parent import end_with  # here, because few commands need what it imports

    _state.parts = False
    sys.stdout.flush()
    sys.stderr.flush()
    said, pipe = os.pipe()
    me = os.getpid()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    child = os.fork()
    if child:
        os.close(pipe)
        _wait(child, said)
    end_with(me)
    os.close(said)
    _state.pipe = pipe
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def say_done() -> None:
    """The command has come to its end, and succeeded."""
    if _state.pipe is not None:
        os.write(_state.pipe, _DONE)


def _wait(child: int, said: int) -> NoReturn:
    forced = False

    def pass_on(number: int, frame: object) -> None:
        os.kill(child, number)
        if not signal.getitimer(signal.ITIMER_REAL)[0]:
            signal.setitimer(signal.ITIMER_REAL, TIMEOUT_REAL_S)

    def force(number: int, frame: object) -> None:
        nonlocal forced
        forced = True
        os.kill(child, signal.SIGKILL)

    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:  # as SIGHUP under nohup
            signal.signal(number, pass_on)
    signal.signal(signal.SIGALRM, force)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    _, status = os.waitpid(child, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, {*_SIGNALS, signal.SIGALRM})  # there is nobody left to pass them on to
    if forced:
        print("natjam: interrupted", file=sys.stderr, flush=True)
        os._exit(EXIT_CODE)
    code = os.waitstatus_to_exitcode(status)
    if code == 0 and not _is_said(said):
        said_of_it = "natjam: the command has not come to its end: code of yours, such as a policy, has ended it"
        print(said_of_it, file=sys.stderr, flush=True)
        code = 1
    os._exit(code if code >= 0 else 128 - code)


def _is_said(said: int) -> bool:
    os.set_blocking(said, False)  # the command may have left processes that have the other end open
    try:
        return os.read(said, len(_DONE)) == _DONE
    except BlockingIOError:
        return False

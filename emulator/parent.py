"""Processes that end when their parent does, or when it wants them to."""

from __future__ import annotations

import os
import signal
import sys
from types import ModuleType
from typing import TYPE_CHECKING

if "sysconfig" in sys.modules:
    import ctypes
else:
    # From Python 3.14 on ctypes imports sysconfig, for other systems than Linux, and that imports threading, with whose
    # hook each fork of a supervisor takes 0.2 ms more.
    sys.modules["sysconfig"] = ModuleType("sysconfig")
    import ctypes

    del sys.modules["sysconfig"]

if TYPE_CHECKING:
    from asyncio import Event

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
libc = ctypes.CDLL(None, use_errno=True)


def end_with(parent: int) -> None:
    """Let the kernel kill this process when the thread of ``parent`` that started it ends; exit if it has ended."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # the parent died before this was set


def end_of_input() -> Event:
    """An event that is set when standard input ends: whoever started this process wants it to end."""
    import asyncio  # here, because a supervisor does without it

    ended, loop = asyncio.Event(), asyncio.get_running_loop()

    def read() -> None:
        if not os.read(0, 4096):
            loop.remove_reader(0)  # at its end the input is always readable
            ended.set()

    loop.add_reader(0, read)
    return ended

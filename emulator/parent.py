"""Processes that end when their parent does."""

from __future__ import annotations

import os
import signal
import sys
from types import ModuleType

if "sysconfig" in sys.modules:
    import ctypes
else:
    # From Python 3.14 on ctypes imports sysconfig, for other systems than Linux, and that imports threading, with whose
    # hook each fork of a supervisor takes 0.2 ms more.
    sys.modules["sysconfig"] = ModuleType("sysconfig")
    import ctypes

    del sys.modules["sysconfig"]

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
libc = ctypes.CDLL(None, use_errno=True)


def end_with(parent: int) -> None:
    """Let the kernel kill this process when the thread of ``parent`` that started it ends; exit if it has ended."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # the parent died before this was set

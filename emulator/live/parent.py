"""Processes that end when their parent does."""

from __future__ import annotations

import ctypes
import os
import signal

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
libc = ctypes.CDLL(None, use_errno=True)


def end_with(parent: int) -> None:
    """Let the kernel kill this process when the thread of ``parent`` that started it ends; exit if it has ended."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # the parent died before this was set

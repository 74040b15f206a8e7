"""The console for results."""

from __future__ import annotations

import sys

from rich.console import Console

_NO_TERMINAL_WIDTH = 1000


def results_console(stderr: bool = False) -> Console:
    """Standard output, or standard error.  If it is not a terminal, every table fits with all its columns."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else _NO_TERMINAL_WIDTH)

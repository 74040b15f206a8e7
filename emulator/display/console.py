"""The console for results."""

from __future__ import annotations

import sys

from rich.console import Console


def results_console(stderr: bool = False) -> Console:
    """Standard output, or standard error.  If it is not a terminal, it is wide enough for the tables."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else 140)

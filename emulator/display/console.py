"""The console that results are printed on."""

from __future__ import annotations

import sys

from rich.console import Console


def results_console(stderr: bool = False) -> Console:
    """Standard output, or standard error; wide enough for the tables where it is no terminal."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else 140)

"""The console that results are printed on."""

from __future__ import annotations

import sys

from rich.console import Console


def results_console() -> Console:
    """Standard output; wide enough for the tables where it is no terminal."""
    return Console() if sys.stdout.isatty() else Console(width=140)

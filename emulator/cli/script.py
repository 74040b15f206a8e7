"""The console script ``natjam``.  Ctrl-C works from its start on, also while the commands are imported."""

from __future__ import annotations

import gc
import os
import sys

from emulator.interruption import EXIT_CODE, interruptible


def main() -> None:
    """Run the command line."""
    gc.set_threshold(100_000)  # most of what a command makes, first its imports, lives until it ends
    try:
        with interruptible(finally_ignored=True):
            from emulator.cli.main import app

            app(prog_name="natjam")
    except KeyboardInterrupt:
        os.write(2, b"natjam: interrupted\n")
        sys.exit(EXIT_CODE)
    finally:
        gc.freeze()  # the process ends now: a last search for cycles, in all it has, would take a tenth of a second

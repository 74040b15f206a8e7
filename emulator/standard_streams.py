"""Standard input, output and error that cannot break a command: closed ones lead nowhere, and so do those whose reader
has gone."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any

_NOBODY_READS = (errno.EPIPE, errno.EIO)
"""The other end of the pipe is closed, as by ``head``; or the terminal is gone."""


def open_standard_streams() -> None:
    """Open those that are closed: else the next file that is opened would get what is said.

    And let what is printed no longer decide whether a run comes to its end: see ``outlast_readers``.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            os.set_inheritable(number, True)
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115
    outlast_readers()


def outlast_readers() -> None:
    """Let standard output and error lead nowhere when nobody reads them any more."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        old: Any = getattr(sys, name)
        old.flush()
        raw = io.BufferedWriter(_Outlasting(number, "w", closefd=False))
        new = io.TextIOWrapper(raw, old.encoding, old.errors, line_buffering=old.line_buffering)
        new.reconfigure(write_through=old.write_through)
        setattr(sys, name, new)


class _Outlasting(io.FileIO):
    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.fileno())
            os.close(null)
            if error.errno not in _NOBODY_READS:
                # Once: what is still to be written leads nowhere, and the command ends with this error.
                which = "standard output" if self.fileno() == 1 else "standard error"
                raise OSError(error.errno, error.strerror, which) from None
            return len(data)

"""What a server of a run says of requests that fail: anybody may send it anything, and its words go to the terminal."""

from __future__ import annotations

import logging
import sys

from emulator.errors import printable


class _OneLine(logging.Handler):
    """Says nothing of requests that are no HTTP, and of the server's own faults only the first, in one line."""

    def __init__(self, server: str) -> None:
        super().__init__()
        self._server = server
        self._has_said = False

    def emit(self, record: logging.LogRecord) -> None:
        from aiohttp.http_exceptions import HttpProcessingError

        error = record.exc_info[1] if record.exc_info else None
        if not self._has_said and not isinstance(error, HttpProcessingError):
            self._has_said = True
            why = f"{type(error).__name__}: {error}" if error else record.getMessage()
            print(f"natjam: {self._server} could not answer a request: {printable(why)}", file=sys.stderr)


def keep_quiet(server: str) -> None:
    """For a process that is a server of aiohttp, which writes a traceback for every request that it cannot read.

    So does asyncio, a hundred times a second, for connections beyond those that the process may have open.
    """
    handler = _OneLine(server)
    for name in ("aiohttp.server", "asyncio"):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.propagate = False

"""Concatenated JSON objects, read one by one from a file of any size (Hadoop's Rumen and SLS files).

The bytes are searched for the ends of objects, skipping strings; then each object is parsed alone.  So memory holds
only the largest object.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from workloads.errors import Problems, TraceError
from workloads.importers.source import CHUNK_BYTES, ByteSource, OnBytes

MAX_OBJECT_BYTES = 64 * 2**20
"""Limit for one job: some 50,000 attempts in Rumen, or three times as many containers in SLS."""
MAX_STRING_BYTES = 1 << 20
MAX_DEPTH = 100
MAX_TEXTS = 100_000
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}]|"', re.DOTALL)


def read_objects(path: Path, problems: Problems, on_bytes: OnBytes) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each object of the file, with the line on which it begins.

    Raises TraceError if the file cannot be read or has no object.  Text that is not an object, or not JSON, is a
    problem.
    """
    found = False
    with ByteSource(path, on_bytes) as source:
        for line, raw in _framed(source, problems):
            found = True
            try:
                value = orjson.loads(raw)
            except orjson.JSONDecodeError as error:
                where = line + error.lineno - 1
                problems.add(path, where, None, f"is not JSON: {error.msg} at byte {error.colno} of the line")
                continue
            yield line, value
    if not found and not problems.count:
        raise TraceError(path, None, None, "there is no JSON object in the file")


def _framed(source: ByteSource, problems: Problems) -> Iterator[tuple[int, bytes]]:
    """Line and bytes of each outermost ``{...}``."""
    framer = _Framer(source.path, problems)
    while data := source.read(max(CHUNK_BYTES, framer.held_bytes)):  # doubling, so that an object is not copied often
        yield from framer.feed(data)
    framer.end()


class _Framer:
    def __init__(self, path: Path, problems: Problems) -> None:
        self._path, self._problems = path, problems
        self._held = b""
        self._scanned = 0
        """The held bytes are searched up to here."""
        self._start = 0
        """Start of the open object, or of the text after the last one."""
        self._depth = 0
        self._texts = 0
        """Number of texts since the last brace."""
        self._open_line = 1
        """Line on which the open object begins."""
        self._line, self._counted = 1, 0
        """The line number of a position in the held bytes."""

    @property
    def held_bytes(self) -> int:
        return len(self._held)

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """The objects that end in ``data``."""
        self._held += data
        last = self._scanned
        for token in _TOKEN.finditer(self._held, self._scanned):
            last = token.end()
            self._texts = 0 if token[0] in (b"{", b"}") else self._texts + 1
            if self._texts > MAX_TEXTS:
                reason = f"over {MAX_TEXTS} texts without a brace between them: these are not jobs"
                raise TraceError(self._path, self._line_of(last), None, reason)
            if token[0] == b"{":
                if self._depth > MAX_DEPTH:
                    raise TraceError(self._path, self._open_line, None, "an object nested too deeply")
                if self._depth == 0:
                    self._between(token.start())
                    self._start, self._open_line = token.start(), self._line_of(token.start())
                self._depth += 1
            elif token[0] == b"}" and self._depth:
                self._depth -= 1
                if self._depth == 0:
                    yield self._open_line, self._held[self._start : token.end()]
                    self._start = token.end()
            elif token[0] == b'"' and self._depth:  # the end of the string is still to come
                if len(self._held) - token.start() > MAX_STRING_BYTES:
                    reason = f"a text of over {MAX_STRING_BYTES} bytes: a closing quote is missing"
                    raise TraceError(self._path, self._line_of(token.start()), None, reason)
                self._forget(token.start())
                return
        if self._depth and len(self._held) - last > MAX_STRING_BYTES:
            reason = f"over {MAX_STRING_BYTES} bytes without a key: these are not jobs"
            raise TraceError(self._path, self._line_of(last), None, reason)
        self._forget(len(self._held))

    def end(self) -> None:
        """Check the rest at the end of the file."""
        if self._depth:
            reason = "the object that begins here has no end: the file is truncated"
            self._problems.add(self._path, self._open_line, None, reason)

    def _between(self, end: int) -> None:
        """Check that there is only white space between objects."""
        rest = self._held[self._start : end].lstrip()
        if rest:
            line = self._line_of(end - len(rest))
            shown = rest[:40].decode("utf-8", "replace")
            reason = f"{shown!r} is not a JSON object; the file must have one object after another"
            self._problems.add(self._path, line, None, reason)

    def _forget(self, scanned: int) -> None:
        """Drop bytes that are no longer needed; the open object and the bytes not yet searched are kept."""
        if self._depth == 0:
            self._between(len(self._held))
        keep_from = self._start if self._depth else len(self._held)
        self._line, self._counted = self._line_of(keep_from), 0
        self._held = self._held[keep_from:]
        self._scanned = max(0, scanned - keep_from)
        self._start = 0
        if len(self._held) > MAX_OBJECT_BYTES:
            reason = f"an object of over {MAX_OBJECT_BYTES // 2**20} MiB; is a brace missing?"
            raise TraceError(self._path, self._open_line, None, reason)

    def _line_of(self, position: int) -> int:
        """The line of a position; exact at or after the last requested one, otherwise approximate."""
        if position > self._counted:
            self._line += self._held.count(b"\n", self._counted, position)
            self._counted = position
        return self._line

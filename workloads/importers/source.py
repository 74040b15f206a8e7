"""The bytes of a trace file, plain or gzip, read in pieces or as lines of text."""

from __future__ import annotations

import contextlib
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from emulator.files.progress import OnBytes, ignore
from workloads.errors import BrokenRow, Problems, TraceError

_GZIP_MAGIC = b"\x1f\x8b"
MAX_LINE_BYTES = 64 * 1024
ENDLESS_LINE_BYTES = 16 * 2**20
CHUNK_BYTES = 1 << 20


class ByteSource:
    """One file, decompressed; a context manager.  All methods raise TraceError if the file cannot be read."""

    def __init__(self, path: Path, on_bytes: OnBytes = ignore) -> None:
        self.path = path
        self._on_bytes = on_bytes
        self._told = 0
        self._read_bytes = 0
        """Decompressed bytes since the last call of ``on_bytes``."""

    def __enter__(self) -> ByteSource:
        with self._as_trace_errors():
            self._raw = self.path.open("rb")
            try:
                head = self._raw.peek(2)[:2]  # on some systems a directory can be opened, but fails here
            except BaseException:
                self._raw.close()
                raise
            packed = head == _GZIP_MAGIC
            self._stream = io.BufferedReader(gzip.GzipFile(fileobj=self._raw), CHUNK_BYTES) if packed else self._raw
        return self

    def __exit__(self, *_: object) -> None:
        self._raw.close()

    @property
    def stream(self) -> BinaryIO:
        """The decompressed bytes, for a reader that turns its errors into TraceError."""
        return cast(BinaryIO, self._stream)

    def read(self, count: int) -> bytes:
        """The next ``count`` bytes; fewer only at the end of the file."""
        with self._as_trace_errors():
            data = self._stream.read(count)
        self._tell()
        return data

    def lines(self, most_bytes: int = MAX_LINE_BYTES) -> Iterator[tuple[int, bytes]]:
        """Number, from 1, and bytes of each line, with its line end.

        A line that is too long is cut, but stays longer than ``most_bytes``.  Raises TraceError for an endless line.
        """
        number = 0
        while raw := self._line(most_bytes):
            number += 1
            yield number, raw
            skipped_bytes = 0
            while len(raw) > most_bytes and not raw.endswith(b"\n"):
                raw = self._line(most_bytes)
                skipped_bytes += len(raw)
                if skipped_bytes > ENDLESS_LINE_BYTES:
                    reason = f"a line of over {ENDLESS_LINE_BYTES >> 20} MiB: the file is not text of this format"
                    raise TraceError(self.path, number, None, reason)
        self._tell()

    def _line(self, most_bytes: int) -> bytes:
        with self._as_trace_errors():
            raw = b"".join(self._pieces(most_bytes + 1))
        self._read_bytes += len(raw)
        if self._read_bytes >= CHUNK_BYTES:
            self._read_bytes = 0
            self._tell()
        return raw

    def _pieces(self, most_bytes: int) -> Iterator[bytes]:
        """The next line, as far as ``most_bytes``.  One of more than a piece is JSON, and not of blanks or the like."""
        while most_bytes and (piece := self._stream.readline(min(most_bytes, CHUNK_BYTES))):
            yield piece
            most_bytes -= len(piece)
            if piece.endswith(b"\n"):
                return
            if len(piece) == CHUNK_BYTES and b'"' not in piece:
                reason = f"over {CHUNK_BYTES} bytes without a key: these are not jobs"
                raise TraceError(self.path, None, None, reason)

    def _tell(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            now = self._raw.tell()
            self._on_bytes(now - self._told)
            self._told = now

    @contextlib.contextmanager
    def _as_trace_errors(self) -> Iterator[None]:
        try:
            yield
        except EOFError:
            reason = "the gzip data ends in the middle: the file is truncated; fetch it again"
            raise TraceError(self.path, None, None, reason) from None
        except (gzip.BadGzipFile, zlib.error) as error:
            raise TraceError(self.path, None, None, f"is not complete gzip data ({error}); fetch it again") from None
        except OSError as error:
            raise TraceError(self.path, None, None, f"cannot be read: {error.strerror or error}") from None
        except ValueError as error:  # the path has a NUL
            raise TraceError(self.path, None, None, f"cannot be read: {error}") from None


_BOM = b"\xef\xbb\xbf"


def text_lines(path: Path, problems: Problems, on_bytes: OnBytes) -> Iterator[tuple[int, str]]:
    """Number, from 1, and text of each line, without its end.  One that is no text is a problem.  Raises TraceError."""
    with ByteSource(path, on_bytes) as source:
        for number, raw in source.lines():
            text = None
            with problems.reported(path, number):
                text = _decoded(raw.removeprefix(_BOM) if number == 1 else raw)
            if text is not None:
                yield number, text


def _decoded(raw: bytes) -> str:
    if len(raw) > MAX_LINE_BYTES:
        raise BrokenRow(None, "is too long for a line of this format")
    return utf8(raw.removesuffix(b"\n").removesuffix(b"\r"))


def utf8(raw: bytes) -> str:
    """The text of a line.  Raises BrokenRow."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        reason = f"byte {error.start + 1} (0x{raw[error.start]:02x}) is not UTF-8; save the file as UTF-8"
        raise BrokenRow(None, reason) from None

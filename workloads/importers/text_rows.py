"""Rows of line-based formats: lines are decoded, and broken ones reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from workloads.errors import BrokenRow, Problems
from workloads.importers.source import MAX_LINE_BYTES, ByteSource, OnBytes

Row = TypeVar("Row")
_BOM = b"\xef\xbb\xbf"


def read_rows(
    path: Path, problems: Problems, on_bytes: OnBytes, parse: Callable[[int, str], Row | None]
) -> Iterator[Row]:
    """The result of ``parse`` (line number, text without line end) for each line, unless it is None.

    A BrokenRow raised by ``parse`` is a problem of that line.  Raises TraceError.
    """
    with ByteSource(path, on_bytes) as source:
        for number, raw in source.lines():
            with problems.reported(path, number):
                row = parse(number, _decoded(raw.removeprefix(_BOM) if number == 1 else raw))
                if row is not None:
                    yield row


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

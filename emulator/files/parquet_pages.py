"""What the footer of a Parquet file says of its columns, and how many values their pages hold, by their own headers.

pyarrow ends the process at some broken footers, so the footer is read here.  A reader of lists takes as many values as
a page has, whatever the footer says.  Footer and headers are structs in the compact
protocol of Thrift (https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md), of which the
Parquet format uses a part.
"""

from __future__ import annotations

from collections.abc import Iterator
from os import SEEK_END
from pathlib import Path
from typing import Any, BinaryIO

from emulator.vocabulary import Frozen

_HEADER_BYTES, _LONGEST_HEADER_BYTES = 1 << 12, 1 << 24
_DEEPEST = 8
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12
_COMPRESSED_BYTES, _VALUES = 3, 1
_OF_DATA = (5, 8)
"""The headers of data pages of version 1 and 2, within that of a page."""
_ROW_GROUPS, _COLUMNS, _META_DATA = 4, 1, 3
_PATH, _COUNT, _UNPACKED, _PACKED, _DATA_PAGE, _DICTIONARY_PAGE = 3, 5, 6, 7, 9, 11
_END_BYTES, _MARK = 8, b"PAR1"


class ColumnPart(Frozen):
    """What the footer says of a column in a group of rows."""

    path: str
    values: int
    unpacked_bytes: int
    packed_bytes: int
    first_byte: int
    """Of its pages, in the file."""


def column_parts(path: Path) -> list[list[ColumnPart]]:
    """For each group of rows, its columns.  Raises OSError, ValueError."""
    with path.open("rb") as file:
        end = file.seek(0, SEEK_END)
        file.seek(max(0, end - _END_BYTES))
        length, mark = int.from_bytes(file.read(4), "little"), file.read(4)
        if mark != _MARK or length > end - _END_BYTES:
            raise ValueError("its end is not that of a Parquet file")
        file.seek(end - _END_BYTES - length)
        data = file.read(length)
    try:
        footer, _ = _struct(data, 0)
    except IndexError:
        raise ValueError("its footer does not end") from None
    return [[_part(chunk) for chunk in _listed(group, _COLUMNS)] for group in _listed(footer, _ROW_GROUPS)]


def _part(chunk: Any) -> ColumnPart:
    found = chunk.get(_META_DATA) if isinstance(chunk, dict) else None
    names = [name.decode(errors="replace") for name in _listed(found, _PATH) if isinstance(name, bytes)]
    pages = [_count(found, page) for page in (_DATA_PAGE, _DICTIONARY_PAGE)]
    values, unpacked_bytes, packed_bytes = (_count(found, field) for field in (_COUNT, _UNPACKED, _PACKED))
    return ColumnPart(".".join(names), values, unpacked_bytes, packed_bytes, min(filter(None, pages), default=0))


def _listed(fields: Any, number: int) -> list[Any]:
    value = fields.get(number) if isinstance(fields, dict) else None
    return value if isinstance(value, list) else []


def values_in_pages(file: BinaryIO, first: int, size_bytes: int) -> int:
    """The number of values in the data pages of ``size_bytes`` from ``first`` on.  Raises OSError, ValueError."""
    headers = list(_headers(file, first, size_bytes))
    return sum(_count(header.get(kind), _VALUES) for header in headers for kind in _OF_DATA)


def _headers(file: BinaryIO, first: int, size_bytes: int) -> Iterator[dict[int, Any]]:
    at, end = first, first + size_bytes
    while at < end:
        header, length = _header(file, at)
        yield header
        at += length + _count(header, _COMPRESSED_BYTES)


def _count(fields: Any, number: int) -> int:
    """A field that is a count; 0: it is not there, or is something else."""
    value = fields.get(number) if isinstance(fields, dict) else None
    return max(0, value) if type(value) is int else 0


def _header(file: BinaryIO, at: int) -> tuple[dict[int, Any], int]:
    for most_bytes in (_HEADER_BYTES, _LONGEST_HEADER_BYTES):
        file.seek(at)
        try:
            return _struct(file.read(most_bytes), 0)
        except IndexError:
            continue
    raise ValueError(f"the header of the page at byte {at} does not end")


def _struct(data: bytes, at: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """The fields of a struct, and where it ends.  Raises IndexError, ValueError."""
    if depth > _DEEPEST:
        raise ValueError("its footer or the header of a page is nested too deeply")
    fields: dict[int, Any] = {}
    number = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            number, at = _number(data, at)
        fields[number], at = _value(data, at, head & 15, depth)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, at
    if kind in (_I16, _I32, _I64):
        return _number(data, at)
    if kind in (_BYTE, _DOUBLE):
        return None, at + (1 if kind == _BYTE else 8)
    if kind == _BINARY:
        length, at = _varint(data, at)
        return data[at : at + length], at + length
    if kind == _STRUCT:
        return _struct(data, at, depth + 1)
    if kind in (_LIST, _SET):
        return _list(data, at, depth)
    raise ValueError(f"its footer or the header of a page has a field of kind {kind}")


def _list(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    head, at = data[at], at + 1
    count, at = (head >> 4, at) if head >> 4 != 15 else _varint(data, at)
    found: list[Any] = []
    for _ in range(count):
        kind = head & 15
        value, at = (None, at + 1) if kind in (_TRUE, _FALSE) else _value(data, at, kind, depth + 1)
        data[at - 1]  # so that a count that is too large ends with the data
        found.append(value)
    return found, at


def _number(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return value >> 1 ^ -(value & 1), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise ValueError("its footer or the header of a page has a number that does not end")

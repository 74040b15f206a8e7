"""Parquet files, bounded before they are decoded: a few kilobytes of one can stand for gigabytes.

A run of equal values, and a text that a column's dictionary has once and the column a million times, take next to
nothing in the file.  The footer says how many rows and values there are and what the pages unpack to; of lists, the
pages are asked too.  What the texts of a dictionary come to is counted from the column in its encoded form, which is
small.

The footer, and the headers of pages, are read here: they are structs in the compact protocol of Thrift
(https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md), of which the Parquet format uses a
part.  pyarrow has no reader of pages, and a reader of lists takes as many values as a page has, whatever the footer
says.  Of footers, pyarrow 26 ended the process in 24 of 13,388 that had one to three wrong bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import SEEK_END
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow
import pyarrow.parquet

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
    """Where its pages begin in the file."""


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


MAX_ROWS = 50_000_000
_MAX_GROUP_BYTES = 2 * 2**30
_MAX_BYTES = 4 * 2**30
_VALUE_BYTES = 8
_GIB = 2**30


class TooLargeError(ValueError):
    """A Parquet file stands for more than natjam reads; the text says what, after the file's name."""


def parquet_file(path: Path, whole: bool = False) -> pyarrow.parquet.ParquetFile:
    """Open a Parquet file that can be read in the memory that a machine has.

    ``whole``: to read all of it at once, not one group of rows after the other.

    Raises TooLargeError, OSError, ValueError, pyarrow.ArrowException.
    """
    if path.exists() and not path.is_file():  # opening a pipe would wait for its writer, deaf to Ctrl-C
        raise ValueError("is not a file, but Parquet needs one that can be read at any place")
    file = pyarrow.parquet.ParquetFile(path)
    found = file.metadata
    if found.num_rows > MAX_ROWS:
        raise TooLargeError(f"has {found.num_rows:,} rows, above the {MAX_ROWS:,} that are read; split it")
    most_bytes = _MAX_BYTES if whole else _MAX_GROUP_BYTES
    total_bytes = 0
    for group, columns in enumerate(column_parts(path)):
        total_bytes = _group_bytes(path, file, group, columns, most_bytes) + (total_bytes if whole else 0)
        if total_bytes > most_bytes:
            what = "it" if whole else f"its row group {group + 1}"
            advice = "" if whole else "; write it with smaller row groups"
            raise TooLargeError(
                f"{what} unpacks to {total_bytes / _GIB:,.1f} GiB, above the {most_bytes // _GIB} GiB that are "
                f"read at once{advice}"
            )
    return file


def _group_bytes(
    path: Path, file: pyarrow.parquet.ParquetFile, group: int, columns: Sequence[ColumnPart], most_bytes: int
) -> int:
    """What a group of rows unpacks to; not exact if that is little.  Raises TooLargeError, ValueError."""
    if len(columns) != file.metadata.num_columns:
        what = f"row group {group + 1} has {len(columns)} columns, and the schema {file.metadata.num_columns}"
        raise ValueError(what)
    total_bytes = 0
    for number, column in enumerate(columns):
        described, size_bytes, count = file.schema.column(number), column.unpacked_bytes, column.values
        if count > MAX_ROWS:
            where = f"in column '{column.path}' of row group {group + 1}"
            raise TooLargeError(f"has {count:,} values {where}, above the {MAX_ROWS:,} that are read at once")
        if described.max_repetition_level:
            _check_pages(path, column)
        if described.physical_type != "BYTE_ARRAY":
            width_bytes = max(_VALUE_BYTES, described.length or 0)
            total_bytes += max(size_bytes, count * width_bytes)
        elif size_bytes + count * _VALUE_BYTES > most_bytes or count * size_bytes <= most_bytes:
            total_bytes += size_bytes + count * _VALUE_BYTES
        else:
            total_bytes += count * _VALUE_BYTES + _text_bytes(path, group, column.path, count * size_bytes)
    return total_bytes


def _check_pages(path: Path, column: ColumnPart) -> None:
    """Raise ValueError if the pages of lists hold more than the footer says."""
    with path.open("rb") as file:
        found = values_in_pages(file, column.first_byte, column.packed_bytes)
    if found > column.values:
        raise ValueError(f"the pages of '{column.path}' hold {found:,} values, and the footer says {column.values:,}")


def _text_bytes(path: Path, group: int, column: str, most_bytes: int) -> int:
    """The lengths of all texts of a column in a group of rows; ``most_bytes`` if they cannot be counted."""
    encoded = pyarrow.parquet.ParquetFile(path, read_dictionary=[column]).read_row_group(group, columns=[column])
    return sum(_lengths(chunk, most_bytes) for chunk in encoded.column(0).chunks)


def _lengths(array: Any, most_bytes: int) -> int:
    import pyarrow.compute as compute  # here, because it takes longer than all tables of a usual run

    while not pyarrow.types.is_dictionary(array.type):
        if pyarrow.types.is_list(array.type) or pyarrow.types.is_large_list(array.type):
            array = array.flatten()
        elif pyarrow.types.is_struct(array.type):
            array = array.flatten()[0]
        else:
            return most_bytes
    lengths = compute.call_function("binary_length", [array.dictionary]).cast(pyarrow.int64())
    return compute.call_function("sum", [lengths.take(array.indices)]).as_py() or 0

"""Parquet files, bounded before they are decoded: a few kilobytes of one can stand for gigabytes.

A run of equal values, and a text that a column's dictionary has once and the column a million times, take next to
nothing in the file.  The footer says how many rows and values there are and what the pages unpack to; of lists, the
pages are asked too.  What the texts of a dictionary come to is counted from the column in its encoded form, which is
small.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from emulator.files.parquet_pages import ColumnPart, column_parts, values_in_pages

MOST_ROWS = 50_000_000
_MOST_GROUP_BYTES = 2 * 2**30
_MOST_BYTES = 4 * 2**30
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
    if found.num_rows > MOST_ROWS:
        raise TooLargeError(f"has {found.num_rows:,} rows, above the {MOST_ROWS:,} that are read; split it")
    most_bytes = _MOST_BYTES if whole else _MOST_GROUP_BYTES
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
        if count > MOST_ROWS:
            where = f"in column '{column.path}' of row group {group + 1}"
            raise TooLargeError(f"has {count:,} values {where}, above the {MOST_ROWS:,} that are read at once")
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

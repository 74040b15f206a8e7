"""Arrivals in CSV with named columns: a column with a name of its own, or a resource, as Kubernetes writes it.

What one pod requests of a resource is written as ``500m`` or ``16Gi`` in the resource's column.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from emulator.errors import ConfigError, printable
from emulator.files.yaml_positions import read_bytes
from emulator.vocabulary import SECOND_NS
from workloads.kubernetes.quantities import amount

LARGEST_FILE_BYTES = 64 * 2**20
LONGEST_S = 10**9
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table."""

    where: str
    number: int
    cells: Mapping[str, str]

    def value(self, column: str, parse: Callable[[str], T], default: T) -> T:
        """A cell; ``default`` if it is empty or not there.  Raises ConfigError: file, line and column."""
        text = self.cells.get(column, "").strip()
        try:
            return parse(text) if text else default
        except ValueError as error:
            raise ConfigError(f"{self.where}: column {printable(column)}: {error}") from None

    def requests(self, known: Collection[str]) -> dict[str, int]:
        """What a pod requests: the columns that are not ``known``, if they have an amount."""
        asked = {
            column: self.value(column, lambda text, column=column: amount(column, text), 0)
            for column in self.cells
            if column not in known
        }
        return {resource: value for resource, value in asked.items() if value}


def read_rows(path: Path, needed: Collection[str]) -> list[Row]:
    """The lines of a table.  Raises ConfigError: a column is missing or there twice, or it is no CSV."""
    try:
        text = read_bytes(path, LARGEST_FILE_BYTES).decode("utf-8-sig")
        rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        columns = rows.fieldnames or ()
    except (UnicodeDecodeError, csv.Error):
        raise ConfigError(f"{path}: is not a table in CSV and UTF-8") from None
    for column in needed:
        if column not in columns:
            raise ConfigError(f"{path}:1: column {column}: is missing; the first line has the columns' names")
    if len(set(columns)) < len(columns):
        raise ConfigError(f"{path}:1: two columns have one name")
    return list(_rows(path, rows))


def _rows(path: Path, rows: csv.DictReader[str]) -> Iterator[Row]:
    try:
        for cells in rows:
            where = f"{path}:{rows.line_num}"
            if None in cells or None in cells.values():
                raise ConfigError(f"{where}: has another number of fields than the first line")
            yield Row(where, rows.line_num, cells)
    except csv.Error:
        raise ConfigError(f"{path}:{rows.line_num}: is not a line of CSV") from None


def seconds_ns(text: str) -> int:
    """Seconds as nanoseconds.  Raises ValueError, as do the next two."""
    try:
        seconds = float(text)
    except ValueError:
        raise ValueError("must be a number of seconds") from None
    if not math.isfinite(seconds) or not 0 <= seconds <= LONGEST_S:
        raise ValueError(f"must be from 0 to {LONGEST_S} seconds")
    return round(seconds * SECOND_NS)


def count(text: str) -> int:
    """A number of pods."""
    if (number := priority(text)) < 1:
        raise ValueError("must be 1 or more")
    return number


def priority(text: str) -> int:
    """A pod's priority."""
    if not text.lstrip("+-").isdecimal() or len(text) > 20:
        raise ValueError("must be a whole number")
    if not -(2**31) <= int(text) < 2**31:
        raise ValueError("must fit into 32 bits")
    return int(text)

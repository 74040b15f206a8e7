"""Arrivals from a table in CSV with named columns: one row is one workload.

``queue`` (a ClusterQueue) and ``submit_s`` are needed; ``name``, ``priority``, ``duration_s`` and ``count`` (pods, 1)
may be there.  Each other column is a resource, with what one pod requests, as Kubernetes writes it: ``500m``, ``16Gi``.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from emulator.errors import ConfigError, printable
from emulator.files.yaml_positions import read_bytes
from emulator.policies.kueue.model import Cluster, PodSet, Workload
from emulator.policies.kueue.player import Arrival
from workloads.kubernetes.quantities import amount

LARGEST_FILE_BYTES = 64 * 2**20
LONGEST_S = 10**9
_NEEDED = ("queue", "submit_s")
_KNOWN = (*_NEEDED, "name", "priority", "duration_s", "count")
_SECOND_NS = 10**9
T = TypeVar("T")


def read_arrivals(path: Path, cluster: Cluster) -> tuple[Arrival, ...]:
    """The workloads of a table, in the order of their times.  Raises ConfigError: file, line and column."""
    try:
        text = read_bytes(path, LARGEST_FILE_BYTES).decode("utf-8-sig")
        rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        columns = rows.fieldnames or ()
    except (UnicodeDecodeError, csv.Error):
        raise ConfigError(f"{path}: is not a table in CSV and UTF-8") from None
    for column in _NEEDED:
        if column not in columns:
            raise ConfigError(f"{path}:1: column {column}: is missing; the first line has the columns' names")
    if len(set(columns)) < len(columns):
        raise ConfigError(f"{path}:1: two columns have one name")
    arrivals = list(_arrivals(path, rows, {queue.name for queue in cluster.queues}))
    names = [arrival.workload.name for arrival in arrivals]
    if len(set(names)) < len(names):
        raise ConfigError(f"{path}: column name: two workloads have one name")
    return tuple(sorted(arrivals, key=lambda each: (each.workload.created_ns, each.workload.name)))


def _arrivals(path: Path, rows: csv.DictReader[str], queues: set[str]) -> Iterator[Arrival]:
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error:
            raise ConfigError(f"{path}:{rows.line_num}: is not a line of CSV") from None
        yield _arrival(f"{path}:{rows.line_num}", rows.line_num, row, queues)


def _arrival(where: str, number: int, row: Mapping[str | None, str | None], queues: set[str]) -> Arrival:
    def value(column: str, parse: Callable[[str], T], default: T) -> T:
        text = (row.get(column) or "").strip()
        try:
            return parse(text) if text else default
        except ValueError as error:
            raise ConfigError(f"{where}: column {printable(column)}: {error}") from None

    if None in row or None in row.values():
        raise ConfigError(f"{where}: has another number of fields than the first line")
    queue = (row["queue"] or "").strip()
    if queue not in queues:
        raise ConfigError(f"{where}: column queue: no ClusterQueue of this name")
    requests = {
        column: value(column, lambda text, column=column: amount(column, text), 0)
        for column in row
        if column is not None and column not in _KNOWN
    }
    podset = PodSet("main", value("count", _count, 1), {each: asked for each, asked in requests.items() if asked})
    name = value("name", str, f"row-{number}")
    workload = Workload(name, queue, (podset,), value("priority", _priority, 0), value("submit_s", _ns, 0))
    return Arrival(workload, value("duration_s", _duration, None))


def _ns(text: str) -> int:
    try:
        seconds = float(text)
    except ValueError:
        raise ValueError("must be a number of seconds") from None
    if not math.isfinite(seconds) or not 0 <= seconds <= LONGEST_S:
        raise ValueError(f"must be from 0 to {LONGEST_S} seconds")
    return round(seconds * _SECOND_NS)


def _duration(text: str) -> int | None:
    return _ns(text)


def _count(text: str) -> int:
    count = _whole(text)
    if not 1 <= count < 2**31:
        raise ValueError("must be 1 or more")
    return count


def _priority(text: str) -> int:
    priority = _whole(text)
    if not -(2**31) <= priority < 2**31:
        raise ValueError("must fit into 32 bits")
    return priority


def _whole(text: str) -> int:
    if not text.lstrip("+-").isdecimal() or len(text) > 20:
        raise ValueError("must be a whole number")
    return int(text)

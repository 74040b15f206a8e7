"""Pods and workloads that arrive on an imported cluster: from a table in CSV with named columns, or drawn.

In a table one row is one workload.  ``submit_s`` is needed; ``name``, ``priority``, ``duration_s`` and ``count`` (pods,
1) may be there, for Kubernetes also ``class`` (a PriorityClass) and ``grace_s`` (30), and for Kueue there must be
``queue`` (a ClusterQueue).  Each other column is a resource, with what one pod requests, as Kubernetes writes it:
``500m``, ``16Gi``.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TypeVar

from msgspec.structs import replace

from emulator.errors import ConfigError, printable
from emulator.files.yaml_positions import read_bytes
from emulator.sites.kubernetes import Arrival as PodArrival
from emulator.sites.kubernetes import Kubernetes, Pod, PriorityClass
from emulator.sites.kueue import Arrival, Cluster, PodSet, Workload
from emulator.vocabulary import SECOND_NS
from workloads.draws import exponential
from workloads.kubernetes.quantities import amount

LARGEST_FILE_BYTES = 64 * 2**20
LONGEST_S = 10**9
T = TypeVar("T")
ArrivalT = TypeVar("ArrivalT", PodArrival, Arrival)


@dataclass(frozen=True, slots=True)
class _Row:
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


def _read_rows(path: Path, needed: Collection[str]) -> list[_Row]:
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


def _rows(path: Path, rows: csv.DictReader[str]) -> Iterator[_Row]:
    try:
        for cells in rows:
            where = f"{path}:{rows.line_num}"
            if None in cells or None in cells.values():
                raise ConfigError(f"{where}: has another number of fields than the first line")
            yield _Row(where, rows.line_num, cells)
    except csv.Error:
        raise ConfigError(f"{path}:{rows.line_num}: is not a line of CSV") from None


def _seconds_ns(text: str) -> int:
    """Seconds as nanoseconds.  Raises ValueError, as do the next two."""
    try:
        seconds = float(text)
    except ValueError:
        raise ValueError("must be a number of seconds") from None
    if not math.isfinite(seconds) or not 0 <= seconds <= LONGEST_S:
        raise ValueError(f"must be from 0 to {LONGEST_S} seconds")
    return round(seconds * SECOND_NS)


def _count(text: str) -> int:
    """A number of pods."""
    if (number := _priority(text)) < 1:
        raise ValueError("must be 1 or more")
    return number


def _priority(text: str) -> int:
    """A pod's priority."""
    if not text.lstrip("+-").isdecimal() or len(text) > 20:
        raise ValueError("must be a whole number")
    if not -(2**31) <= int(text) < 2**31:
        raise ValueError("must fit into 32 bits")
    return int(text)


def _drawn_from(
    arrivals: Sequence[ArrivalT], count: int, over_ns: int, times_of: str, choices_of: str, why_not: str
) -> Iterator[tuple[str, int, ArrivalT]]:
    """As many copies of arrivals of a known length, at the times of a Poisson process of so many over this time.

    Each with a name, its time, and which one it copies.  ``times_of`` and ``choices_of`` are seeds.

    Raises ConfigError, which says ``why_not``: no arrival has a known length.
    """
    known = [each for each in arrivals if each.duration_ns is not None]
    if not known:
        raise ConfigError(why_not)
    times, choices, now_ns = Random(times_of), Random(choices_of), 0.0
    for number in range(1, count + 1):
        now_ns += exponential(times, over_ns / count)
        yield f"drawn-{number}", round(now_ns), known[int(choices.random() * len(known))]


# ---- Kubernetes ----

_NEEDED_OF_POD = ("submit_s",)
_OF_POD = (*_NEEDED_OF_POD, "name", "class", "priority", "duration_s", "grace_s", "count")
_GRACE_NS = 30 * 10**9
"""``terminationGracePeriodSeconds`` of a pod that does not say it."""


def read_pods(path: Path, cluster: Kubernetes) -> tuple[PodArrival, ...]:
    """The pods of a table, in its order.  Raises ConfigError: file, line and column."""
    classes = {each.name: each for each in cluster.classes}
    taken = {each.pod.name for each in (*cluster.state.bound, *cluster.state.waiting)}
    arrivals: list[PodArrival] = []
    for row in _read_rows(path, _NEEDED_OF_POD):
        for each in _pods(row, classes):
            if each.pod.name in taken:
                raise ConfigError(f"{row.where}: column name: another pod has this name")
            taken.add(each.pod.name)
            arrivals.append(each)
    return tuple(arrivals)


def _pods(row: _Row, classes: Mapping[str, PriorityClass]) -> Iterator[PodArrival]:
    pod = Pod(row.value("name", str, f"row-{row.number}"), requests=row.requests(_OF_POD))
    named = row.cells.get("class", "").strip()
    if named and named not in classes:
        raise ConfigError(f"{row.where}: column class: no PriorityClass of this name")
    usual = next((each for each in classes.values() if each.is_default), PriorityClass("", 0))
    pod = classes.get(named, usual).of(pod)
    pod = replace(pod, priority=row.value("priority", _priority, pod.priority))
    pods = row.value("count", _count, 1)
    times = (row.value("submit_s", _seconds_ns, 0), row.value("duration_s", _seconds_ns, None))
    grace_ns = row.value("grace_s", _seconds_ns, _GRACE_NS)
    for number in range(pods):
        named_pod = replace(pod, name=f"{pod.name}-{number}") if pods > 1 else pod
        yield PodArrival(named_pod, *times, grace_ns)


def drawn_pods(cluster: Kubernetes, pods: int, over_ns: int, seed: int) -> tuple[PodArrival, ...]:
    """Copies of pods whose length is known, at random times: a Poisson process of so many over this time.

    Raises ConfigError: no pod of a known length.
    """
    why = "--draw: the files have no pod that ended, so nothing says how long pods run"
    found = _drawn_from(cluster.arrivals, pods, over_ns, f"{seed}:kubernetes-times", f"{seed}:kubernetes-pods", why)
    return tuple(replace(like, pod=replace(like.pod, name=name), submit_ns=at_ns) for name, at_ns, like in found)


# ---- Kueue ----

_NEEDED_OF_WORKLOAD = ("queue", "submit_s")
_OF_WORKLOAD = (*_NEEDED_OF_WORKLOAD, "name", "priority", "duration_s", "count")


def read_workloads(path: Path, cluster: Cluster) -> tuple[Arrival, ...]:
    """The workloads of a table, in the order of their times.  Raises ConfigError: file, line and column."""
    queues = {queue.name for queue in cluster.queues}
    arrivals = [_workload(row, queues) for row in _read_rows(path, _NEEDED_OF_WORKLOAD)]
    names = [arrival.workload.name for arrival in arrivals]
    if len(set(names)) < len(names):
        raise ConfigError(f"{path}: column name: two workloads have one name")
    return tuple(sorted(arrivals, key=lambda each: (each.workload.created_ns, each.workload.name)))


def _workload(row: _Row, queues: set[str]) -> Arrival:
    queue = row.cells["queue"].strip()
    if queue not in queues:
        raise ConfigError(f"{row.where}: column queue: no ClusterQueue of this name")
    podset = PodSet("main", row.value("count", _count, 1), row.requests(_OF_WORKLOAD))
    name = row.value("name", str, f"row-{row.number}")
    rank, created_ns = row.value("priority", _priority, 0), row.value("submit_s", _seconds_ns, 0)
    return Arrival(Workload(name, queue, (podset,), rank, created_ns), row.value("duration_s", _seconds_ns, None))


def drawn_workloads(arrivals: Sequence[Arrival], workloads: int, over_ns: int, seed: int) -> tuple[Arrival, ...]:
    """Copies of workloads whose length is known, at random times: a Poisson process of so many over this time.

    Raises ConfigError: no workload of a known length.
    """
    why = "--draw: no Workload has ended, so nothing says how long they run; give --arrivals too"
    found = _drawn_from(arrivals, workloads, over_ns, f"{seed}:kueue-times", f"{seed}:kueue-workloads", why)
    return tuple(
        replace(like, workload=replace(like.workload, name=name, created_ns=at_ns)) for name, at_ns, like in found
    )

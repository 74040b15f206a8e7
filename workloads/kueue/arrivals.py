"""Arrivals from a table in CSV with named columns, or drawn from other arrivals.

One row is one workload: ``queue`` (a ClusterQueue) and ``submit_s`` are needed; ``name``, ``priority``, ``duration_s``
and ``count`` (pods, 1) may be there.  Each other column is a resource, with what one pod requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from emulator.errors import ConfigError
from emulator.sites.kueue import Arrival, Cluster, PodSet, Workload
from workloads.draws import drawn_from
from workloads.kubernetes.table import Row, count, priority, read_rows, seconds_ns

_NEEDED = ("queue", "submit_s")
_KNOWN = (*_NEEDED, "name", "priority", "duration_s", "count")


def read_arrivals(path: Path, cluster: Cluster) -> tuple[Arrival, ...]:
    """The workloads of a table, in the order of their times.  Raises ConfigError: file, line and column."""
    queues = {queue.name for queue in cluster.queues}
    arrivals = [_arrival(row, queues) for row in read_rows(path, _NEEDED)]
    names = [arrival.workload.name for arrival in arrivals]
    if len(set(names)) < len(names):
        raise ConfigError(f"{path}: column name: two workloads have one name")
    return tuple(sorted(arrivals, key=lambda each: (each.workload.created_ns, each.workload.name)))


def _arrival(row: Row, queues: set[str]) -> Arrival:
    queue = row.cells["queue"].strip()
    if queue not in queues:
        raise ConfigError(f"{row.where}: column queue: no ClusterQueue of this name")
    podset = PodSet("main", row.value("count", count, 1), row.requests(_KNOWN))
    name = row.value("name", str, f"row-{row.number}")
    rank, created_ns = row.value("priority", priority, 0), row.value("submit_s", seconds_ns, 0)
    return Arrival(Workload(name, queue, (podset,), rank, created_ns), row.value("duration_s", seconds_ns, None))


def drawn(arrivals: Sequence[Arrival], workloads: int, over_ns: int, seed: int) -> tuple[Arrival, ...]:
    """Copies of workloads whose length is known, at random times: a Poisson process of so many over this time.

    Raises ConfigError: no workload of a known length.
    """
    known = [each for each in arrivals if each.duration_ns is not None]
    if not known:
        raise ConfigError("--draw: no Workload has ended, so nothing says how long they run; give --arrivals too")
    found = drawn_from(known, workloads, over_ns, f"{seed}:kueue-times", f"{seed}:kueue-workloads")
    return tuple(
        replace(like, workload=replace(like.workload, name=name, created_ns=at_ns)) for name, at_ns, like in found
    )

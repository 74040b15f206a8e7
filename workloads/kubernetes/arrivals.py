"""Pods that arrive on a cluster as it stands: from a table, or drawn from those that ended.

In a table one row is one workload: ``submit_s`` is needed; ``name``, ``class`` (a PriorityClass) or ``priority``,
``duration_s``, ``grace_s`` (30) and ``count`` (pods, 1) may be there.  Each other column is a resource, with what one
pod requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec.structs import replace

from emulator.errors import ConfigError
from emulator.sites.kubernetes import Arrival, Kubernetes, Pod, PriorityClass
from workloads.draws import drawn_from
from workloads.kubernetes.table import Row, count, priority, read_rows, seconds_ns

_NEEDED = ("submit_s",)
_KNOWN = (*_NEEDED, "name", "class", "priority", "duration_s", "grace_s", "count")
_GRACE_NS = 30 * 10**9
"""``terminationGracePeriodSeconds`` of a pod that does not say it."""


def read_arrivals(path: Path, cluster: Kubernetes) -> tuple[Arrival, ...]:
    """The pods of a table, in its order.  Raises ConfigError: file, line and column."""
    classes = {each.name: each for each in cluster.classes}
    taken = {each.pod.name for each in (*cluster.state.bound, *cluster.state.waiting)}
    arrivals: list[Arrival] = []
    for row in read_rows(path, _NEEDED):
        for each in _arrivals(row, classes):
            if each.pod.name in taken:
                raise ConfigError(f"{row.where}: column name: another pod has this name")
            taken.add(each.pod.name)
            arrivals.append(each)
    return tuple(arrivals)


def _arrivals(row: Row, classes: Mapping[str, PriorityClass]) -> Iterator[Arrival]:
    pod = Pod(row.value("name", str, f"row-{row.number}"), requests=row.requests(_KNOWN))
    named = row.cells.get("class", "").strip()
    if named and named not in classes:
        raise ConfigError(f"{row.where}: column class: no PriorityClass of this name")
    usual = next((each for each in classes.values() if each.is_default), PriorityClass("", 0))
    pod = classes.get(named, usual).of(pod)
    pod = replace(pod, priority=row.value("priority", priority, pod.priority))
    pods = row.value("count", count, 1)
    times = (row.value("submit_s", seconds_ns, 0), row.value("duration_s", seconds_ns, None))
    grace_ns = row.value("grace_s", seconds_ns, _GRACE_NS)
    for number in range(pods):
        named_pod = replace(pod, name=f"{pod.name}-{number}") if pods > 1 else pod
        yield Arrival(named_pod, *times, grace_ns)


def drawn(cluster: Kubernetes, pods: int, over_ns: int, seed: int) -> tuple[Arrival, ...]:
    """Copies of pods whose length is known, at random times: a Poisson process of so many over this time.

    Raises ConfigError: no pod of a known length.
    """
    known = [each for each in cluster.arrivals if each.duration_ns is not None]
    if not known:
        raise ConfigError("--draw: the files have no pod that ended, so nothing says how long pods run")
    found = drawn_from(known, pods, over_ns, f"{seed}:kubernetes-times", f"{seed}:kubernetes-pods")
    return tuple(replace(like, pod=replace(like.pod, name=name), submit_ns=at_ns) for name, at_ns, like in found)

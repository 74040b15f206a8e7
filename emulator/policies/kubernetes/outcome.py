"""What a play meant for the pods of each priority."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from emulator.policies.kubernetes.player import Run
from emulator.sites.kubernetes import Arrival
from emulator.vocabulary import HOUR_NS, SECOND_NS, Frozen, mean_s


class PriorityOutcome(Frozen):
    """Of all pods of one priority.  None: no pod was placed."""

    priority: int
    pods: int
    placed: int
    """How many got a node, those included that were on one from the beginning."""
    wait_s: float | None
    """Mean from a pod's creation until it is on a node for the first time, of those that had to be placed."""
    longest_wait_s: float | None
    evictions: int
    lost_pod_h: float
    """Pod-hours of runs that were ended by evictions, and are done again or never."""


def outcomes(arrivals: Iterable[Arrival], runs: Mapping[str, Run]) -> Iterator[PriorityOutcome]:
    """Of each priority, the highest first."""
    by_name = {each.pod.name: each for each in arrivals}
    arrivals_of: dict[int, list[Arrival]] = {}
    for each in by_name.values():
        arrivals_of.setdefault(each.pod.priority, []).append(each)
    runs_of: dict[int, list[Run]] = {}
    for name, run in runs.items():
        arrival = by_name.get(name) or by_name[name.rpartition(".")[0]]
        runs_of.setdefault(arrival.pod.priority, []).append(run)
    for priority in sorted(arrivals_of, reverse=True):
        yield _outcome(priority, arrivals_of[priority], runs, runs_of.get(priority, []))


def _outcome(priority: int, arrivals: list[Arrival], runs: Mapping[str, Run], of: list[Run]) -> PriorityOutcome:
    first = [(each, runs[each.pod.name].start_ns) for each in arrivals]
    waits = [start_ns - each.submit_ns for each, start_ns in first if start_ns is not None and each.node is None]
    return PriorityOutcome(
        priority,
        len(arrivals),
        sum(start_ns is not None for _, start_ns in first),
        mean_s(waits),
        max(waits) / SECOND_NS if waits else None,
        sum(run.by is not None for run in of),
        sum(run.lost_ns for run in of) / HOUR_NS,
    )

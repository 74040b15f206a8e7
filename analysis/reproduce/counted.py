"""What figures count in a recorded trace, or find beside recorded runs, rather than in runs of their own."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import pyarrow.parquet

from analysis.papers import slurm_runs

WITHIN_US = 5_000_000
"""An eviction is a preemption if a task of higher priority is scheduled on the same machine within this time
(adaptive-checkpointing, section 2)."""
_HOUR_US = 3_600_000_000
_BANDS = {
    **dict.fromkeys((0, 1), "free"),
    **dict.fromkeys(range(2, 9), "middle"),
    **dict.fromkeys(range(9, 12), "production"),
}
_CLASSES = tuple(f"class-{number}" for number in range(4))
_ALL = "all"
_REPEATS = {"again": 2, "ten_times": 10}


class _Event(NamedTuple):
    """A SCHEDULE or an EVICT of the slice."""

    time_us: int
    machine: int
    priority: int
    evicted: bool
    scheduling_class: int
    task: int | None
    """The number of the task that was evicted, from 0; None: a SCHEDULE."""
    preempted: bool = False


def google_preemptions() -> dict[int, dict[str, Any]]:
    """What was scheduled in a slice of the Google trace of 2011, and the shares of it that were preempted and evicted:
    for each of its hours, from 1, each band of priorities, each scheduling class (``class-0`` to ``class-3``), and
    ``all`` of them.  ``of_preempted``: the group's share of the preemptions."""
    events = _events()
    counts: Counter[tuple[int, str, str]] = Counter()
    for event in events:
        hour = 1 + (event.time_us - events[0].time_us) // _HOUR_US
        for group in (_BANDS[event.priority], f"class-{event.scheduling_class}", _ALL):
            counts[hour, group, "evicted" if event.evicted else "scheduled"] += 1
            counts[hour, group, "preempted"] += event.preempted
    return {
        hour: {group: _shares(counts, hour, group) for group in (*_BANDS.values(), *_CLASSES, _ALL)}
        for hour in {key[0] for key in counts}
    }


def google_repeats() -> dict[int, dict[str, Any]]:
    """How often one task of the slice was preempted: of those that were, the shares preempted again and ten times."""
    times = Counter(event.task for event in _events() if event.preempted).values()
    return {1: {"tasks": len(times), **{name: fmean(n >= least for n in times) for name, least in _REPEATS.items()}}}


def _events() -> list[_Event]:
    path = Path(str(resources.files("workloads") / "data" / "google-2011-evictions.parquet"))
    columns = pyarrow.parquet.read_table(path).to_pydict()
    names = [name for name in _Event._fields if name != "preempted"]
    events = [_Event(*values) for values in zip(*(columns[name] for name in names), strict=True)]
    starts: dict[int, list[tuple[int, int]]] = {}
    for event in events:
        if not event.evicted:
            starts.setdefault(event.machine, []).append((event.time_us, event.priority))
    return [
        event._replace(preempted=_gave_way(starts.get(event.machine, []), event.time_us, event.priority))
        if event.evicted
        else event
        for event in events
    ]


def _gave_way(starts: list[tuple[int, int]], time_us: int, priority: int) -> bool:
    """Whether more urgent work has begun on the machine right after; ``starts``: time and priority there, in order."""
    first, past = (bisect.bisect_left(starts, (at_us, -1)) for at_us in (time_us, time_us + WITHIN_US + 1))
    return any(other > priority for _, other in starts[first:past])


def _shares(counts: Mapping[tuple[int, str, str], int], hour: int, band: str) -> dict[str, float | None]:
    scheduled = counts[hour, band, "scheduled"]
    shares = {what: counts[hour, band, what] / scheduled if scheduled else None for what in ("preempted", "evicted")}
    preempted = counts[hour, _ALL, "preempted"]
    of_preempted = counts[hour, band, "preempted"] / preempted if preempted else None
    return {"scheduled": scheduled, **shares, "of_preempted": of_preempted}


COUNTED: Mapping[str, Callable[[], Mapping[int, Mapping[str, Any]]]] = {
    "google-preemptions": google_preemptions,
    "google-repeats": google_repeats,
    "slurm-runs": lambda: {1: slurm_runs.summary()},
}
"""By the name that a figure's ``counted`` takes: a summary for each part of the trace."""

"""What figures count in a recorded trace rather than in runs of their own."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import pyarrow.parquet

WITHIN_US = 5_000_000
"""An eviction is a preemption if a task of higher priority is scheduled on the same machine within this time
(adaptive-checkpointing, section 2)."""
_HOUR_US = 3_600_000_000
_BANDS = {
    **dict.fromkeys((0, 1), "free"),
    **dict.fromkeys(range(2, 9), "middle"),
    **dict.fromkeys(range(9, 12), "production"),
}
_ALL = "all"


def google_preemptions() -> dict[int, dict[str, Any]]:
    """What was scheduled in a slice of the Google trace of 2011, and the shares of it that were preempted and evicted:
    for each of its hours, from 1, each band of priorities, and ``all`` of them.  ``of_preempted``: the band's share of
    the preemptions."""
    path = Path(str(resources.files("workloads") / "data" / "google-2011-evictions.parquet"))
    events = pyarrow.parquet.read_table(path).to_pydict()
    rows = list(zip(events["time_us"], events["machine"], events["priority"], events["evicted"], strict=True))
    starts: dict[int, list[tuple[int, int]]] = {}
    for time_us, machine, priority, evicted in rows:
        if not evicted:
            starts.setdefault(machine, []).append((time_us, priority))
    counts: Counter[tuple[int, str, str]] = Counter()
    for time_us, machine, priority, evicted in rows:
        hour = 1 + (time_us - rows[0][0]) // _HOUR_US
        gave_way = evicted and _gave_way(starts.get(machine, []), time_us, priority)
        for band in (_BANDS[priority], _ALL):
            counts[hour, band, "evicted" if evicted else "scheduled"] += 1
            counts[hour, band, "preempted"] += gave_way
    bands = (*_BANDS.values(), _ALL)
    return {hour: {band: _shares(counts, hour, band) for band in bands} for hour in {key[0] for key in counts}}


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


COUNTED: Mapping[str, Callable[[], Mapping[int, Mapping[str, Any]]]] = {"google-preemptions": google_preemptions}
"""By the name that a figure's ``counted`` takes: a summary for each part of the trace."""

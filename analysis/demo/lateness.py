"""How far operations that took longer than published can have moved the ends of a run's jobs.

One operation's delay delays another only if it ended before the other began.  So the delays that add up are those of
operations one after the other, and no end can be later by more than the sum along the worst such chain.  The bound is
one for all jobs of a run, because a job may wait for a container that another job held.  It leaves out that a delay can
change which task is chosen: that moves ends as another seed does.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow.parquet

from emulator.core.settings import OverheadSettings

_COLUMNS = ("operation", "begin_s", "end_s")


def latest_move_s(directory: Path, profile: OverheadSettings) -> float:
    """The bound for the run in ``directory``, in emulated seconds.  Raises OSError."""
    table = pyarrow.parquet.read_table(directory / "operations.parquet", columns=list(_COLUMNS))
    published_s = {
        "schedule": profile.schedule_ns / 1e9,
        "suspend": profile.suspend_ns / 1e9,
        "resume": profile.resume_ns / 1e9,
    }
    return worst_chain_s(zip(*(table[name].to_pylist() for name in _COLUMNS), strict=True), published_s)


def worst_chain_s(operations: Iterable[tuple[str, float, float]], published_s: Mapping[str, float]) -> float:
    """The largest sum of delays of operations of which each began after the one before had ended.

    Args:
        operations: what was done, when it began and when it ended, in emulated seconds.
        published_s: how long each takes; the time above it is its delay.  Others have none.
    """
    late = sorted(
        (end_s, begin_s, end_s - begin_s - published_s[operation])
        for operation, begin_s, end_s in operations
        if operation in published_s and end_s - begin_s > published_s[operation]
    )
    ends_s, worst_s = [end_s for end_s, _, _ in late], [0.0]
    for number, (_, begin_s, delay_s) in enumerate(late):
        before = bisect_right(ends_s, begin_s, hi=number)
        worst_s.append(max(worst_s[-1], worst_s[before] + delay_s))
    return worst_s[-1]

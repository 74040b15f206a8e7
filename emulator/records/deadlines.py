"""How the jobs of a run met their deadlines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from emulator.records.history.rows import JobRow
from emulator.vocabulary import HOUR_NS, mean_s


def deadline_facts(rows: Sequence[JobRow], counted_s: tuple[float, float] | None) -> dict[str, Any]:
    """How many deadlines were missed and by how much, and how early the others were met; emulated seconds.

    ``by_hour`` has the deadlines, and the missed ones, in each hour of emulated time that has any.  A job that did not
    finish has missed its deadline, by an unknown time.

    Args:
        rows: of all jobs; those without a deadline do not count.
        counted_s: only jobs that start or finish between these times count; if a job's start is not known, its
            submission is used.  None: all jobs count.
    """
    counted = [row for row in rows if row.deadline_ns is not None and _is_counted(row, counted_s)]
    margins_ns = [row.margin_ns for row in counted if row.margin_ns is not None]
    beyond_ns = [-margin_ns for margin_ns in margins_ns if margin_ns < 0]
    room_ns = [margin_ns for margin_ns in margins_ns if margin_ns >= 0]
    missed = len(counted) - len(room_ns)
    by_hour: dict[int, list[int]] = {}
    for row in counted:
        cell = by_hour.setdefault((row.deadline_ns or 0) // HOUR_NS, [0, 0])
        cell[0] += 1
        cell[1] += row.margin_ns is None or row.margin_ns < 0
    return {
        "jobs": len(counted),
        "missed": missed,
        "missed_pct": 100 * missed / len(counted) if counted else None,
        "beyond_s": mean_s(beyond_ns),
        "room_s": mean_s(room_ns),
        "by_hour": [{"hour": hour, "deadlines": n, "missed": late} for hour, (n, late) in sorted(by_hour.items())],
    }


def _is_counted(row: JobRow, counted_s: tuple[float, float] | None) -> bool:
    if counted_s is None:
        return True
    begins_ns = row.submit_ns if row.start_ns is None else row.start_ns
    low_s, high_s = counted_s
    return any(at_ns is not None and low_s <= at_ns / 1e9 < high_s for at_ns in (begins_ns, row.finish_ns))

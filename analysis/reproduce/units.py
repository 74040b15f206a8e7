"""Units of cells: what stands beside a figure in every table."""

from __future__ import annotations

import math
from collections.abc import Mapping

from analysis.reproduce.cells import Cell

RATIO, PERCENT, COUNT = "ratio", "%", "count"
_SUFFIXES = {"_s": "s", "_ms": "ms", "_pct": PERCENT, "_fraction": RATIO, "_bytes": "bytes"}
"""What a key of ``summary.json`` ends with."""
_COUNTS = ("n", "kills", "suspensions", "preempted_tasks", "failed", "tasks")
_OF_ONE = ("preempted", "of_preempted", "evicted", "again", "ten_times", "wasted_of_capacity")
"""Shares of one, of what is counted in recorded traces and of a run."""
_NEAR = ("completions", "starts", "by_whom")
"""Shares of the jobs that are near what was recorded (``analysis.papers.slurm_runs``)."""
_SECONDS = ("high", "low", "lost")
"""Means of a partition's jobs there, and the work lost."""
_SCALED: Mapping[tuple[str, float], str] = {
    ("s", 1 / 60): "min",
    ("s", 1 / 3600): "h",
    ("ms", 1e-3): "s",
    (RATIO, 100.0): PERCENT,
    ("bytes", 2.0**-30): "GiB",
}
"""The unit after multiplication by a factor."""


def unit_of(cell: Cell, cells: Mapping[str, Cell]) -> str:
    """The unit of a cell; empty if neither the cell nor the key that it reads says it.

    ``cells``: all of the figure, because a difference of cells has their unit.
    """
    if cell.unit is not None:
        return cell.unit
    if cell.difference is not None:
        return PERCENT if cell.difference.share else "s"
    if cell.ratio is not None:
        return RATIO
    if cell.cell is not None:
        return _scaled(RATIO if cell.over is not None else unit_of(cells[cell.cell], cells), cell.scale)
    if cell.take == "met":
        return COUNT
    path = cell.value or next(iter(cell.values), None) or (cell.level.value if cell.level else "")
    return _scaled(_of_path(path), cell.scale)


def _of_path(path: str) -> str:
    """The unit of a dotted path into ``summary.json``, from the last of its keys that says one."""
    *_, last = keys = path.split(".")
    if last in _COUNTS:
        return COUNT
    if last in (*_OF_ONE, *_NEAR):
        return RATIO
    if last in _SECONDS:
        return "s"
    units = (unit for key in reversed(keys) for suffix, unit in _SUFFIXES.items() if key.endswith(suffix))
    return next(units, "")


def _scaled(unit: str, factor: float) -> str:
    if factor == 1 or not unit:
        return unit
    found = (to for (of, by), to in _SCALED.items() if of == unit and math.isclose(by, factor, rel_tol=1e-3))
    return next(found, unit if unit == COUNT else "")

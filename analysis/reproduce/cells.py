"""Cells: which figure of a variant's summaries, or of several variants over a grid, corresponds to a published one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import product
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from analysis.reproduce.claims import Number
from emulator.files.strict import Strict

ALL = "all"
POINT = "{point}"
"""Placeholder for the name of a point of the grid."""
_BLOCK = "each "


class DifferenceFigure(Strict):
    """Jobs of two variants compared one by one, in runs of the same seed, as in ``natjam compare``; one figure per run.

    Give one of ``share``, ``between``, ``percentile`` and ``nth``.  A job's difference is the variant's value minus the
    other's.  ``share`` is the percentage of jobs whose difference is at most, at least, below or above a number.
    ``between`` is the difference of the jobs' medians or means.
    """

    against: str
    """The other variant."""
    queue: str | None = None
    """Only its jobs."""
    by: Literal["completion_s", "margin_s"] = "completion_s"
    share: dict[Literal["at_most", "at_least", "below", "above"], Number] = Field(default_factory=dict)
    between: Literal["medians", "means"] | None = None
    percentile: Annotated[int, Field(ge=1, le=99)] | None = None
    """The difference that this percentage of the jobs is below."""
    nth: int | None = None
    """The n-th smallest difference, from 1; -1: the largest, -2: the second largest."""

    @model_validator(mode="after")
    def _one_kind(self) -> DifferenceFigure:
        others = [self.between, self.percentile, self.nth]
        if len(self.share) + sum(kind is not None for kind in others) != 1:
            raise ValueError("give one of share, with one bound, between, percentile and nth")
        if self.nth == 0:
            raise ValueError("nth: 1 is the smallest difference, -1 the largest")
        return self


class Ratio(Strict):
    """A figure of one scheduler divided by that of another, in runs of the same seed and so the same workload.

    Runs in which the other's figure is not above 0 are left out.
    """

    of: str
    over: str
    at: Annotated[tuple[str, ...], Field(min_length=1)]
    """Points of the grid."""
    take: Literal["mean", "least", "worst", "peak", "gain", "excess"] = "mean"
    """What to take over all runs and points.  With several points, ``mean`` is the mean at the point where it is
    largest, ``least`` where it is smallest, and ``peak`` is the point with the largest: the number at the end of its
    name.  ``gain`` is 1 minus the mean, ``excess`` the mean minus 1."""
    against: tuple[str, ...] = ()
    """Instead of the ratio: the ratio divided by the least mean ratio of these, where that is largest."""
    value: str | None = None
    """A dotted path into ``summary.json``; null: the grid's."""


class Level(Strict):
    """A figure of one scheduler, or its excess over another's, as the mean over points of the grid, by seed.

    Runs without such a figure, for example because no deadline was missed, are left out.
    """

    of: str
    at: Annotated[tuple[str, ...], Field(min_length=1)]
    value: str
    """A dotted path into ``summary.json``."""
    less: str | None = None
    """The other scheduler, in runs of the same seed and point."""


class Cell(Strict):
    """One measured figure, with one value for each run of a variant.

    The value is one from a run's summary (``value``); or the least, the largest or the count of non-negative ones of
    several (``values``, ``take``); or from the comparison of its jobs with another variant's (``difference``).
    Instead, ``cell`` is the mean of another cell, ``less`` that of one more, divided by that of ``over``, with at least
    one of these two; ``level`` and ``ratio`` are figures over the grid; and ``own`` is what a function of the paper's
    module measures.
    """

    variant: str | None = None
    value: str | None = None
    """A dotted path into ``summary.json``, with jobs by name: ``jobs.research-XL.completion_s``.  ``*`` is the mean of
    all jobs, ``*@queue`` that of a queue's jobs."""
    values: tuple[str, ...] = ()
    take: Literal["least", "most", "met"] | None = None
    scale: Number = 1.0
    difference: DifferenceFigure | None = None
    cell: str | None = None
    less: str | None = None
    over: str | None = None
    ratio: Ratio | None = None
    """Instead: over the grid."""
    level: Level | None = None
    own: bool = False
    """Instead: the figure's function in ``analysis.papers`` measures it."""
    claim: str | None = None
    part: str | None = None
    published: Number | None = None
    """The paper's figure, if it is not a claim."""
    unit: str | None = None
    """Null: that of the key it reads (``analysis.reproduce.cells``)."""
    bar: tuple[str, str] | None = None
    """Where it is drawn: group and series."""

    @model_validator(mode="after")
    def _one_kind(self) -> Cell:
        of_variant = [self.value is not None, bool(self.values), self.difference is not None]
        others = [self.cell is not None, self.ratio is not None, self.level is not None, self.own]
        if sum(of_variant) + sum(others) != 1:
            raise ValueError("give exactly one of value, values, difference, cell, ratio, level, own")
        if any(of_variant) != (self.variant is not None):
            raise ValueError("value, values and difference need a variant; the others have none")
        if bool(self.values) != (self.take is not None) or (self.cell is None) != (self.over is self.less is None):
            raise ValueError("values go with take, cell with over or less")
        return self


def repeated(entries: Mapping[Any, Any], words: Mapping[str, Any]) -> dict[str, Any]:
    """Entries of a definition, each as often as its name says.

    An entry whose name has words in braces stands for one entry for each of their values: ``low-{tier}`` for
    ``low-hdd`` and ``low-ssd``.  The first of ``words`` varies slowest.  Inside the entry ``{tier}`` is the same value,
    and ``{tier.value}`` what ``words`` maps it to; if that is a mapping, ``{tier.key}`` is one of its values.  An entry
    called ``each {tier}`` is a block: its own entries stand in its place, for one value after the other.  A later entry
    of the same name adds to the first.
    """
    found: dict[str, Any] = {}
    for name, entry in entries.items():
        for bound in _bindings(str(name), words):
            filled = _filled(entry, bound)
            is_block = str(name).startswith(_BLOCK) and isinstance(filled, Mapping)
            made = repeated(filled, words) if is_block else {str(_filled(name, bound)): filled}
            for key, more in made.items():
                adds = isinstance(found.get(key), Mapping) and isinstance(more, Mapping)
                found[key] = {**found[key], **more} if adds else more
    return found


def _bindings(name: str, words: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """By placeholder what it stands for, for each combination of the words that a name has; the last word first."""
    used = [word for word in words if f"{{{word}}}" in name or f"{{{word}." in name]
    for values in product(*(words[word] for word in used)):
        bound: dict[str, Any] = {}
        for word, value in reversed([*zip(used, values, strict=True)]):
            bound[f"{{{word}}}"] = value
            if isinstance(words[word], Mapping):
                told = words[word][value]
                fields = told if isinstance(told, Mapping) else {"value": told}
                bound |= {f"{{{word}.{key}}}": field for key, field in fields.items()}
        yield bound


def _filled(entry: Any, bound: Mapping[str, Any]) -> Any:
    """The entry with its placeholders filled; one that is all of a text keeps the type of what it stands for."""
    if isinstance(entry, Mapping):
        return {_filled(key, bound): _filled(value, bound) for key, value in entry.items()}
    if isinstance(entry, list | tuple):
        return tuple(_filled(value, bound) for value in entry)
    for placeholder, value in bound.items():
        if entry == placeholder:
            return _filled(value, {key: other for key, other in bound.items() if key != placeholder})
        if isinstance(entry, str):
            entry = entry.replace(placeholder, str(value))
    return entry


def with_points(cell: Any, points: Iterable[str]) -> Any:
    """The definition of a cell, with the names of points where it has ``all`` or a pattern such as ``low-*``."""
    if not isinstance(cell, Mapping):
        return cell
    found = {key: with_points(value, points) for key, value in cell.items()}
    if isinstance(at := found.get("at"), str):
        found["at"] = tuple(point for point in points if at == ALL or fnmatchcase(point, at))
    return found


def at_points(cell: Cell, points: tuple[str, ...]) -> Cell | None:
    """The cell over its remaining points; None if there are none."""
    for kind in ("ratio", "level"):
        over = getattr(cell, kind)
        if over is not None:
            at = tuple(point for point in over.at if point in points)
            return cell.model_copy(update={kind: over.model_copy(update={"at": at})}) if at else None
    return cell


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

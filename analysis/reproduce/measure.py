"""The cells of a figure, from the summaries of its runs."""

from __future__ import annotations

import math
import operator
import statistics
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy

from analysis.reproduce.cells import Cell, DifferenceFigure, Level, Ratio
from analysis.reproduce.claims import Claim
from analysis.reproduce.definitions import FigureDefinition
from analysis.statistics import mean_interval
from emulator.intervals import Spread

Summaries = Mapping[str, Mapping[int, Mapping[str, Any]]]
"""Summaries of every variant, by seed."""
_NOTHING: Mapping[str, float | None] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Measured:
    """One cell and its result."""

    name: str
    cell: Cell
    by_seed: Mapping[int, float]
    """The value of every run that has one.  For a ratio of means: each run's part in it, with that ratio as mean."""
    mean: float | None
    """None if no run has a value.  For a ratio: the ratio of the means."""
    published: float | None

    @property
    def n(self) -> int:
        return len(self.by_seed)

    @property
    def sd(self) -> float | None:
        """Sample standard deviation; None for fewer than two."""
        return _sd(self.by_seed.values())

    @property
    def interval(self) -> tuple[float, float] | None:
        """Student's 95% interval; None for fewer than two runs, and for what is no mean over runs, as the worst is."""
        if self.mean is None or self.n < 2 or not math.isclose(_mean(self.by_seed) or 0, self.mean, abs_tol=1e-12):
            return None
        return mean_interval(list(self.by_seed.values()))

    @property
    def spread(self) -> Spread | None:
        """The mean with its deviation and interval; None if no run has a value."""
        return None if self.mean is None else Spread(self.n, self.mean, self.sd, *(self.interval or (None, None)))

    @property
    def error(self) -> float | None:
        """Relative error against the published figure; None if there is none, or it is 0."""
        if self.mean is None or not self.published:
            return None
        return self.mean / self.published - 1


def measure(
    figure: FigureDefinition,
    summaries: Summaries,
    claims: Mapping[str, Claim],
    own: Mapping[str, float | None] = _NOTHING,
) -> dict[str, Measured]:
    """Every cell of a figure, in the order of its definition; cells of variants that were not run have no value.

    ``own``: the cells that a function of ``analysis.papers`` measures, by name.
    """
    of_variants = {name: cell for name, cell in figure.cells.items() if cell.variant is not None}
    found = {name: _of_variant(cell, summaries) for name, cell in of_variants.items()}
    found |= {
        name: level_by_seed(figure, cell.level, summaries)
        for name, cell in figure.cells.items()
        if cell.level is not None
    }
    measured = {}
    for name, cell in figure.cells.items():
        if cell.cell is not None:
            by_seed, mean = _of_cells(cell, found)
        elif cell.ratio is not None:
            by_seed, mean = _of_ratio(figure, cell.ratio, summaries)
        elif cell.own:
            by_seed, mean = {}, own.get(name)
        else:
            by_seed, mean = found[name], _mean(found[name])
        claim = claims.get(cell.claim or "")
        published = cell.published if claim is None else claim.published_of(cell.part)
        measured[name] = Measured(name, cell, by_seed, mean, published)
    return measured


def _of_cells(cell: Cell, found: Mapping[str, Mapping[int, float]]) -> tuple[dict[int, float], float | None]:
    """A figure of other cells: by seed, and of their means."""
    above = dict(found[cell.cell or ""])
    if cell.less is not None:
        less = found[cell.less]
        above = {seed: above[seed] - less[seed] for seed in above if seed in less}
    above = {seed: value * cell.scale for seed, value in above.items()}
    if cell.over is None:
        return above, _mean(above)
    below = found[cell.over]
    mean = _ratio(_mean(above), _mean(below))
    return _parts_of_ratio(above, below, mean), mean


def ratios(
    figure: FigureDefinition, of: str, over: str, point: str, summaries: Summaries, value: str | None = None
) -> dict[int, float]:
    """Ratios by seed at one point of the grid, without divisors of 0 or less; ``value``: a path; None: the grid's."""
    assert figure.grid is not None
    read = _path(value or figure.grid.value(point))
    above, below = (_of_runs(summaries.get(figure.at(name, point), {}), read) for name in (of, over))
    return {seed: above[seed] / below[seed] for seed in above if below.get(seed, 0) > 0}


def values_of(summaries: Summaries, variant: str, path: str) -> list[float]:
    """A dotted path of the summaries of a variant, of all runs that have it."""
    return list(_of_runs(summaries.get(variant, {}), _path(path)).values())


def level_by_seed(figure: FigureDefinition, level: Level, summaries: Summaries) -> dict[int, float]:
    """By seed, the mean over the points."""
    read, found = _path(level.value), dict[int, list[float]]()
    for point in level.at:
        values = _of_runs(summaries.get(figure.at(level.of, point), {}), read)
        if level.less is not None:
            others = _of_runs(summaries.get(figure.at(level.less, point), {}), read)
            values = {seed: values[seed] - others[seed] for seed in values if seed in others}
        for seed, value in values.items():
            found.setdefault(seed, []).append(value)
    return {seed: statistics.fmean(values) for seed, values in found.items()}


def _of_ratio(figure: FigureDefinition, ratio: Ratio, summaries: Summaries) -> tuple[dict[int, float], float | None]:
    """The ratios by seed where their mean is largest (of the worst: each seed's worst), and the figure."""
    value = ratio.value
    found = {point: ratios(figure, ratio.of, ratio.over, point, summaries, value) for point in ratio.at}
    seeds = {seed for by_seed in found.values() for seed in by_seed}
    worst = {seed: max(by_seed[seed] for by_seed in found.values() if seed in by_seed) for seed in sorted(seeds)}
    if ratio.take == "worst":
        return worst, max(worst.values(), default=None)
    means: dict[str, float | None] = {}
    for point, by_seed in found.items():
        others = [_mean(ratios(figure, name, ratio.over, point, summaries, value)) for name in ratio.against]
        least = min((other for other in others if other is not None), default=None) if ratio.against else 1.0
        means[point] = _ratio(_mean(by_seed), least)
    known = {point: mean for point, mean in means.items() if mean is not None}
    if not known:
        return {}, None
    at = max(known, key=lambda point: known[point])
    if ratio.take == "gain":
        return {seed: 1 - value for seed, value in found[at].items()}, 1 - known[at]
    if ratio.take == "excess":
        return {seed: value - 1 for seed, value in found[at].items()}, known[at] - 1
    if ratio.take == "least":
        at = min(known, key=lambda point: known[point])
    if ratio.take == "peak":
        return {}, float(at.rpartition("-")[2])
    return found[at], known[at]


def _of_variant(cell: Cell, summaries: Summaries) -> dict[int, float]:
    """The value of every run of the cell's variant that has one."""
    runs = summaries.get(cell.variant or "", {})
    if cell.difference is None:
        return _of_runs(runs, _reader(cell))
    others = summaries.get(cell.difference.against, {})
    pairs = {seed: job_pairs(runs[seed], others[seed], cell.difference) for seed in runs if seed in others}
    return {seed: _compared(cell.difference, found) for seed, found in pairs.items() if found}


def job_pairs(
    summary: Mapping[str, Any], other: Mapping[str, Any], difference: DifferenceFigure
) -> list[tuple[str, float, float]]:
    """For each job that succeeded in both runs: its queue, and its values in this run and in the other."""
    theirs = {job["name"]: job[difference.by] for job in other["jobs"] if job["state"] == "succeeded"}
    return [
        (job["queue"], job[difference.by], theirs[job["name"]])
        for job in summary["jobs"]
        if job["state"] == "succeeded"
        and difference.queue in (None, job["queue"])
        and job[difference.by] is not None
        and theirs.get(job["name"]) is not None
    ]


def _compared(difference: DifferenceFigure, pairs: list[tuple[str, float, float]]) -> float:
    if difference.between is not None:
        middle = statistics.median if difference.between == "medians" else statistics.fmean
        return abs(middle(mine for _, mine, _ in pairs) - middle(theirs for _, _, theirs in pairs))
    apart = sorted(mine - theirs for _, mine, theirs in pairs)
    if difference.percentile is not None:
        return float(numpy.percentile(apart, difference.percentile))
    if difference.nth is not None:  # of fewer jobs: the last that there is
        first = min(difference.nth, len(apart)) - 1 if difference.nth > 0 else max(difference.nth, -len(apart))
        return apart[first]
    ((bound, limit),) = difference.share.items()
    holds = _HOLDS[bound]
    return 100 * sum(holds(value, limit) for value in apart) / len(apart)


_HOLDS = {"at_most": operator.le, "at_least": operator.ge, "below": operator.lt, "above": operator.gt}
_Read = Callable[[Mapping[str, Any]], float | None]


def _reader(cell: Cell) -> _Read:
    if cell.value is not None:
        read = _path(cell.value)
        return lambda summary: None if (value := read(summary)) is None else value * cell.scale
    reads = [_path(path) for path in cell.values]

    def several(summary: Mapping[str, Any]) -> float | None:
        values = [read(summary) for read in reads]
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            return None
        if cell.take == "met":
            return float(sum(value >= 0 for value in known))
        return (min(known) if cell.take == "least" else max(known)) * cell.scale

    return several


def _path(path: str) -> _Read:
    """Reads a dotted path of a summary; None if there is no value.  ``jobs.*.completion_s`` is the mean of all jobs,
    ``jobs.*@production.completion_s`` that of a queue's jobs."""
    listed, star, rest = path.partition(".*")
    if star:
        queue, _, of_each = rest.partition(".")
        read_list, read_one = _found(listed), _path(of_each)

        def read_mean(summary: Mapping[str, Any]) -> float | None:
            entries = [entry for entry in read_list(summary) or () if not queue or entry["queue"] == queue[1:]]
            values = [read_one(entry) for entry in entries]
            known = [value for value in values if value is not None]
            return statistics.fmean(known) if known and len(known) == len(values) else None

        return read_mean
    read = _found(path)

    def read_number(summary: Mapping[str, Any]) -> float | None:
        found = read(summary)
        return float(found) if isinstance(found, int | float) else None

    return read_number


def _found(path: str) -> Callable[[Mapping[str, Any]], Any]:
    def read(summary: Mapping[str, Any]) -> Any:
        found: Any = summary
        for key in path.split("."):
            if isinstance(found, list):  # the jobs
                found = next((entry for entry in found if entry.get("name") == key), None)
            else:
                found = found.get(key) if isinstance(found, Mapping) else None
        return found

    return read


def _of_runs(runs: Mapping[int, Mapping[str, Any]], read: _Read) -> dict[int, float]:
    values = {seed: read(summary) for seed, summary in runs.items()}
    return {seed: value for seed, value in values.items() if value is not None}


def _mean(by_seed: Mapping[int, float]) -> float | None:
    return statistics.fmean(by_seed.values()) if by_seed else None


def _parts_of_ratio(above: Mapping[int, float], below: Mapping[int, float], ratio: float | None) -> dict[int, float]:
    """The ratio of two means, linear in each run's share of it: its mean is the ratio, its deviation that of the ratio
    (the delta method)."""
    seeds, mean = [seed for seed in above if seed in below], _mean(below)
    if ratio is None or not mean:
        return {}
    if len(seeds) < len(above) or len(seeds) < len(below):  # not paired: the ratio of each pair that there is
        return {seed: above[seed] / below[seed] for seed in seeds if below[seed]}
    return {seed: ratio + (above[seed] - ratio * below[seed]) / mean for seed in seeds}


def _ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None


def _sd(values: Collection[float]) -> float | None:
    return statistics.stdev(values) if len(values) > 1 else None

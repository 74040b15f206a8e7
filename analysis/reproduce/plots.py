"""Figures in the paper's form, with published values beside ours: bars, weeks of bars, and curves."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.reproduce.cells import POINT, Level
from analysis.reproduce.claims import all_claims
from analysis.reproduce.definitions import Scaled
from analysis.reproduce.measure import Measured, level_by_seed
from analysis.reproduce.reproduced import Reproduced

_BARS_WIDTH = 0.8
_GROUP_INCHES = 1.25
_SERIES_COLOURS = (style.BLUE, style.ORANGE, style.GREEN, style.VERMILLION)


def _bars(figure: Reproduced) -> Figure:
    """One group of bars for each case, with whiskers of one standard deviation, and diamonds at the paper's values."""
    look = figure.definition.look
    drawn = [(cell, *cell.cell.bar) for cell in figure.cells.values() if cell.cell.bar is not None]
    groups = list(dict.fromkeys(group for _, group, _ in drawn))
    series = list(dict.fromkeys(name for _, _, name in drawn))
    drawing, (panel,) = style.new_figure(width=max(4.5, _GROUP_INCHES * len(groups) + 1), height=3.8)
    width = _BARS_WIDTH / len(series)
    for index, name in enumerate(series):
        cells = [(groups.index(group), cell) for cell, group, mine in drawn if mine == name]
        x = [place + (index - (len(series) - 1) / 2) * width for place, _ in cells]
        panel.bar(
            x,
            [cell.mean or 0 for _, cell in cells],
            width * 0.94,
            yerr=[cell.sd or numpy.nan for _, cell in cells],
            label=f"{name}, {figure.source}",
            color=_SERIES_COLOURS[index % len(_SERIES_COLOURS)],
            hatch=style.HATCHES[index % len(style.HATCHES)],
            edgecolor="white",
            error_kw={"linewidth": 1, "capsize": 2},
        )
        _diamonds(panel, x, [cell for _, cell in cells])
    if look.log:
        panel.set_yscale("log")
    panel.set_xticks(range(len(groups)), [group.replace(", ", "\n") for group in groups])
    panel.grid(axis="x", visible=False)
    style.finish(panel, look.x, look.y, figure.definition.title, legend=False)
    style.legend_below(drawing)
    return drawing


def _diamonds(panel: Axes, x: list[float], cells: list[Measured]) -> None:
    """Mark the paper's values; not for a claim that only sets a bound, because it is about something else."""
    claims = all_claims()
    known = [
        (place, cell.published)
        for place, cell in zip(x, cells, strict=True)
        if cell.published is not None
        and (cell.cell.claim is None or claims[cell.cell.claim].accepts_distance(cell.cell.part))
    ]
    if known:
        places, values = zip(*known, strict=True)
        label = "published" if "published" not in panel.get_legend_handles_labels()[1] else None
        panel.plot(places, values, "D", color="white", markeredgecolor=style.BLACK, markersize=6, label=label)


_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_COLOURS = (style.VERMILLION, style.ORANGE, style.BLUE, style.GREEN, style.PURPLE, style.SKY)
_WIDTH = 0.8


def draw_lines(figure: Reproduced, panel: Axes, lines: dict[str, str], first: int = 0) -> None:
    """Lines over the number at the end of the points' names: by label, the cell at each point."""
    for index, (label, name) in enumerate(lines.items(), start=first):
        known = {place[-1]: mean for place, mean in cell_means(figure, name).items() if mean is not None}
        panel.plot(list(known), list(known.values()), label=label, marker="o", markersize=3, **style.line(index))
    panel.set_ylim(bottom=min(0.0, panel.get_ylim()[0]))


def cell_means(figure: Reproduced, name: str) -> dict[tuple[float, ...], float | None]:
    """The means of a cell at each point, by the numbers in the point's name."""
    grid = figure.definition.grid
    assert grid is not None
    places = {point: tuple(map(float, _NUMBER.findall(point))) for point in grid.points}
    return {place: figure.cells[name.replace(POINT, point)].mean for point, place in places.items()}


def curve_panels(figure: Reproduced) -> Figure:
    """One panel for each quantity, one line for each variant, over the number at the end of the points' names."""
    look, grid = figure.definition.look, figure.definition.grid
    assert grid is not None
    drawing, panels = style.new_figure(columns=len(look.rows), width=3.8)
    for panel, (label, shown) in zip(panels, look.rows.items(), strict=True):
        for index, (name, variant) in enumerate(look.lines.items()):
            x, y = [], []
            for point in grid.points:
                if values := _values(figure, variant, point, shown):
                    x.append(float(point.rpartition("-")[2]))
                    y.append(sum(values) / len(values))
            panel.plot(x, y, label=name, **style.line(index))
        if look.log:
            panel.set_xscale("log")
        style.finish(panel, look.x, label, legend=panel is panels[0])
    return drawing


def week_panels(figure: Reproduced) -> Figure:
    """Rows of panels are metrics, columns groups of points, groups of bars loads; whiskers are one deviation."""
    look, grid = figure.definition.look, figure.definition.grid
    assert grid is not None
    columns = list(dict.fromkeys(point.rpartition("-")[0] for point in grid.points))
    drawing, panels = style.new_figure(rows=len(look.rows), columns=len(columns), width=3.6, height=2.6)
    for row, (label, shown) in enumerate(look.rows.items()):
        highest = 0.0
        for column, group in enumerate(columns):
            panel = panels[row * len(columns) + column]
            points = [point for point in grid.points if point.rpartition("-")[0] == group]
            highest = max(highest, _draw_week(panel, figure, points, shown, row == 0))
            panel.set_xticks(range(len(points)), [point.rpartition("-")[2] for point in points])
            panel.grid(axis="x", visible=False)
            x_label = look.x if row == len(look.rows) - 1 else ""
            style.finish(panel, x_label, label if column == 0 else "", group if row == 0 else "", legend=False)
        for panel in panels[row * len(columns) : (row + 1) * len(columns)]:
            panel.set_ylim(0, highest * 1.05 or 1)
    style.legend_below(drawing, panels[0])
    return drawing


def _draw_week(panel: Axes, figure: Reproduced, points: list[str], shown: Scaled, is_first: bool) -> float:
    """Draw the bars of one panel.  Returns their greatest height."""
    look, top = figure.definition.look, 0.0
    width, last = _WIDTH / len(look.lines), len(look.lines) - 1
    for place, (label, of) in enumerate(look.lines.items()):
        x = [index + (place - last / 2) * width for index in range(len(points))]
        means, deviations = _levels(figure, of, points, shown)
        top = max(top, *(mean + deviation for mean, deviation in zip(means, deviations, strict=True)))
        panel.bar(
            x, means, width * 0.94, yerr=deviations, label=label, color=_COLOURS[place % len(_COLOURS)],
            hatch=style.HATCHES[place % len(style.HATCHES)], edgecolor="white",
            error_kw={"linewidth": 0.8, "capsize": 1.5},
        )  # fmt: skip
    if is_first and look.least is not None:
        least, _ = _levels(figure, look.least, points, shown)
        panel.hlines(
            least, [at + (last - 1) / 2 * width for at in range(len(points))],
            [at + (last + 1) / 2 * width for at in range(len(points))], colors=style.BLACK, linewidth=2,
            label=look.least,
        )  # fmt: skip
    return top


def _levels(figure: Reproduced, of: str, points: list[str], shown: Scaled) -> tuple[list[float], list[float]]:
    """Mean and deviation over the seeds at each point; 0 if there is no figure."""
    found = [_values(figure, of, point, shown) for point in points]
    means = [float(numpy.mean(values)) if values else 0.0 for values in found]
    return means, [float(numpy.std(values, ddof=1)) if len(values) > 1 else 0.0 for values in found]


def _values(figure: Reproduced, of: str, point: str, shown: Scaled) -> list[float]:
    """What is shown of a variant's runs at a point, by seed."""
    level = Level(of=of, at=(point,), value=shown.value)
    return [value / shown.over for value in level_by_seed(figure.definition, level, figure.summaries).values()]


FORMS: dict[str, Callable[[Reproduced], Figure]] = {
    "bars": _bars,
    "weeks": week_panels,
    "curves": curve_panels,
}

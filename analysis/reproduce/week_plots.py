"""Figures of metrics by load, over the groups of points of a grid."""

from __future__ import annotations

import numpy
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.reproduce.definitions import Level, Scaled
from analysis.reproduce.measure import level_by_seed
from analysis.reproduce.reproduced import Reproduced

_COLOURS = (style.VERMILLION, style.ORANGE, style.BLUE, style.GREEN, style.PURPLE, style.SKY)
_WIDTH = 0.8


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
    found = [
        list(level_by_seed(figure.definition, Level(of=of, at=(point,), value=shown.value), figure.summaries).values())
        for point in points
    ]
    means = [float(numpy.mean(values)) / shown.over if values else 0.0 for values in found]
    return means, [float(numpy.std(values, ddof=1)) / shown.over if len(values) > 1 else 0.0 for values in found]

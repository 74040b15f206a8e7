"""Figures from cells at the points of a grid: lines, and maps of the best variant at each point."""

from __future__ import annotations

import re

import numpy
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.reproduce.definitions import POINT
from analysis.reproduce.run import Reproduced

_COLOURS = (style.BLUE, style.ORANGE, style.GREEN, style.VERMILLION)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def cell_lines(figure: Reproduced) -> Figure:
    """Lines over the number at the end of the points' names; the lines of ``beside`` have a separate axis."""
    look = figure.definition.plot
    drawing, (panel,) = style.new_figure(width=6)
    _draw_lines(figure, panel, look.lines, 0)
    style.finish(panel, look.x, look.y, figure.definition.title)
    if look.beside:
        other = panel.twinx()
        _draw_lines(figure, other, look.beside, len(look.lines))
        style.finish(other, look.x, f"{', '.join(look.beside)}, dashes and dots", legend=False)
    return drawing


def _draw_lines(figure: Reproduced, panel: Axes, lines: dict[str, str], first: int) -> None:
    for index, (label, name) in enumerate(lines.items(), start=first):
        known = {place[-1]: mean for place, mean in _means(figure, name).items() if mean is not None}
        panel.plot(list(known), list(known.values()), label=label, marker="o", markersize=3, **style.line(index))
    panel.set_ylim(bottom=min(0.0, panel.get_ylim()[0]))


def cell_map(figure: Reproduced) -> Figure:
    """One field for each point of the grid, with the least figure, in the colour of the line that has it."""
    look = figure.definition.plot
    means = [_means(figure, name) for name in look.lines.values()]
    along, down = (sorted({place[axis] for place in means[0]}) for axis in (0, 1))
    best = numpy.full((len(down), len(along)), numpy.nan)
    drawing, (panel,) = style.new_figure(width=max(5.0, 0.8 * len(along) + 2), height=3.8)
    for place in means[0]:
        known = [(mean, index) for index, of_line in enumerate(means) if (mean := of_line[place]) is not None]
        if known:
            mean, index = min(known)
            column, row = along.index(place[0]), down.index(place[1])
            best[row, column] = index
            panel.text(column, row, f"{mean:.0f}", ha="center", va="center", fontsize=style.FONT_POINTS - 1)
    colours = ListedColormap(list(_COLOURS[: len(means)]))
    panel.imshow(best, cmap=colours, vmin=-0.5, vmax=len(means) - 0.5, aspect="auto", origin="lower", alpha=0.6)
    panel.set_xticks(range(len(along)), [f"{value:g}" for value in along])
    panel.set_yticks(range(len(down)), [f"{value:g}" for value in down])
    panel.grid(visible=False)
    for index, label in enumerate(look.lines):
        panel.plot([], [], "s", color=_COLOURS[index], alpha=0.6, label=label)
    style.finish(panel, look.x, look.down or "", f"{figure.definition.title}: {look.y}", legend=False)
    style.legend_below(drawing)
    return drawing


def _means(figure: Reproduced, name: str) -> dict[tuple[float, ...], float | None]:
    """The means of a cell at each point, by the numbers in the point's name."""
    grid = figure.definition.grid
    assert grid is not None
    places = {point: tuple(map(float, _NUMBER.findall(point))) for point in grid.points}
    return {place: figure.cells[name.replace(POINT, point)].mean for point, place in places.items()}

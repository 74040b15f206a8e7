"""Figures from cells at the points of a grid."""

from __future__ import annotations

import re

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.reproduce.definitions import POINT
from analysis.reproduce.reproduced import Reproduced

_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def cell_lines(figure: Reproduced) -> Figure:
    """Lines over the number at the end of the points' names; the lines of ``beside`` have a separate axis."""
    look = figure.definition.look
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
        known = {place[-1]: mean for place, mean in cell_means(figure, name).items() if mean is not None}
        panel.plot(list(known), list(known.values()), label=label, marker="o", markersize=3, **style.line(index))
    panel.set_ylim(bottom=min(0.0, panel.get_ylim()[0]))


def cell_means(figure: Reproduced, name: str) -> dict[tuple[float, ...], float | None]:
    """The means of a cell at each point, by the numbers in the point's name."""
    grid = figure.definition.grid
    assert grid is not None
    places = {point: tuple(map(float, _NUMBER.findall(point))) for point in grid.points}
    return {place: figure.cells[name.replace(POINT, point)].mean for point, place in places.items()}

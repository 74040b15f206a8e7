"""Figures in the paper's form, with published values beside ours."""

from __future__ import annotations

from collections.abc import Callable

import numpy
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.papers.drawings import DRAWINGS
from analysis.reproduce.claims import all_claims
from analysis.reproduce.grid_plots import curve_panels, week_panels
from analysis.reproduce.measure import Measured
from analysis.reproduce.reproduced import Reproduced, Reproduction

_BARS_WIDTH = 0.8
_GROUP_INCHES = 1.25
_SERIES_COLOURS = (style.BLUE, style.ORANGE, style.GREEN, style.VERMILLION)


def plot(figure: Reproduced, reproduction: Reproduction) -> Figure:
    """The figure, by the function of its paper's module, or of the form in the definition's ``plot``."""
    if figure.definition.plot is None:
        return DRAWINGS[figure.definition.id](figure, reproduction)
    return _FORMS[figure.definition.plot.form](figure)


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


_FORMS: dict[str, Callable[[Reproduced], Figure]] = {
    "bars": _bars,
    "weeks": week_panels,
    "curves": curve_panels,
}

"""Figures about OS-assisted preemption."""

from __future__ import annotations

import numpy
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.reproduce.cells import POINT
from analysis.reproduce.grid_plots import cell_means, draw_lines
from analysis.reproduce.reproduced import Reproduced, Reproduction

_COLOURS = {"wait": style.BLUE, "kill": style.ORANGE, "suspend": style.GREEN, "checkpoint": style.VERMILLION}


def overheads(figure: Reproduced, _: Reproduction) -> Figure:
    """Fig. 4: what suspension costs over the memory of high, and beside it what was swapped."""
    drawing, (panel,) = style.new_figure(width=6)
    shares = {"sojourn over kill's": "sojourn {point}", "makespan over wait's": "makespan {point}"}
    draw_lines(figure, panel, shares)
    style.finish(panel, "Memory of high (MB)", "Overhead, as a share", figure.definition.title)
    swapped = panel.twinx()
    draw_lines(figure, swapped, {"Swapped (GB)": "swapped GB {point}"}, first=len(shares))
    style.finish(swapped, "Memory of high (MB)", "Swapped (GB), dashes and dots", legend=False)
    return drawing


def mechanisms(figure: Reproduced, _: Reproduction) -> Figure:
    """One field for each point of the grid: the least mean completion, in the colour of the mechanism that has it."""
    means = [cell_means(figure, f"{mechanism} {POINT}") for mechanism in _COLOURS]
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
    colours = ListedColormap(list(_COLOURS.values()))
    panel.imshow(best, cmap=colours, vmin=-0.5, vmax=len(means) - 0.5, aspect="auto", origin="lower", alpha=0.6)
    panel.set_xticks(range(len(along)), [f"{value:g}" for value in along])
    panel.set_yticks(range(len(down)), [f"{value:g}" for value in down])
    panel.grid(visible=False)
    for mechanism, colour in _COLOURS.items():
        panel.plot([], [], "s", color=colour, alpha=0.6, label=mechanism)
    title = f"{figure.definition.title}: mean completion (s) of the best mechanism"
    style.finish(panel, "Progress of low when high arrives (%)", "Memory of each task (MB)", title, legend=False)
    style.legend_below(drawing)
    return drawing

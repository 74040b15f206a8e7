"""Figures of quantities against a number that varies."""

from __future__ import annotations

from matplotlib.figure import Figure

from analysis.figures import style
from analysis.reproduce.definitions import Level
from analysis.reproduce.measure import level_by_seed
from analysis.reproduce.reproduced import Reproduced


def curve_panels(figure: Reproduced) -> Figure:
    """One panel for each quantity, one line for each variant, over the number at the end of the points' names."""
    look, grid = figure.definition.look, figure.definition.grid
    assert grid is not None
    drawing, panels = style.new_figure(columns=len(look.rows), width=3.8)
    for panel, (label, shown) in zip(panels, look.rows.items(), strict=True):
        for index, (name, variant) in enumerate(look.lines.items()):
            x, y = [], []
            for point in grid.points:
                level = Level(of=variant, at=(point,), value=shown.value)
                values = level_by_seed(figure.definition, level, figure.summaries).values()
                if values:
                    x.append(float(point.rpartition("-")[2]))
                    y.append(sum(values) / len(values) / shown.over)
            panel.plot(x, y, label=name, **style.line(index))
        if look.log:
            panel.set_xscale("log")
        style.finish(panel, look.x, label, legend=panel is panels[0])
    return drawing

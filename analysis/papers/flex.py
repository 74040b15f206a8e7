"""Figures of FLEX's paper."""

from __future__ import annotations

from matplotlib.figure import Figure

from analysis.figures import style
from analysis.figures.shares import draw_packing
from analysis.papers.variant_panels import variant_panels
from analysis.reproduce.measure import ratios
from analysis.reproduce.reproduced import Reproduced, Reproduction


def fig4(figure: Reproduced, _: Reproduction) -> Figure:
    """What each job holds over time, under each variant."""
    return variant_panels(
        figure,
        lambda panel, run: draw_packing(panel, run["shares"], [job["name"] for job in run["jobs"]]),
        "Containers",
        "Time (s)",
    )


_ALLOCATIONS = {"FIFO": ("fifo", style.BLUE), "FAIR": ("fair", style.ORANGE), "FLEX": ("flex", style.GREEN)}
_VARIED = {"flex/fig5a": "Slack (%)", "flex/fig5b": "Small jobs (%)"}
_HIGHEST, _WIDTH = 6.0, 0.8 / len(_ALLOCATIONS)


def over_the_best(figure: Reproduced, _: Reproduction) -> Figure:
    """Fig. 5: at each point the mean ratio over all runs, and the worst run's, paler, behind it.  Bars are cut off at
    the height of the figure, with their values beside them."""
    grid = figure.definition.grid
    assert grid is not None
    over = next(cell.cell.ratio.over for cell in figure.cells.values() if cell.cell.ratio is not None)
    drawing, (panel,) = style.new_figure(width=max(6, 0.75 * len(grid.points) + 1), height=3.8)
    for index, (label, (of, colour)) in enumerate(_ALLOCATIONS.items()):
        for place, point in enumerate(grid.points):
            if found := ratios(figure.definition, of, over, point, figure.summaries).values():
                x, worst = place + (index - 1) * _WIDTH, max(found)
                panel.bar(x, worst, _WIDTH * 0.94, color=colour, alpha=0.35)
                panel.bar(x, sum(found) / len(found), _WIDTH * 0.94, color=colour, label=None if place else label)
                if worst > _HIGHEST:
                    panel.set_ylim(0, _HIGHEST)
                    panel.text(x, _HIGHEST, f"{worst:.3g}", rotation=90, va="top", fontsize=style.FONT_POINTS - 2)
    panel.axhline(1, color=style.GREY, linewidth=0.8)
    panel.set_xticks(range(len(grid.points)), [point.replace("-", "\n") for point in grid.points])
    panel.grid(axis="x", visible=False)
    title = f"{figure.definition.title} (pale: the worst run)"
    y_label = "Ratio to FLEX" if over == "flex" else "Ratio to the optimum"
    style.finish(panel, _VARIED.get(figure.definition.id, ""), y_label, title)
    return drawing

"""Which jobs hold the cluster over time, beside a transactional workload (reverse-adaptive, Figs 1 to 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures import style

_COLOURS = (style.BLUE, style.ORANGE, style.GREEN, style.PURPLE, style.SKY, style.VERMILLION)
MOST_JOBS = 20
"""Most jobs with an area each; more jobs share one area."""


def holders(steps: Sequence[Mapping[str, Any]], jobs: Sequence[Mapping[str, Any]]) -> Figure:
    """The figure of one run; see ``draw_holders``."""
    drawing, (panel,) = style.new_figure(width=7)
    draw_holders(panel, steps, jobs)
    style.finish(panel, "time, h", "containers", legend=False)
    drawing.legend(fontsize=style.FONT_POINTS - 1, frameon=False, loc="outside lower center", ncols=4)
    return drawing


def draw_holders(panel: Axes, steps: Sequence[Mapping[str, Any]], jobs: Sequence[Mapping[str, Any]]) -> None:
    """One area for each job, stacked; a thick line for the available containers; vertical lines for deadlines.

    Args:
        panel: where to draw.
        steps: ``start_s``, ``end_s``, ``available`` and ``containers`` by job.
        jobs: ``name`` and ``deadline_s`` of each, the lowest first.
    """
    names = [job["name"] for job in jobs]
    edges_h = [value / 3600 for step in steps for value in (step["start_s"], step["end_s"])]
    held = {name: [float(step["containers"].get(name, 0)) for step in steps for _ in range(2)] for name in names}
    if len(names) > MOST_JOBS:
        held = {"all jobs": [sum(column) for column in zip(*held.values(), strict=True)]}
    colours = [_COLOURS[place % len(_COLOURS)] for place in range(len(held))]
    areas = panel.stackplot(edges_h, *held.values(), labels=list(held), colors=colours, alpha=0.8, linewidth=0)
    for place, area in enumerate(areas):
        area.set_hatch(style.HATCHES[place % len(style.HATCHES)])
        area.set_edgecolor("white")
    line = [step["available"] for step in steps for _ in range(2)]
    panel.plot(edges_h, line, color=style.BLACK, linewidth=2, label="available, f(t)")
    if len(names) <= MOST_JOBS:
        for job, colour in zip(jobs, colours, strict=False):
            if job["deadline_s"] is not None:
                panel.axvline(job["deadline_s"] / 3600, color=colour, linestyle="--", linewidth=1.2)
    panel.set_ylim(0, max(line, default=1) * 1.05)

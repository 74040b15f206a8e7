"""Figures of FLEX's paper."""

from __future__ import annotations

from matplotlib.figure import Figure

from analysis.figures import style
from analysis.figures.packing import draw_packing
from analysis.reproduce.reproduced import Reproduced, Reproduction


def fig4(figure: Reproduced, _: Reproduction) -> Figure:
    """One panel for each variant: what each job holds over time, in the variant's first run."""
    variants = [name for name in figure.definition.variants if figure.summaries.get(name)]
    drawing, panels = style.new_figure(columns=max(1, len(variants)), width=4.6)
    for variant, panel in zip(variants, panels, strict=False):
        summary = next(iter(figure.summaries[variant].values()))
        draw_packing(panel, summary["shares"], [job["name"] for job in summary["jobs"]])
        style.finish(panel, "Containers", "Time (s)", variant, legend=False)
    style.legend_below(drawing, panels[0])
    return drawing

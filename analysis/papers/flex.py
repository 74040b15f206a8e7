"""Figures of FLEX's paper."""

from __future__ import annotations

from matplotlib.figure import Figure

from analysis.figures.packing import draw_packing
from analysis.papers.variant_panels import variant_panels
from analysis.reproduce.reproduced import Reproduced, Reproduction


def fig4(figure: Reproduced, _: Reproduction) -> Figure:
    """What each job holds over time, under each variant."""
    return variant_panels(
        figure,
        lambda panel, run: draw_packing(panel, run["shares"], [job["name"] for job in run["jobs"]]),
        "Containers",
        "Time (s)",
    )

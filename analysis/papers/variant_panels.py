"""Figures with one panel for each variant, from its first run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.reproduce.reproduced import Reproduced


def variant_panels(figure: Reproduced, draw: Callable[[Axes, Mapping[str, Any]], None], x: str, y: str) -> Figure:
    """``draw`` gets a panel and the summary of its variant's first run; ``x`` and ``y`` are the axes' labels."""
    variants = [name for name in figure.definition.variants if figure.summaries.get(name)]
    drawing, panels = style.new_figure(columns=max(1, len(variants)), width=4.6)
    for variant, panel in zip(variants, panels, strict=False):
        draw(panel, next(iter(figure.summaries[variant].values())))
        style.finish(panel, x, y, variant, legend=False)
    style.legend_below(drawing, panels[0])
    return drawing

"""What papers have that is no common form: the figures that only one or two of them draw, and what only they measure.

A figure of ``analysis/claims`` without a ``plot`` is drawn by a function here, by its id (``drawings``); cells with
``own: true`` are measured by one (``own_cells``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from analysis.papers.natjam_cells import tightest_deadlines
from analysis.papers.os_assisted_cells import straightness
from analysis.papers.reverse_adaptive_cells import axes, fills, fit, holders
from analysis.reproduce.definitions import FigureDefinition
from analysis.reproduce.measure import Summaries

_CELLS: Mapping[str, Callable[[FigureDefinition, Summaries], dict[str, float | None]]] = {
    "natjam/fig11": tightest_deadlines,
    "os-assisted/fig4": straightness,
    "reverse-adaptive/fig1": holders,
    "reverse-adaptive/fig3": fit,
    "reverse-adaptive/fig9": axes,
    "reverse-adaptive/fills": fills,
}


def own_cells(figure: FigureDefinition, summaries: Summaries) -> dict[str, float | None]:
    """The cells of a figure that its paper's function measures, by name."""
    return _CELLS[figure.id](figure, summaries) if figure.id in _CELLS else {}

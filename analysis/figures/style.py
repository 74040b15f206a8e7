"""The style of all figures: Okabe and Ito's colours, which people with any colour vision can distinguish, and lines and
hatches that can be distinguished in grey."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from emulator.errors import ConfigError
from emulator.files.whole_files import writing

BLACK, ORANGE, SKY, GREEN = "#000000", "#e69f00", "#56b4e9", "#009e73"
BLUE, VERMILLION, PURPLE = "#0072b2", "#d55e00", "#cc79a7"
GREY, LIGHT_GREY = "#767676", "#d0d0d0"
LINES: tuple[dict[str, Any], ...] = (
    {"color": BLUE, "linestyle": "-"},
    {"color": VERMILLION, "linestyle": "--"},
    {"color": GREEN, "linestyle": "-."},
    {"color": BLACK, "linestyle": ":"},
    {"color": PURPLE, "linestyle": (0, (6, 1, 1, 1, 1, 1))},
    {"color": ORANGE, "linestyle": (0, (8, 3))},
    {"color": SKY, "linestyle": (0, (3, 1))},
)
"""Colour and dashes of the first, second ... curve; neighbours differ in both."""
_MARKERS = "os^Dvp"
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "+++", "ooo")
FONT_POINTS = 9
"""Size of labels; no text is more than two points smaller."""
_HANDLE_INCHES = 0.7
"""The sample of an entry of a legend, with the gaps beside it."""


def line(index: int) -> dict[str, Any]:
    """Keywords of ``Axes.plot`` for the curve number ``index``."""
    return {**LINES[index % len(LINES)], "linewidth": 1.6}


def marker(index: int) -> str:
    """The marker of the group number ``index``."""
    return _MARKERS[index % len(_MARKERS)]


def new_figure(rows: int = 1, columns: int = 1, width: float = 5.0, height: float = 3.4) -> tuple[Figure, list[Axes]]:
    """A figure of ``rows`` x ``columns`` panels of ``width`` x ``height`` inches each, and its panels row by row."""
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    panels = list(figure.subplots(rows, columns, squeeze=False).flatten())
    for panel in panels:
        panel.tick_params(labelsize=FONT_POINTS - 1)
        panel.grid(color=LIGHT_GREY, linewidth=0.5)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
    return figure, panels


def finish(panel: Axes, x_label: str, y_label: str, title: str = "", legend: bool = True) -> None:
    """Label a panel; ``x_label`` and ``y_label`` include their units."""
    panel.set_xlabel(x_label, fontsize=FONT_POINTS)
    panel.set_ylabel(y_label, fontsize=FONT_POINTS)
    if title:
        panel.set_title(title, fontsize=FONT_POINTS + 1, loc="left")
    if legend and panel.get_legend_handles_labels()[0]:
        panel.legend(fontsize=FONT_POINTS - 1, frameon=False, handlelength=3.2)


def legend_below(figure: Figure, panel: Axes | None = None) -> None:
    """A legend below the panels, of all of them or of one, in as many columns as the figure has room for."""
    panels = figure.axes if panel is None else [panel]
    found = [one.get_legend_handles_labels() for one in panels]
    labels = [label for _, of_panel in found for label in of_panel]
    letters_inches = max(map(len, labels), default=0) * 0.55 * (FONT_POINTS - 1) / 72
    columns = int(figure.get_figwidth() / (letters_inches + _HANDLE_INCHES))
    figure.legend(
        [handle for handles, _ in found for handle in handles],
        labels,
        fontsize=FONT_POINTS - 1,
        frameon=False,
        handlelength=3.2,
        loc="outside lower center",
        ncols=max(1, min(columns, len(labels))),
    )


def save(figure: Figure, paths: Iterable[Path]) -> None:
    """Write a figure in the format of each path's suffix (PNG at 150 dots an inch, SVG, PDF)."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # it is drawn as a box; no word for a terminal
        for path in paths:
            figure.savefig(path, dpi=150)


def save_as(figure: Figure, path: Path) -> None:
    """Write a figure to the user's path.  Raises ConfigError if it cannot be written or the format is unknown."""
    known = figure.canvas.get_supported_filetypes()
    if path.suffix.removeprefix(".") not in known:
        raise ConfigError(f"{path}: must end in .png, .svg or .pdf")
    with writing(path, ConfigError):
        save(figure, [path])

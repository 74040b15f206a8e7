"""A plot of the measurements: the distribution of every operation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy

from emulator.costs.calibration import Calibration, MeasuredSeries, Observations, Operations
from emulator.measure.samples import Samples

_COLUMNS = 5
_POINTS = 400
"""Steps of a curve; more would not be visible."""


def plot_samples(samples: Samples, calibration: Calibration, path: Path) -> None:
    """Write a PNG with the cumulative distribution of every operation, in milliseconds; each series has one panel."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = [*Operations.model_fields, *Observations.model_fields, *MeasuredSeries.model_fields]
    rows = -(-len(names) // _COLUMNS)
    figure = Figure(figsize=(3.2 * _COLUMNS, 2.2 * rows))
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, _COLUMNS).flatten()
    by = {name: series.by for name, series in calibration.series if series}
    for name, panel in zip(names, panels, strict=False):
        _plot(panel, samples, name, by.get(name))
    for panel in panels[len(names) :]:
        panel.set_visible(False)
    machine = calibration.machine
    figure.suptitle(
        f"{machine.cpu_model}, {machine.cores} cores, {machine.kernel}: share of samples (0 to 1) by milliseconds"
    )
    figure.subplots_adjust(left=0.03, right=0.99, bottom=0.03, top=0.94, wspace=0.2, hspace=0.45)
    figure.savefig(path, format="png", dpi=80)


def _plot(panel: Any, samples: Samples, name: str, by: str | None) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    places: list[int | None] = [*samples.places(name)] or [None]
    for at in places:
        values = numpy.sort(numpy.asarray(samples.of(name, at), dtype=float)) / 1e6
        shares = numpy.linspace(0, 1, min(_POINTS, len(values)))
        label = None if at is None else f"{at:,}"
        panel.plot(numpy.quantile(values, shares), shares, linewidth=1, label=label)
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(LogLocator(subs=(1, 3), numticks=6))
    panel.xaxis.set_major_formatter("{x:g}")
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.set_title(name if by is None or by in name else f"{name} by {by}", fontsize=8)
    panel.tick_params(labelsize=6)
    panel.grid(alpha=0.3, linewidth=0.5)
    if places != [None]:
        panel.legend(fontsize=5, frameon=False)

"""How far simulations are from live runs: completion times of jobs, and their errors by experiment."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.fidelity.figures import WORST_LIMIT, Fidelity
from analysis.figures import style

_ROW_INCHES = 0.2


def fidelity_figure(fidelity: Fidelity) -> Figure:
    """Simulated against live completion times (left), and each job's error in the row of its experiment (right)."""
    height = max(3.4, 1.2 + _ROW_INCHES * len(fidelity.files))
    figure, (times, errors) = style.new_figure(columns=2, width=5.5, height=height)
    _draw_times(times, fidelity)
    _draw_errors(errors, fidelity)
    return figure


def _draw_times(panel: Axes, fidelity: Fidelity) -> None:
    found = [metric for file in fidelity.files for metric in file.completions]
    live_s, simulated_s = [metric.live_mean for metric in found], [metric.simulated_mean for metric in found]
    spreads_s = [metric.live_sd or 0.0 for metric in found]
    panel.axline((0, 0), slope=1, color=style.GREY, linewidth=0.8)
    panel.errorbar(live_s, simulated_s, xerr=spreads_s, fmt="o", color=style.BLUE, markersize=3, linewidth=1)
    title = "completion times of jobs (lines: spread of live runs)"
    style.finish(panel, "live, s", "simulated, s", title, legend=False)


def _draw_errors(panel: Axes, fidelity: Fidelity) -> None:
    panel.axvspan(-100 * WORST_LIMIT, 100 * WORST_LIMIT, color=style.LIGHT_GREY, alpha=0.4, linewidth=0)
    panel.axvline(0, color=style.GREY, linewidth=0.8)
    for row, file in enumerate(fidelity.files):
        percent = [100 * (metric.error or 0.0) for metric in file.completions]
        panel.plot(percent, [row] * len(percent), "o", color=style.BLUE, markersize=4, alpha=0.7)
    names = [f"{file.name} at {file.time_scale:g}x" for file in fidelity.files]
    panel.set_yticks(range(len(names)), names)
    panel.invert_yaxis()
    title = f"a dot for each job (grey: within {WORST_LIMIT:.0%})"
    style.finish(panel, "simulated minus live, %", "", title, legend=False)

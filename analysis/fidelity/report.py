"""The output of ``natjam fidelity``: tables, ``fidelity.json``, a plot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import RenderableType
from rich.table import Table

from analysis.fidelity.figures import (
    COMPLETION,
    DRIFT_LIMIT,
    MEAN_LIMIT,
    WORST_LIMIT,
    WORST_LIMIT_HEARTBEATS,
    Drift,
    Fidelity,
    FileFidelity,
    Metric,
    highest_faithful_scale,
)
from analysis.figures import style
from emulator.display.tables import ALWAYS, names, new_table, number, numbers, or_dash
from emulator.files.whole_files import write_json

_FILE = "fidelity.json"
_SHOWN_JOBS = 12
"""With more jobs than this, only the completion times with the largest errors are shown; the file has all."""


def write_report(fidelity: Fidelity, found: Sequence[Drift], directory: Path) -> None:
    """Write ``fidelity.json`` and ``fidelity.png``.  Raises RunError."""
    report = fidelity.to_json()
    if found:
        report["drift"] = msgspec.to_builtins(found)
        report["highest_faithful_time_scale"] = highest_faithful_scale(found)
    write_json(directory / _FILE, report)
    style.save(_figure(fidelity), [directory / "fidelity.png"])


def file_table(file: FileFidelity) -> Table:
    """Every figure of one experiment: simulated, live, their difference, and the spread of live runs."""
    columns = [*names("job", "figure"), *numbers("simulated", "live", importance=ALWAYS), *numbers("difference")]
    columns += numbers("error", "live spread", importance=3)
    columns += numbers("fluid", importance=1) if file.fluid else []
    table = new_table(f"{file.name} at time scale {file.time_scale:g}", columns, also_in=_FILE)
    for metric in _shown(file):
        fluid_s = file.fluid.get(str(metric.job)) if metric.name == COMPLETION else None
        table.add_row(
            metric.job or "(all)",
            metric.name.removesuffix("_s"),
            _seconds(metric.simulated_mean),
            _seconds(metric.live_mean),
            f"{metric.difference:+.2f}",
            or_dash(metric.error, "+.2%"),
            or_dash(metric.live_spread, ".2%"),
            *(["" if fluid_s is None else _seconds(fluid_s)] if file.fluid else []),
        )
    return table


def _shown(file: FileFidelity) -> list[Metric]:
    jobs = {metric.job for metric in file.metrics if metric.job is not None}
    if len(jobs) <= _SHOWN_JOBS:
        return [
            m for m in file.metrics if m.job is None or m.name == COMPLETION or any((*m.live, *map(any, m.simulated)))
        ]
    worst = sorted(file.completions, key=lambda metric: -abs(metric.error or 0))[:_SHOWN_JOBS]
    return [metric for metric in file.metrics if metric.job is None or metric in worst]


def choices_table(fidelity: Fidelity) -> Table:
    """Errors of job completion times for every policy and mechanism in use."""
    columns = [*names("axis", "name"), *numbers("jobs", "mean error", "worst error", "live spread")]
    table = new_table("completion times by policy and mechanism", columns, also_in=_FILE)
    for (axis, name), group in fidelity.by_choice().items():
        errors = (group.mean_abs_error, group.worst_abs_error, group.live_spread)
        table.add_row(axis, name, str(len(group.errors)), *(or_dash(error, ".2%") for error in errors))
    return table


def closing_lines(fidelity: Fidelity) -> list[str]:
    """The result in words, compared with the limits."""
    spread = fidelity.live_spread
    lines = [
        f"job completion times: mean error {fidelity.mean_abs_error:.2%} (limit {MEAN_LIMIT:.0%}), worst "
        f"{fidelity.worst_abs_error:.2%} (limit {WORST_LIMIT:.0%} or {WORST_LIMIT_HEARTBEATS:g} heartbeats); live runs "
        + ("were not repeated" if spread is None else f"of the same experiment spread by {spread:.2%}")
    ]
    if (apart := fidelity.mean_abs_fluid_error) is not None:
        lines.append(f"the fluid engine, without tasks and protocol, differs from simulations by {apart:.1%} (mean)")
    lines += [f"beyond the limit: {missed}" for missed in fidelity.missed]
    return lines


def drift_tables(found: Sequence[Drift]) -> list[RenderableType]:
    """How completion times change as time is compressed, and how far time can be compressed."""
    scales = sorted({drift.time_scale for drift in found})
    title = "completion times by time scale, against the lowest: live (simulated)"
    table = new_table(title, [*names("job"), *numbers(*(f"{scale:g}x" for scale in scales))], also_in=_FILE)
    jobs = dict.fromkeys((drift.file, drift.job) for drift in found)
    by_place = {(drift.file, drift.job, drift.time_scale): drift for drift in found}
    for file, job in jobs:
        drifts = [by_place[file, job, scale] for scale in scales]
        first = f"{_seconds(drifts[0].live_s)} ({_seconds(drifts[0].sim_s)})"
        rest = [f"{drift.live_drift:+.1%} ({drift.sim_drift:+.1%})" for drift in drifts[1:]]
        table.add_row(f"{file}: {job}", first, *rest)
    highest = f"highest time scale within {DRIFT_LIMIT:.0%} of {scales[0]:g}x: {highest_faithful_scale(found):g}"
    return [table, highest]


def _seconds(value: float | None) -> str:
    return number(value, (1, 2, 2), "")


_ROW_INCHES = 0.2


def _figure(fidelity: Fidelity) -> Figure:
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

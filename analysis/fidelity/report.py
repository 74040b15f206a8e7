"""The output of ``natjam fidelity``: tables, ``fidelity.json``, a plot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import RenderableType
from rich.table import Table

from analysis.fidelity.drift import DRIFT_LIMIT, Drift, highest_faithful_scale
from analysis.fidelity.figures import (
    COMPLETION,
    MEAN_LIMIT,
    WORST_LIMIT,
    WORST_LIMIT_HEARTBEATS,
    Fidelity,
    FileFidelity,
    Metric,
)
from analysis.figures.fidelity import fidelity_figure
from analysis.figures.style import save
from emulator.display.tables import ALWAYS, names, new_table, numbers, or_dash
from emulator.files.whole_files import write_json

_FILE = "fidelity.json"
_SHOWN_JOBS = 12
"""With more jobs than this, only the completion times with the largest errors are shown; the file has all."""


def write_report(fidelity: Fidelity, found: Sequence[Drift], directory: Path) -> None:
    """Write ``fidelity.json`` and ``fidelity.png``.  Raises RunError."""
    report = fidelity.to_json()
    if found:
        report["drift"] = [
            {
                "file": drift.file,
                "job": drift.job,
                "time_scale": drift.time_scale,
                "live_s": drift.live_s,
                "sim_s": drift.simulated_s,
                "live_drift": drift.live_drift,
                "sim_drift": drift.simulated_drift,
            }
            for drift in found
        ]
        report["highest_faithful_time_scale"] = highest_faithful_scale(found)
    write_json(directory / _FILE, report)
    save(fidelity_figure(fidelity), [directory / "fidelity.png"])


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
            _number(metric.simulated_mean),
            _number(metric.live_mean),
            f"{metric.difference:+.2f}",
            or_dash(metric.error, "+.2%"),
            or_dash(metric.live_spread, ".2%"),
            *([_number(fluid_s) if fluid_s is not None else ""] if file.fluid else []),
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
        first = f"{_number(drifts[0].live_s)} ({_number(drifts[0].simulated_s)})"
        rest = [f"{drift.live_drift:+.1%} ({drift.simulated_drift:+.1%})" for drift in drifts[1:]]
        table.add_row(f"{file}: {job}", first, *rest)
    highest = f"highest time scale within {DRIFT_LIMIT:.0%} of {scales[0]:g}x: {highest_faithful_scale(found):g}"
    return [table, highest]


def _number(value: float) -> str:
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.2f}"

"""Figures of Reverse-Adaptive's paper: which jobs hold the cluster, the steps of the fit, and deadlines by load."""

from __future__ import annotations

import numpy
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.figures.holders import draw_holders
from analysis.reproduce.definitions import Level, Scaled
from analysis.reproduce.example_numbers import R_PEND, S_FIT, S_PEND, S_REQ, example_periods
from analysis.reproduce.measure import level_by_seed
from analysis.reproduce.reproduced import Reproduced
from emulator.experiment.availability import capacity_of
from emulator.policies.capacity import Capacity
from emulator.policies.reverse_adaptive.fitting import Period
from emulator.policies.reverse_adaptive.utility import map_utility, reduce_utility

_COLOURS = (style.VERMILLION, style.ORANGE, style.BLUE, style.GREEN, style.PURPLE, style.SKY)
_JOB_COLOURS = (style.BLUE, style.ORANGE, style.GREEN)
_WIDTH = 0.8
_HOUR_NS = 3600 * 10**9


def holder_panels(figure: Reproduced) -> Figure:
    """One panel for each variant, from its first run."""
    variants = [name for name in figure.definition.variants if figure.summaries.get(name)]
    drawing, panels = style.new_figure(columns=max(1, len(variants)), width=4.6)
    for variant, panel in zip(variants, panels, strict=False):
        summary = next(iter(figure.summaries[variant].values()))
        draw_holders(panel, summary["shares"], summary["jobs"])
        style.finish(panel, figure.definition.look.x, figure.definition.look.y, variant, legend=False)
    style.legend_below(drawing, panels[0])
    return drawing


def fit_steps(figure: Reproduced) -> Figure:
    """The first panel shows the last period; each further panel adds the period before; the last one is the utility."""
    experiment = next(iter(next(iter(figure.runs.values())).values())).experiment
    jobs, cluster = experiment.workload.jobs or (), experiment.cluster
    capacity = capacity_of(cluster.availability, cluster.containers)
    _, periods = example_periods(experiment)
    drawing, panels = style.new_figure(columns=len(periods) + 1, width=3.6)
    end_ns = periods[0].end_ns
    for count, panel in enumerate(panels[:-1], start=1):
        _draw_fit(panel, periods[:count], capacity, [job.name for job in jobs])
        panel.set_xlim(0, end_ns / _HOUR_NS)
        style.finish(panel, figure.definition.look.x, figure.definition.look.y, f"step {count}", legend=False)
    style.legend_below(drawing, panels[len(periods) - 1])
    _draw_utility(panels[-1])
    return drawing


def _draw_fit(panel: Axes, periods: list[Period], capacity: Capacity, names: list[str]) -> None:
    """Draw each job of a period as a constant share of the capacity."""
    labelled: set[int] = set()
    for period in periods:
        instants = numpy.linspace(period.start_ns, period.end_ns, 200)
        there = numpy.array([capacity.at(min(int(at), period.end_ns - 1)) for at in instants], dtype=float)
        room_ns, below = capacity.between(period.start_ns, period.end_ns), numpy.zeros_like(there)
        for index, work_ns in sorted(period.fitted_ns):
            above = below + there * (work_ns / room_ns)
            label = None if index in labelled else names[index]
            labelled.add(index)
            colour, hatch = _JOB_COLOURS[index % len(_JOB_COLOURS)], style.HATCHES[index % len(style.HATCHES)]
            panel.fill_between(
                instants / _HOUR_NS, below, above, color=colour, hatch=hatch, alpha=0.8, edgecolor="white", label=label
            )
            below = above
        panel.axvline(period.start_ns / _HOUR_NS, color=style.GREY, linestyle="--", linewidth=1)
    hours = numpy.linspace(0, periods[0].end_ns / _HOUR_NS, 400)
    line = [capacity.at(int(hour * _HOUR_NS)) for hour in hours]
    panel.plot(hours, line, color=style.BLACK, linewidth=2, label="available, f(t)")
    panel.set_ylim(0, capacity.most * 1.05)


def _draw_utility(panel: Axes) -> None:
    allocs = list(range(1, 51))
    for place, reduces in enumerate((1, 2, 5, R_PEND)):
        worth = reduce_utility(reduces, R_PEND)
        values = [map_utility(alloc, S_FIT, S_REQ, S_PEND) + worth for alloc in allocs]
        panel.plot(allocs, values, label=f"{reduces} reduce slots", **style.line(place))
    style.finish(panel, "Map slots", "Utility", f"s_fit {S_FIT}, s_req {S_REQ}, s_pend {S_PEND}")


def week_panels(figure: Reproduced) -> Figure:
    """Rows of panels are metrics, columns groups of points, groups of bars loads; whiskers are one deviation."""
    look, grid = figure.definition.look, figure.definition.grid
    assert grid is not None
    columns = list(dict.fromkeys(point.rpartition("-")[0] for point in grid.points))
    drawing, panels = style.new_figure(rows=len(look.rows), columns=len(columns), width=3.6, height=2.6)
    for row, (label, shown) in enumerate(look.rows.items()):
        highest = 0.0
        for column, group in enumerate(columns):
            panel = panels[row * len(columns) + column]
            points = [point for point in grid.points if point.rpartition("-")[0] == group]
            highest = max(highest, _draw_week(panel, figure, points, shown, row == 0))
            panel.set_xticks(range(len(points)), [point.rpartition("-")[2] for point in points])
            panel.grid(axis="x", visible=False)
            x_label = look.x if row == len(look.rows) - 1 else ""
            style.finish(panel, x_label, label if column == 0 else "", group if row == 0 else "", legend=False)
        for panel in panels[row * len(columns) : (row + 1) * len(columns)]:
            panel.set_ylim(0, highest * 1.05 or 1)
    style.legend_below(drawing, panels[0])
    return drawing


def _draw_week(panel: Axes, figure: Reproduced, points: list[str], shown: Scaled, is_first: bool) -> float:
    """Draw the bars of one panel.  Returns their greatest height."""
    look, top = figure.definition.look, 0.0
    width, last = _WIDTH / len(look.lines), len(look.lines) - 1
    for place, (label, of) in enumerate(look.lines.items()):
        x = [index + (place - last / 2) * width for index in range(len(points))]
        means, deviations = _levels(figure, of, points, shown)
        top = max(top, *(mean + deviation for mean, deviation in zip(means, deviations, strict=True)))
        panel.bar(
            x, means, width * 0.94, yerr=deviations, label=label, color=_COLOURS[place % len(_COLOURS)],
            hatch=style.HATCHES[place % len(style.HATCHES)], edgecolor="white",
            error_kw={"linewidth": 0.8, "capsize": 1.5},
        )  # fmt: skip
    if is_first and look.least is not None:
        least, _ = _levels(figure, look.least, points, shown)
        panel.hlines(
            least, [at + (last - 1) / 2 * width for at in range(len(points))],
            [at + (last + 1) / 2 * width for at in range(len(points))], colors=style.BLACK, linewidth=2,
            label=look.least,
        )  # fmt: skip
    return top


def _levels(figure: Reproduced, of: str, points: list[str], shown: Scaled) -> tuple[list[float], list[float]]:
    """Mean and deviation over the seeds at each point; 0 if there is no figure."""
    found = [
        list(level_by_seed(figure.definition, Level(of=of, at=(point,), value=shown.value), figure.summaries).values())
        for point in points
    ]
    means = [float(numpy.mean(values)) / shown.over if values else 0.0 for values in found]
    return means, [float(numpy.std(values, ddof=1)) / shown.over if len(values) > 1 else 0.0 for values in found]

"""Figures of Reverse-Adaptive's paper: which jobs hold the cluster, and the steps of the fit."""

from __future__ import annotations

import numpy
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.figures.shares import draw_holders
from analysis.papers.reverse_adaptive_cells import R_PEND, S_FIT, S_PEND, S_REQ, example_periods
from analysis.papers.variant_panels import variant_panels
from analysis.reproduce.grid_plots import draw_lines
from analysis.reproduce.reproduced import Reproduced, Reproduction
from emulator.experiment.availability import capacity_of
from emulator.policies.capacity import Capacity
from emulator.policies.reverse_adaptive.fitting import Period
from emulator.policies.reverse_adaptive.utility import map_utility, reduce_utility
from emulator.vocabulary import HOUR_NS

_AXES = "Time (h)", "Containers"
_JOB_COLOURS = (style.BLUE, style.ORANGE, style.GREEN)


def holders(figure: Reproduced, _: Reproduction) -> Figure:
    """Who holds the cluster, under each variant."""
    return variant_panels(figure, lambda panel, run: draw_holders(panel, run["shares"], run["jobs"]), *_AXES)


def fills(figure: Reproduced, _: Reproduction) -> Figure:
    """How many deadlines are met by the work of the jobs."""
    variants = {
        "Adaptive": "adaptive",
        "Adaptive, by deadline": "adaptive-by-deadline",
        "Reverse-Adaptive": "reverse-adaptive",
    }
    drawing, (panel,) = style.new_figure(width=6)
    draw_lines(figure, panel, {label: f"deadlines met: {name}, {{point}}" for label, name in variants.items()})
    style.finish(panel, "Work of the jobs (% of what can be done)", "Deadlines met", figure.definition.title)
    return drawing


def fit_steps(figure: Reproduced, _: Reproduction) -> Figure:
    """The first panel shows the last period; each further panel adds the period before; the last one is the utility."""
    experiment = next(iter(next(iter(figure.runs.values())).values())).experiment
    jobs, cluster = experiment.workload.jobs or (), experiment.cluster
    capacity = capacity_of(cluster.availability, cluster.containers)
    periods = example_periods(experiment)[1]
    drawing, panels = style.new_figure(columns=len(periods) + 1, width=3.6)
    end_ns = periods[0].end_ns
    for count, panel in enumerate(panels[:-1], start=1):
        _draw_fit(panel, periods[:count], capacity, [job.name for job in jobs])
        panel.set_xlim(0, end_ns / HOUR_NS)
        style.finish(panel, *_AXES, f"step {count}", legend=False)
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
                instants / HOUR_NS, below, above, color=colour, hatch=hatch, alpha=0.8, edgecolor="white", label=label
            )
            below = above
        panel.axvline(period.start_ns / HOUR_NS, color=style.GREY, linestyle="--", linewidth=1)
    hours = numpy.linspace(0, periods[0].end_ns / HOUR_NS, 400)
    line = [capacity.at(int(hour * HOUR_NS)) for hour in hours]
    panel.plot(hours, line, color=style.BLACK, linewidth=2, label="available, f(t)")
    panel.set_ylim(0, capacity.most * 1.05)


def _draw_utility(panel: Axes) -> None:
    allocs = list(range(1, 51))
    for place, reduces in enumerate((1, 2, 5, R_PEND)):
        worth = reduce_utility(reduces, R_PEND)
        values = [map_utility(alloc, S_FIT, S_REQ, S_PEND) + worth for alloc in allocs]
        panel.plot(allocs, values, label=f"{reduces} reduce slots", **style.line(place))
    style.finish(panel, "Map slots", "Utility", f"s_fit {S_FIT}, s_req {S_REQ}, s_pend {S_PEND}")

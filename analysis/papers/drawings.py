"""Figures that only one or two papers draw, in the order of their papers.

``DRAWINGS`` has them by the figure's id.  Others have a common form, ``plot`` (``analysis.reproduce.plots``).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy
import pandas
import pyarrow.parquet
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.figures.runs import differences
from analysis.figures.shares import draw_holders, draw_packing
from analysis.frames import DataFrame
from analysis.papers.cells import EPSILON, MARGINS, R_PEND, S_FIT, S_PEND, S_REQ, example_periods
from analysis.papers.slurm_runs import JOB_BOUND, JOB_BOUND_S
from analysis.reproduce.cells import POINT
from analysis.reproduce.measure import job_pairs, ratios, values_of
from analysis.reproduce.plots import cell_means, draw_lines
from analysis.reproduce.reproduced import Reproduced, Reproduction
from emulator.campaign.directory import PlannedRun
from emulator.experiment.availability import capacity_of
from emulator.policies.capacity import Capacity
from emulator.policies.reverse_adaptive.fitting import Period
from emulator.policies.reverse_adaptive.utility import map_utility, reduce_utility
from emulator.records.parquet_tables import tables_of
from emulator.resolved import resolve
from emulator.sim.session import simulated_history
from emulator.vocabulary import HOUR_NS


def response_times(figure: Reproduced, _: Reproduction) -> Figure:
    """Adaptive checkpointing, Figs 9 and 11: the CDF of the jobs' completion times, one line for each variant."""
    drawing, (panel,) = style.new_figure(width=6)
    for index, name in enumerate(figure.definition.settings):
        summaries = figure.summaries.get(name, {}).values()
        jobs = [job for summary in summaries for job in summary["jobs"] if job["completion_s"] is not None]
        times_s = sorted(job["completion_s"] for job in jobs)
        panel.step(times_s, numpy.arange(1, len(times_s) + 1) / max(1, len(times_s)), label=name, **style.line(index))
    panel.set_xscale("log")
    style.finish(panel, "Response time (s)", "Share of jobs", figure.definition.title)
    return drawing


def variant_panels(figure: Reproduced, draw: Callable[[Axes, Mapping[str, Any]], None], x: str, y: str) -> Figure:
    """``draw`` gets a panel and the summary of its variant's first run; ``x`` and ``y`` are the axes' labels."""
    variants = [name for name in figure.definition.variants if figure.summaries.get(name)]
    drawing, panels = style.new_figure(columns=max(1, len(variants)), width=4.6)
    for variant, panel in zip(variants, panels, strict=False):
        draw(panel, next(iter(figure.summaries[variant].values())))
        style.finish(panel, x, y, variant, legend=False)
    style.legend_below(drawing, panels[0])
    return drawing


def flex_fig4(figure: Reproduced, _: Reproduction) -> Figure:
    """FLEX, Fig. 4: what each job holds over time, under each variant."""
    return variant_panels(
        figure,
        lambda panel, run: draw_packing(panel, run["shares"], [job["name"] for job in run["jobs"]]),
        "Containers",
        "Time (s)",
    )


_ALLOCATIONS = {"FIFO": ("fifo", style.BLUE), "FAIR": ("fair", style.ORANGE), "FLEX": ("flex", style.GREEN)}
_VARIED = {"flex/fig5a": "Slack (%)", "flex/fig5b": "Small jobs (%)"}
_HIGHEST, _WIDTH = 6.0, 0.8 / len(_ALLOCATIONS)


def over_the_best(figure: Reproduced, _: Reproduction) -> Figure:
    """FLEX, Fig. 5: at each point the mean ratio over all runs, and the worst run's, paler, behind it.

    Bars are cut off at the height of the figure, with their values beside them.
    """
    grid = figure.definition.grid
    assert grid is not None
    over = next(cell.cell.ratio.over for cell in figure.cells.values() if cell.cell.ratio is not None)
    drawing, (panel,) = style.new_figure(width=max(6, 0.75 * len(grid.points) + 1), height=3.8)
    for index, (label, (of, colour)) in enumerate(_ALLOCATIONS.items()):
        for place, point in enumerate(grid.points):
            if found := ratios(figure.definition, of, over, point, figure.summaries).values():
                x, worst = place + (index - 1) * _WIDTH, max(found)
                panel.bar(x, worst, _WIDTH * 0.94, color=colour, alpha=0.35)
                panel.bar(x, sum(found) / len(found), _WIDTH * 0.94, color=colour, label=None if place else label)
                if worst > _HIGHEST:
                    panel.set_ylim(0, _HIGHEST)
                    panel.text(x, _HIGHEST, f"{worst:.3g}", rotation=90, va="top", fontsize=style.FONT_POINTS - 2)
    panel.axhline(1, color=style.GREY, linewidth=0.8)
    panel.set_xticks(range(len(grid.points)), [point.replace("-", "\n") for point in grid.points])
    panel.grid(axis="x", visible=False)
    title = f"{figure.definition.title} (pale: the worst run)"
    y_label = "Ratio to FLEX" if over == "flex" else "Ratio to the optimum"
    style.finish(panel, _VARIED.get(figure.definition.id, ""), y_label, title)
    return drawing


_PROGRESS_POINTS = 400
_COMPARED = {"completion_s": "completion time, s", "margin_s": "margin, s"}


def by_job(figure: Reproduced, _: Reproduction) -> Figure:
    """Natjam, Figs 7 to 9 and 12 to 15: the CDF of the jobs' differences between two variants, a curve per queue."""
    found = (cell for cell in figure.definition.cells.values() if cell.difference is not None)
    ours, compared = next((str(cell.variant), cell.difference) for cell in found)
    assert compared is not None
    mine, theirs = (figure.summaries.get(name, {}) for name in (ours, compared.against))
    every = compared.model_copy(update={"queue": None})
    pairs = [pair for seed in mine if seed in theirs for pair in job_pairs(mine[seed], theirs[seed], every)]
    frame = pandas.DataFrame({"queue": [queue for queue, _, _ in pairs], "difference": [a - b for _, a, b in pairs]})
    return differences(frame, ours, compared.against, _COMPARED[compared.by])


def natjam_fig10(figure: Reproduced, reproduction: Reproduction) -> Figure:
    """Natjam, Fig. 10: the progress of each job's reduces over time, in the first run of each variant."""
    variants = [name for name in figure.definition.variants if name in figure.runs]
    drawing, panels = style.new_figure(columns=max(1, len(variants)), width=4.6)
    for variant, panel in zip(variants, panels, strict=False):
        seed, run = next(iter(figure.runs[variant].items()))
        attempts = _attempts(run, reproduction.run_path(run))
        summary = figure.summaries[variant][seed]
        times_s = numpy.linspace(0, summary["makespan_s"] or 1, _PROGRESS_POINTS)
        for index, job in enumerate(summary["jobs"]):
            mine = attempts[(attempts["job"] == job["name"]) & (attempts["kind"] == "reduce")]
            panel.plot(times_s, progress(mine, times_s), label=job["name"], **style.line(index))
            if job["deadline_s"]:
                panel.axvline(job["deadline_s"], linewidth=0.8, **style.LINES[index])
        panel.set_ylim(0, 102)
        style.finish(panel, "Time (s)", "Progress of the reduces (%)", f"{variant.upper()} (vertical lines: deadlines)")
    return drawing


def _attempts(run: PlannedRun, path: Path) -> DataFrame:
    """The table of attempts of a run; a simulation has kept none, and is made again."""
    if run.experiment.engine == "live":
        return pyarrow.parquet.read_table(path / "attempts.parquet").to_pandas()
    return tables_of(simulated_history(resolve(run.experiment)))["attempts"].to_pandas()


def progress(attempts: DataFrame, times_s: numpy.ndarray) -> numpy.ndarray:
    """Progress of the reduces of a job at each time, in percent of all their keys.

    ``attempts``: rows of ``attempts.parquet``; the keys of an attempt are assumed to take equal times.
    """
    total = attempts.drop_duplicates("task")["keys_total"].sum()
    done = numpy.zeros_like(times_s)
    for row in attempts.dropna(subset=["first_key_s", "ended_s"]).itertuples():
        keys = max(0, (row.keys_done or 0) - (row.keys_start or 0))
        ends_s = max(row.ended_s, row.first_key_s + 1e-9)
        done += keys * numpy.clip((times_s - row.first_key_s) / (ends_s - row.first_key_s), 0, 1)
    return 100 * done / total if total else done


def natjam_fig11(figure: Reproduced, _: Reproduction) -> Figure:
    """Natjam, Fig. 11, how tight deadlines can be: each job's margin by epsilon, with one standard deviation."""
    grid = figure.definition.grid
    assert grid is not None
    drawing, (panel,) = style.new_figure(width=6)
    for index, (label, margin) in enumerate(MARGINS.items()):
        at_points = {point: figure.definition.at(EPSILON, point) for point in grid.points}
        found = {float(point): values_of(figure.summaries, variant, margin) for point, variant in at_points.items()}
        known = {value: values for value, values in found.items() if values}
        x, y = numpy.array(list(known)), numpy.array([statistics.fmean(values) for values in known.values()])
        sd = numpy.array([statistics.stdev(values) if len(values) > 1 else 0.0 for values in known.values()])
        panel.plot(x, y, label=label, **style.line(index))
        panel.fill_between(x, y - sd, y + sd, color=style.LINES[index]["color"], alpha=0.15, linewidth=0)
    panel.axhline(0, color=style.GREY, linewidth=0.8)
    for cell in figure.cells.values():
        if cell.cell.own and cell.published is not None:
            panel.axvline(cell.published, color=style.GREY, linestyle=":", label=f"published: {cell.name}")
    style.finish(panel, "Epsilon", "Margin (s)", figure.definition.title)
    return drawing


_COLOURS = {"wait": style.BLUE, "kill": style.ORANGE, "suspend": style.GREEN, "checkpoint": style.VERMILLION}


def overheads(figure: Reproduced, _: Reproduction) -> Figure:
    """OS-assisted preemption, Fig. 4: what suspension costs over the memory of high, and beside it what was swapped."""
    drawing, (panel,) = style.new_figure(width=6)
    shares = {"sojourn over kill's": "sojourn {point}", "makespan over wait's": "makespan {point}"}
    draw_lines(figure, panel, shares)
    style.finish(panel, "Memory of high (MB)", "Overhead, as a share", figure.definition.title)
    swapped = panel.twinx()
    draw_lines(figure, swapped, {"Swapped (GB)": "swapped GB {point}"}, first=len(shares))
    style.finish(swapped, "Memory of high (MB)", "Swapped (GB), dashes and dots", legend=False)
    return drawing


def mechanisms(figure: Reproduced, _: Reproduction) -> Figure:
    """One field for each point of the grid: the least mean completion, in the colour of the mechanism that has it."""
    means = [cell_means(figure, f"{mechanism} {POINT}") for mechanism in _COLOURS]
    along, down = (sorted({place[axis] for place in means[0]}) for axis in (0, 1))
    best = numpy.full((len(down), len(along)), numpy.nan)
    drawing, (panel,) = style.new_figure(width=max(5.0, 0.8 * len(along) + 2), height=3.8)
    for place in means[0]:
        known = [(mean, index) for index, of_line in enumerate(means) if (mean := of_line[place]) is not None]
        if known:
            mean, index = min(known)
            column, row = along.index(place[0]), down.index(place[1])
            best[row, column] = index
            panel.text(column, row, f"{mean:.0f}", ha="center", va="center", fontsize=style.FONT_POINTS - 1)
    colours = ListedColormap(list(_COLOURS.values()))
    panel.imshow(best, cmap=colours, vmin=-0.5, vmax=len(means) - 0.5, aspect="auto", origin="lower", alpha=0.6)
    panel.set_xticks(range(len(along)), [f"{value:g}" for value in along])
    panel.set_yticks(range(len(down)), [f"{value:g}" for value in down])
    panel.grid(visible=False)
    for mechanism, colour in _COLOURS.items():
        panel.plot([], [], "s", color=colour, alpha=0.6, label=mechanism)
    title = f"{figure.definition.title}: mean completion (s) of the best mechanism"
    style.finish(panel, "Progress of low when high arrives (%)", "Memory of each task (MB)", title, legend=False)
    style.legend_below(drawing)
    return drawing


_AXES = "Time (h)", "Containers"
_JOB_COLOURS = (style.BLUE, style.ORANGE, style.GREEN)


def holders(figure: Reproduced, _: Reproduction) -> Figure:
    """Reverse-Adaptive, Figs 1 and 2: who holds the cluster, under each variant."""
    return variant_panels(figure, lambda panel, run: draw_holders(panel, run["shares"], run["jobs"]), *_AXES)


def fills(figure: Reproduced, _: Reproduction) -> Figure:
    """Reverse-Adaptive: how many deadlines are met by the work of the jobs."""
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
    """Reverse-Adaptive, Figs 3 and 4: each panel adds a period, the last one first; the last panel is the utility."""
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


def recorded(figure: Reproduced, _: Reproduction) -> Figure:
    """Slurm: the completion of each job that ended in both runs, recorded and simulated, beside the bounds."""
    summary = figure.summaries["played"][1]
    drawing, (panel,) = style.new_figure(width=6.5, height=5)
    longest_s = 0.0
    for index, config in enumerate(config for config in summary if config != "all"):
        pairs = [pair for seed in summary[config].values() for pair in seed["jobs"].values()]
        theirs, ours = zip(*pairs, strict=True)
        longest_s = max(longest_s, *theirs, *ours)
        colour = style.line(index)["color"]
        panel.plot(theirs, ours, style.marker(index), color=colour, markersize=4, alpha=0.7, label=config)
    ends_s = (0.0, longest_s)
    panel.plot(ends_s, ends_s, color=style.GREY, linewidth=0.8)
    for sign in (-1, 1):
        bent_s = (0.0, JOB_BOUND_S / JOB_BOUND, longest_s)
        bound_s = [at_s + sign * max(JOB_BOUND * at_s, JOB_BOUND_S) for at_s in bent_s]
        panel.plot(bent_s, bound_s, ":", color=style.GREY, label="10% or 1 s" if sign > 0 else None)
    style.finish(panel, "Completion, recorded (s)", "Completion, simulated (s)", figure.definition.title)
    return drawing


_BY_JOB = ("fig7", "fig8", "fig9", "fig12", "fig13", "fig14", "fig15")

DRAWINGS: Mapping[str, Callable[[Reproduced, Reproduction], Figure]] = {
    **{f"natjam/{name}": by_job for name in _BY_JOB},
    "natjam/fig10": natjam_fig10,
    "natjam/fig11": natjam_fig11,
    "os-assisted/mechanisms": mechanisms,
    "os-assisted/fig4": overheads,
    "os-assisted/fig4-program": overheads,
    "flex/fig4": flex_fig4,
    **dict.fromkeys(("flex/fig5a", "flex/fig5b", "flex/fig5c", "flex/base", "flex/large"), over_the_best),
    "reverse-adaptive/fig1": holders,
    "reverse-adaptive/fig3": fit_steps,
    "reverse-adaptive/fills": fills,
    "slurm/recorded": recorded,
    "adaptive-checkpointing/fig9": response_times,
    "adaptive-checkpointing/fig11": response_times,
}
"""By the figure's id."""

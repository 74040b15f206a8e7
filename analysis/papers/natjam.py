"""Figures of Natjam's paper."""

from __future__ import annotations

import statistics
from pathlib import Path

import numpy
import pandas
import pyarrow.parquet
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.figures.runs import differences
from analysis.frames import DataFrame
from analysis.papers.natjam_cells import EPSILON, MARGINS
from analysis.reproduce.measure import job_pairs, values_of
from analysis.reproduce.reproduced import Reproduced, Reproduction
from emulator.campaign.directory import PlannedRun
from emulator.records.parquet_tables import tables_of
from emulator.resolved import resolve
from emulator.sim.session import simulated_history

_PROGRESS_POINTS = 400
_COMPARED = {"completion_s": "completion time, s", "margin_s": "margin, s"}


def by_job(figure: Reproduced, _: Reproduction) -> Figure:
    """Figs 7 to 9 and 12 to 15: the CDF of the jobs' differences between two variants, a curve per queue."""
    found = (cell for cell in figure.definition.cells.values() if cell.difference is not None)
    ours, compared = next((str(cell.variant), cell.difference) for cell in found)
    assert compared is not None
    mine, theirs = (figure.summaries.get(name, {}) for name in (ours, compared.against))
    every = compared.model_copy(update={"queue": None})
    pairs = [pair for seed in mine if seed in theirs for pair in job_pairs(mine[seed], theirs[seed], every)]
    frame = pandas.DataFrame({"queue": [queue for queue, _, _ in pairs], "difference": [a - b for _, a, b in pairs]})
    return differences(frame, ours, compared.against, _COMPARED[compared.by])


def fig10(figure: Reproduced, reproduction: Reproduction) -> Figure:
    """One panel for each variant: the progress of each job's reduces over time, in the variant's first run."""
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


def fig11(figure: Reproduced, _: Reproduction) -> Figure:
    """How tight deadlines can be: each job's margin by epsilon, in a band of one standard deviation."""
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

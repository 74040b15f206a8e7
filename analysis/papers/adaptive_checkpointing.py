"""Figures of Adaptive Checkpointing's paper."""

from __future__ import annotations

import numpy
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.reproduce.reproduced import Reproduced, Reproduction


def response_times(figure: Reproduced, _: Reproduction) -> Figure:
    """Figs 9 and 11: the CDF of the jobs' completion times: one line for each variant, over all its runs."""
    drawing, (panel,) = style.new_figure(width=6)
    for index, name in enumerate(figure.definition.settings):
        summaries = figure.summaries.get(name, {}).values()
        jobs = [job for summary in summaries for job in summary["jobs"] if job["completion_s"] is not None]
        times_s = sorted(job["completion_s"] for job in jobs)
        panel.step(times_s, numpy.arange(1, len(times_s) + 1) / max(1, len(times_s)), label=name, **style.line(index))
    panel.set_xscale("log")
    style.finish(panel, "Response time (s)", "Share of jobs", figure.definition.title)
    return drawing

"""The picture of the demonstration: who held the cluster under each way to make room."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy
import pyarrow.compute as compute
import pyarrow.parquet
from matplotlib.axes import Axes

from analysis.curves import at_work_of
from analysis.demo.rows import PRODUCTION, RESEARCH, Done, job_of
from analysis.figures import style

_COLOURS = {RESEARCH: style.SKY, PRODUCTION: style.ORANGE}


def draw(runs: Sequence[Done], path: Path) -> None:
    """One panel for each run: the containers of both jobs over time.  Raises OSError."""
    figure, panels = style.new_figure(rows=len(runs), width=7.5, height=1.9)
    latest_s = max((job["finish_s"] or 0 for done in runs for job in done.summary["jobs"]), default=0)
    for panel, done in zip(panels, runs, strict=True):
        _draw_run(panel, done.directory)
        panel.set_xlim(0, 1.02 * latest_s)
        style.finish(panel, "", "containers", title=_title(done), legend=False)
    panels[-1].set_xlabel("emulated time, s", fontsize=style.FONT_POINTS)
    panels[0].legend(fontsize=style.FONT_POINTS - 1, frameon=False, loc="upper right", ncols=2)
    style.save(figure, [path])


def _draw_run(panel: Axes, directory: Path) -> None:
    attempts = pyarrow.parquet.read_table(directory / "attempts.parquet")
    tasks = attempts.filter(compute.field("kind") != "am")
    curves = [at_work_of(tasks.filter(compute.field("job") == job)) for job in _COLOURS]
    times_s = numpy.unique(numpy.concatenate([[0.0], *(times for times, _ in curves)]))
    counts = [numpy.concatenate([[0], held])[numpy.searchsorted(at, times_s, side="right")] for at, held in curves]
    panel.stackplot(times_s, *counts, step="post", labels=list(_COLOURS), colors=list(_COLOURS.values()), linewidth=0)


def _title(done: Done) -> str:
    research, production = (job_of(done.summary, name) for name in (RESEARCH, PRODUCTION))
    ends = ", ".join(
        f"{word} {job['completion_s']:.0f} s" if job["completion_s"] is not None else f"{word} {job['state']}"
        for word, job in (("research", research), ("production", production))
    )
    busy = "" if done.is_comparable else "; busy, not comparable"
    return f"{done.variant.name}: {ends}, work lost {research['lost_work_s']:,.0f} s{busy}"

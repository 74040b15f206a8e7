"""A packing: what every job holds over time, drawn as in FLEX's paper (flex, Fig. 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import pyarrow
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures import style


def packing(steps: Sequence[Mapping[str, Any]], jobs: Sequence[str]) -> Figure:
    """The figure of one run; ``steps``: ``start_s``, ``end_s`` and ``containers`` by job."""
    drawing, (panel,) = style.new_figure(width=7)
    draw_packing(panel, steps, jobs)
    style.finish(panel, "containers", "time, s", legend=len(jobs) <= 20)
    return drawing


def steps_of(shares: pyarrow.Table) -> list[dict[str, Any]]:
    """The steps of a run, from its ``shares.parquet``."""
    steps: dict[tuple[float, float], dict[str, int]] = {}
    for row in shares.to_pylist():
        steps.setdefault((row["start_s"], row["end_s"]), {})[row["job"]] = row["containers"]
    return [{"start_s": start_s, "end_s": end_s, "containers": held} for (start_s, end_s), held in steps.items()]


def draw_packing(panel: Axes, steps: Sequence[Mapping[str, Any]], jobs: Sequence[str]) -> None:
    """Containers across, time upwards, one colour for each job, and a line at each change."""
    colours = matplotlib.colormaps["rainbow_r"]
    colour_of = {job: colours(place / max(1, len(jobs) - 1)) for place, job in enumerate(jobs)}
    labelled: set[str] = set()
    for step in steps:
        left = 0
        for job in jobs:
            held = step["containers"].get(job, 0)
            if held:
                label = None if job in labelled else job
                labelled.add(job)
                height = step["end_s"] - step["start_s"]
                panel.barh(
                    step["start_s"], held, height, left, align="edge", color=colour_of[job], edgecolor="white",
                    linewidth=0.5, label=label,
                )  # fmt: skip
            left += held
        panel.axhline(step["end_s"], color=style.GREY, linewidth=0.5)

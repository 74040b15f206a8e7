"""What jobs hold of the cluster over time.

``holders`` shows it beside a transactional workload (reverse-adaptive, Figs 1 to 3), ``packing`` as FLEX's paper does
(flex, Fig. 4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import matplotlib
import numpy
import pyarrow
import pyarrow.compute as compute
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.curves import at_work_of
from analysis.figures import style
from emulator.policies.capacity import Capacity

_COLOURS = (style.BLUE, style.ORANGE, style.GREEN, style.PURPLE, style.SKY, style.VERMILLION)
MAX_JOBS = 20
"""Most jobs with an area each; more jobs share one area."""
_BINS = 400
"""Time spans in the picture of a run of tasks."""


def holders(steps: Sequence[Mapping[str, Any]], jobs: Sequence[Mapping[str, Any]]) -> Figure:
    """The figure of one run; see ``draw_holders``."""
    drawing, (panel,) = style.new_figure(width=7)
    draw_holders(panel, steps, jobs)
    style.finish(panel, "time, h", "containers", legend=False)
    style.legend_below(drawing)
    return drawing


def steps_of_attempts(attempts: pyarrow.Table, capacity: Capacity, end_s: float) -> list[dict[str, Any]]:
    """Steps for ``draw_holders``, from the attempts of tasks: means over equal time spans."""
    edges_s = numpy.linspace(0, max(end_s, 1e-9), _BINS + 1)
    tasks = attempts.filter(compute.field("kind") != "am")
    held: dict[str, list[float]] = {}
    for job in tasks.column("job").unique().to_pylist():
        times_s, counts = at_work_of(tasks.filter(compute.field("job") == job))
        if len(times_s):
            worked_s = numpy.concatenate([[0], numpy.cumsum(numpy.diff(times_s) * counts[:-1])])
            held[job] = (numpy.diff(numpy.interp(edges_s, times_s, worked_s)) / edges_s[1]).tolist()
    instants_ns = [round(edge_s * 1e9) for edge_s in edges_s]
    return [
        {
            "start_s": start_ns / 1e9,
            "end_s": until_ns / 1e9,
            "available": capacity.between(start_ns, until_ns) / max(1, until_ns - start_ns),
            "containers": {job: means[place] for job, means in held.items()},
        }
        for place, (start_ns, until_ns) in enumerate(pairwise(instants_ns))
    ]


def draw_holders(panel: Axes, steps: Sequence[Mapping[str, Any]], jobs: Sequence[Mapping[str, Any]]) -> None:
    """One area for each job, stacked; a thick line for the available containers; vertical lines for deadlines.

    Args:
        panel: where to draw.
        steps: ``start_s``, ``end_s``, ``available`` and ``containers`` by job.
        jobs: ``name`` and ``deadline_s`` of each, the lowest first.
    """
    names = [job["name"] for job in jobs]
    edges_h = [value / 3600 for step in steps for value in (step["start_s"], step["end_s"])]
    held = {name: [float(step["containers"].get(name, 0)) for step in steps for _ in range(2)] for name in names}
    if len(names) > MAX_JOBS:
        held = {"all jobs": [sum(column) for column in zip(*held.values(), strict=True)]}
    colours = [_COLOURS[place % len(_COLOURS)] for place in range(len(held))]
    areas = panel.stackplot(edges_h, *held.values(), labels=list(held), colors=colours, alpha=0.8, linewidth=0)
    for place, area in enumerate(areas):
        area.set_hatch(style.HATCHES[place % len(style.HATCHES)])
        area.set_edgecolor("white")
    line = [step["available"] for step in steps for _ in range(2)]
    panel.plot(edges_h, line, color=style.BLACK, linewidth=2, label="available, f(t)")
    if len(names) <= MAX_JOBS:
        for job, colour in zip(jobs, colours, strict=False):
            if job["deadline_s"] is not None:
                panel.axvline(job["deadline_s"] / 3600, color=colour, linestyle="--", linewidth=1.2)
    panel.set_ylim(0, max(line, default=1) * 1.05)


# ---- packing ----


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

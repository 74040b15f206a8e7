"""Figures of runs, from the frames of ``analysis.load``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import metrics
from analysis.figures import style
from analysis.frames import DataFrame, Series
from analysis.load import Results

FEWEST_VALUES = 5
"""Of fewer values a distribution would say more than is known: each is a mark."""
MOST_DOTS = 30
"""With more jobs, only the distribution is readable."""
_OPERATION_NAMES = {"application_master_start": "AM start"}


def completion_cdf(results: Results) -> Figure:
    """Share of jobs done within a time: one panel for each queue, one curve for each run (with all its repeats)."""
    queues = sorted(results.jobs["queue"].unique())
    figure, panels = style.new_figure(1, len(queues))
    for queue, panel in zip(queues, panels, strict=True):
        mine = results.jobs[results.jobs["queue"] == queue]
        for index, (run, jobs) in enumerate(mine.groupby("run", sort=False)):
            _cdf(panel, jobs["completion_s"], index, str(run))
        panel.set_ylim(0, 1.02)
        style.finish(panel, "completion time, s", "share of jobs", queue)
    return figure


def differences(pairs: DataFrame, a: str, b: str, quantity: str = "completion time, s") -> Figure:
    """Per-job differences, ``a`` minus ``b``: left of 0 are the jobs that ``a`` finished earlier.

    The papers' CDF; for up to ``MOST_DOTS`` jobs, one dot for each, with its name.  Each queue has a colour.

    Args:
        pairs: from ``analysis.statistics.pair_jobs``.
        a, b: names of the two sides.
        quantity: what is compared, with its unit.
    """
    few = len(pairs) <= MOST_DOTS
    figure, (panel,) = style.new_figure(width=6, height=max(2.0, 0.24 * len(pairs) + 1.2) if few else 3.8)
    ordered = pairs.sort_values("difference", ascending=False).reset_index(drop=True)
    queues = sorted(pairs["queue"].unique())
    for index, queue in enumerate(queues):
        found = ordered[ordered["queue"] == queue]
        if few:
            colour = style.LINES[index % len(style.LINES)]["color"]
            panel.plot(found["difference"], found.index, style.marker(index), color=colour, label=queue)
        else:
            _cdf(panel, found["difference"], index, f"{queue} ({len(found)} jobs)")
    panel.axvline(0, color=style.GREY, linewidth=0.8)
    if few:
        panel.set_yticks(ordered.index, ordered["name"])
        style.finish(panel, f"difference of {quantity}\n{a} minus {b}", "job")
    else:
        panel.set_ylim(0, 1.02)
        style.finish(panel, f"difference of {quantity}\n{a} minus {b}", "share of jobs")
    return figure


def _cdf(panel: Axes, values: Series, index: int, label: str) -> None:
    """The distribution of some values as a curve; a few are marks at the height of their group's number."""
    x, y = metrics.cdf(values)
    if 0 < len(x) < FEWEST_VALUES:
        colour = style.LINES[index % len(style.LINES)]["color"]
        panel.plot(x, [0.05 * (index + 1)] * len(x), style.marker(index), color=colour, label=f"{label}, each alone")
    elif len(x):
        panel.step(
            numpy.concatenate([x[:1], x]), numpy.concatenate([[0], y]), where="post", label=label, **style.line(index)
        )


def utilization_over_time(results: Results) -> Figure:
    """Share of the containers in which a process works: one curve for each run, from its first repeat."""
    figure, (panel,) = style.new_figure(width=7)
    containers = results.runs.drop_duplicates("run").set_index("run")["containers"]
    for index, (run, attempts) in enumerate(_first_repeats(results.attempts)):
        suspensions = dict(_first_repeats(results.suspensions)).get(run, results.suspensions.iloc[:0])
        times_s, busy = metrics.busy_containers(attempts, suspensions)
        panel.step(times_s, 100 * busy / containers[run], where="post", label=run, **style.line(index))
    panel.set_ylim(0, 105)
    style.finish(panel, "time, emulated s", "containers at work, %")
    return figure


def _first_repeats(frame: DataFrame) -> list[tuple[str, DataFrame]]:
    first = frame[frame["repeat"] == frame.groupby("run")["repeat"].transform("min")]
    return [(str(run), found) for run, found in first.groupby("run", sort=False)]


def overhead_distributions(results: Results) -> Figure:
    """Durations: one box for each run and operation, with quartiles, and whiskers at the 1st and 99th percentile."""
    found = {
        (str(operation), str(run)): frame["total_s"].to_numpy()
        for (operation, run), frame in results.operations.groupby(["operation", "run"], sort=False)
    }
    operations = list(dict.fromkeys(operation for operation, _ in found))
    runs = list(dict.fromkeys(results.runs["run"]))
    figure, (panel,) = style.new_figure(width=max(5.0, 1.1 * len(operations) * max(1, len(runs) / 2)))
    _boxes(panel, found, operations, runs)
    labels = [_OPERATION_NAMES.get(operation, operation) for operation in operations]
    panel.set_xticks(range(len(operations)), labels)
    panel.set_ylim(bottom=0)
    style.finish(panel, "operation", "duration, emulated s")
    return figure


def _boxes(panel: Axes, found: Mapping[tuple[str, str], numpy.ndarray], operations: list[str], runs: list[str]) -> None:
    width = 0.8 / max(1, len(runs))
    for index, run in enumerate(runs):
        places = [place for place, operation in enumerate(operations) if (operation, run) in found]
        if not places:
            continue
        boxes = panel.boxplot(
            [found[operations[place], run] for place in places],
            positions=[place + (index - (len(runs) - 1) / 2) * width for place in places],
            widths=0.8 * width,
            whis=(1, 99),
            showfliers=False,
            patch_artist=True,
            medianprops={"color": style.BLACK},
        )
        for box in boxes["boxes"]:
            box.set(facecolor=style.LINES[index % len(style.LINES)]["color"], alpha=0.6)
            box.set_hatch(style.HATCHES[index % len(style.HATCHES)])
        boxes["boxes"][0].set_label(run)

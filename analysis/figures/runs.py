"""Two sides compared job by job, from the frames of ``analysis.load``."""

from __future__ import annotations

import numpy
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import metrics
from analysis.figures import style
from analysis.frames import DataFrame, Series
from emulator.vocabulary import counted

FEWEST_VALUES = 5
"""The fewest values that are drawn as a distribution; of fewer, each is a mark."""
MAX_DOTS = 30
"""With more jobs, only the distribution is readable."""


def differences(pairs: DataFrame, a: str, b: str, quantity: str = "completion time, s") -> Figure:
    """Per-job differences, ``a`` minus ``b``: left of 0 are the jobs that ``a`` finished earlier.

    The papers' CDF; for up to ``MAX_DOTS`` jobs, one dot for each, with its name.  Each queue has a colour.

    Args:
        pairs: from ``analysis.statistics.pair_jobs``.
        a, b: names of the two sides.
        quantity: what is compared, with its unit.
    """
    few = len(pairs) <= MAX_DOTS
    figure, (panel,) = style.new_figure(width=6, height=max(2.0, 0.24 * len(pairs) + 1.2) if few else 3.8)
    ordered = pairs.sort_values("difference", ascending=False).reset_index(drop=True)
    queues = sorted(pairs["queue"].unique())
    for index, queue in enumerate(queues):
        found = ordered[ordered["queue"] == queue]
        if few:
            colour = style.LINES[index % len(style.LINES)]["color"]
            panel.plot(found["difference"], found.index, style.marker(index), color=colour, label=queue)
        else:
            _cdf(panel, found["difference"], index, f"{queue} ({counted(len(found), 'job')})")
    panel.axvline(0, color=style.GREY, linewidth=0.8)
    if few:
        panel.set_yticks(ordered.index, ordered["job"])
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

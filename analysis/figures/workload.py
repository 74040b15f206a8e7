"""Figure of a workload: arrivals and the distributions of sizes and lengths."""

from __future__ import annotations

from matplotlib.figure import Figure

from analysis.figures import style
from emulator.vocabulary import counted
from workloads.inspection import DISTRIBUTIONS, Inspection


def workload_figure(inspection: Inspection) -> Figure:
    """Submissions an hour, and a histogram of each distribution that is not empty, on logarithmic axes."""
    names = [name for name in DISTRIBUTIONS if inspection.distributions[name].count]
    columns = 3
    figure, panels = style.new_figure(-(-(len(names) + 1) // columns), columns)
    panels[0].bar(range(len(inspection.hourly)), inspection.hourly, width=1, align="edge", color=style.BLUE)
    panels[0].locator_params(axis="x", integer=True)
    style.finish(panels[0], "hour", "submissions", "arrivals", legend=False)
    for name, panel in zip(names, panels[1:], strict=False):
        bins = inspection.distributions[name].per_decade(4)
        zeros = sum(count for _, high, count in bins if not high)  # which a logarithmic axis has no place for
        bins = [one for one in bins if one[1]]
        panel.bar(
            [low for low, _, _ in bins],
            [count for _, _, count in bins],
            width=[high - low for low, high, _ in bins],
            align="edge",
            color=style.BLUE,
        )
        panel.set_xscale("log")
        title = f"{name} ({counted(zeros, 'value')} of 0 not drawn)" if zeros else name
        style.finish(panel, f"{name}, {DISTRIBUTIONS[name]}", "count", title, legend=False)
    for panel in panels[: len(names) + 1]:
        panel.locator_params(axis="y", integer=True)
    for panel in panels[len(names) + 1 :]:
        panel.set_visible(False)
    return figure

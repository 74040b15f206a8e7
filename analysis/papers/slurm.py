"""The picture of the recorded runs of a real Slurm."""

from __future__ import annotations

from matplotlib.figure import Figure

from analysis.figures import style
from analysis.papers.slurm_runs import JOB_BOUND, JOB_BOUND_S
from analysis.reproduce.reproduced import Reproduced, Reproduction


def recorded(figure: Reproduced, _: Reproduction) -> Figure:
    """The completion of each job that ended in both: recorded and simulated, beside the bounds."""
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

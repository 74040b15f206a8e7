"""What Natjam's figures measure."""

from __future__ import annotations

from statistics import fmean

from analysis.reproduce.definitions import FigureDefinition
from analysis.reproduce.measure import Summaries, values_of

EPSILON = "epsilon"
"""The variant of Fig. 11; the points of its grid are the values of epsilon."""
MARGINS = {"job-1": "jobs.job-1.margin_s", "job-2, 1 s earlier": "jobs.job-2.margin_s"}
"""Of Fig. 11: the deadline less the completion time, by job."""


def tightest_deadlines(figure: FigureDefinition, summaries: Summaries) -> dict[str, float | None]:
    """Fig. 11: the least epsilon from which on both jobs meet their deadlines, and that of the earlier deadline."""
    both, earlier = tuple(MARGINS.values()), (MARGINS["job-2, 1 s earlier"],)
    return {
        "both met from epsilon": first_met(figure, both, summaries),
        "shorter met from epsilon": first_met(figure, earlier, summaries),
    }


def first_met(figure: FigureDefinition, margins: tuple[str, ...], summaries: Summaries) -> float | None:
    """The lowest epsilon from which on the mean of every margin is 0 or more; None if there is none."""
    assert figure.grid is not None
    lowest = None
    for point in sorted(figure.grid.points, key=float, reverse=True):
        found = [values_of(summaries, figure.at(EPSILON, point), margin) for margin in margins]
        if any(not values or fmean(values) < 0 for values in found):
            break
        lowest = float(point)
    return lowest

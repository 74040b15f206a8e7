"""What OS-assisted preemption's figures measure."""

from __future__ import annotations

import statistics

from analysis.reproduce.definitions import FigureDefinition
from analysis.reproduce.measure import Summaries, ratios, values_of

_FEWEST = 3


def straightness(figure: FigureDefinition, summaries: Summaries) -> dict[str, float | None]:
    """Fig. 4: how straight a line of the overheads over the swapped bytes is, as r squared over high's memories."""
    sojourn = ("suspend", "kill", "jobs.high.completion_s")
    makespan = ("suspend", "wait", "makespan_s")
    return {
        "sojourn over swapped bytes, r squared": _r_squared(figure, summaries, *sojourn),
        "makespan over swapped bytes, r squared": _r_squared(figure, summaries, *makespan),
    }


def _r_squared(figure: FigureDefinition, summaries: Summaries, of: str, over: str, value: str) -> float | None:
    """Of one scheduler's figure over another's; None for fewer than three points at which both were measured."""
    assert figure.grid is not None
    pairs = []
    for point in figure.grid.points:
        swapped = values_of(summaries, figure.at(of, point), "swap_bytes")
        overheads = list(ratios(figure, of, over, point, summaries, value).values())
        if swapped and overheads:
            pairs.append((statistics.fmean(swapped), statistics.fmean(overheads)))
    if len(pairs) < _FEWEST or any(len(set(values)) < 2 for values in zip(*pairs, strict=True)):
        return None
    return statistics.correlation(*zip(*pairs, strict=True)) ** 2

"""What only one figure of a paper measures: its cells with ``own: true``, by the figure's id.

The numbers of Reverse-Adaptive's example are those that its text says (sections II to IV, Figs 1 to 4), of fluid runs
whose ``shares`` say who held how many containers when.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Any

from analysis.reproduce.definitions import FigureDefinition
from analysis.reproduce.measure import Summaries, ratios, values_of
from emulator.experiment.availability import capacity_of
from emulator.experiment.catalog import catalog_directory
from emulator.experiment.load import load_experiment
from emulator.experiment.model import Experiment
from emulator.files.times import seconds_to_ns
from emulator.policies.reverse_adaptive.fitting import Goal, Period, fitted
from emulator.policies.reverse_adaptive.utility import map_utility, reduce_utility

EPSILON = "epsilon"
"""The variant of Fig. 11; the points of its grid are the values of epsilon."""
MARGINS = {"job-1": "jobs.job-1.margin_s", "job-2, 1 s earlier": "jobs.job-2.margin_s"}
"""The deadline less the completion time in Fig. 11, by job."""


def tightest_deadlines(figure: FigureDefinition, summaries: Summaries) -> dict[str, float | None]:
    """Natjam, Fig. 11: the least epsilon from which on both jobs meet their deadlines, and the earlier one does."""
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


_FEWEST = 3


def straightness(figure: FigureDefinition, summaries: Summaries) -> dict[str, float | None]:
    """OS-assisted preemption, Fig. 4: how straight a line of the overheads over the swapped bytes is.

    It is said as r squared over high's memories.
    """
    sojourn = ("suspend", "kill", "jobs.high.completion_s")
    makespan = ("suspend", "wait", "makespan_s")
    return {
        "sojourn over swapped bytes, r squared": _r_squared(figure, summaries, *sojourn),
        "makespan over swapped bytes, r squared": _r_squared(figure, summaries, *makespan),
    }


def _r_squared(figure: FigureDefinition, summaries: Summaries, of: str, over: str, value: str) -> float | None:
    """R squared of one scheduler's figure over another's; None for fewer than three points that have both."""
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


Summary = Mapping[str, Any]
Numbers = dict[str, float | None]

EXAMPLE = "reverse-adaptive-example.yaml"
S_FIT, S_REQ, S_PEND, R_PEND = 10, 15, 35, 10
"""The job of the paper's Fig. 4."""
_D1_H, _D2_H, _D3_H = 6.5, 15.0, 23.1
_HOUR_S = 3600.0


def holders(_: FigureDefinition, summaries: Summaries) -> Numbers:
    """Reverse-Adaptive, Figs 1 and 2: who holds the cluster when."""
    return {
        **{
            f"{name}: hours with all jobs, {from_h} to {to_h}": _of(summaries, variant, _together_h, from_h, to_h)
            for name, variant in (("Adaptive", "adaptive"), ("stable", "stable"))
            for from_h, to_h in ((0, 5), (5, 7), (7, 11))
        },
        "Reverse-Adaptive: J3 starts, h": _of(summaries, "reverse-adaptive", _starts_h, "J3"),
        "Reverse-Adaptive: J3 after D2, %": _of(summaries, "reverse-adaptive", _share_pct, "J3", _D2_H, _D3_H),
        "Reverse-Adaptive: J1 until D1, %": _of(summaries, "reverse-adaptive", _share_pct, "J1", 0, _D1_H),
        "Reverse-Adaptive: J2 from D1 to D2, %": _of(summaries, "reverse-adaptive", _share_pct, "J2", _D1_H, _D2_H),
        "transactional peak, h": _of(summaries, "reverse-adaptive", _peak_h),
    }


def fills(figure: FigureDefinition, summaries: Summaries) -> Numbers:
    """Two of these numbers by the work of the jobs."""
    found: Numbers = {}
    for point in figure.grid.points if figure.grid is not None else ():
        found[f"J3 starts, h: reverse-adaptive, {point}"] = _of(
            summaries, figure.at("reverse-adaptive", point), _starts_h, "J3"
        )
        for variant in ("adaptive", "adaptive-by-deadline"):
            name = f"hours with all jobs, 7 to 11: {variant}, {point}"
            found[name] = _of(summaries, figure.at(variant, point), _together_h, 7, 11)
    return found


def axes(figure: FigureDefinition, summaries: Summaries) -> Numbers:
    """Fig. 9: the least and the largest bar of each row, over all schedulers, levels and loads."""
    found: Numbers = {}
    for row, path, over in (
        ("missed, %", "missed_pct", 1.0),
        ("beyond, h", "beyond_s", _HOUR_S),
        ("room, h", "room_s", _HOUR_S),
    ):
        bars = [
            fmean(values) / over
            for name in figure.settings
            if (values := values_of(summaries, name, f"deadlines.{path}"))
        ]
        found[f"least {row}"], found[f"most {row}"] = min(bars, default=None), max(bars, default=None)
    return found


def fit(_: FigureDefinition, __: Summaries) -> Numbers:
    """Figs 3 and 4: what Algorithm 1 fits into which period, and what slots are worth."""
    return {
        "step 1: J3, %": _fitted_pct(2, 0),
        "step 3: J3, %": _fitted_pct(2, 2),
        "step 3: J2, %": _fitted_pct(1, 2),
        "left after step 3, %": _left_pct(),
        "utility at s_fit": map_utility(S_FIT, S_FIT, S_REQ, S_PEND),
        "utility at s_req": map_utility(S_REQ, S_FIT, S_REQ, S_PEND),
        "utility at s_pend": map_utility(S_PEND, S_FIT, S_REQ, S_PEND),
        "utility of one reduce": reduce_utility(1, R_PEND),
        "utility of all reduces": reduce_utility(R_PEND, R_PEND),
    }


def _of(summaries: Summaries, variant: str, number: Callable[..., float | None], *given: Any) -> float | None:
    """A number of the run of a variant; None if it was not made."""
    run = next(iter(summaries.get(variant, {}).values()), None)
    return None if run is None else number(run, *given)


def _together_h(summary: Summary, from_h: float, to_h: float) -> float:
    """Hours between two times in which each of the jobs that have not ended holds containers."""
    jobs = summary["jobs"]
    return sum(
        _overlap_h(step, from_h, to_h)
        for step in summary["shares"]
        if all(step["containers"].get(job["name"]) for job in jobs if job["finish_s"] > step["start_s"])
    )


def _share_pct(summary: Summary, job: str, from_h: float, to_h: float) -> float | None:
    """Percentage of what all jobs held between two times that one of them held."""
    held = {"all": 0.0, "job": 0.0}
    for step in summary["shares"]:
        hours = _overlap_h(step, from_h, to_h)
        held["all"] += hours * sum(step["containers"].values())
        held["job"] += hours * step["containers"].get(job, 0)
    return 100 * held["job"] / held["all"] if held["all"] else None


def _overlap_h(step: Mapping[str, Any], from_h: float, to_h: float) -> float:
    return max(0.0, min(step["end_s"] / _HOUR_S, to_h) - max(step["start_s"] / _HOUR_S, from_h))


def _starts_h(summary: Summary, job: str) -> float | None:
    return next((step["start_s"] / _HOUR_S for step in summary["shares"] if step["containers"].get(job)), None)


def _peak_h(summary: Summary) -> float | None:
    """The middle of the time in which the fewest containers are left."""
    steps = summary["shares"]
    least = min((step["available"] for step in steps), default=0)
    lowest = [step for step in steps if step["available"] == least]
    return (lowest[0]["start_s"] + lowest[-1]["end_s"]) / 2 / _HOUR_S if lowest else None


def example_goals(experiment: Experiment) -> list[Goal]:
    """The jobs of the example at hour 0."""
    return [
        Goal(seconds_to_ns(job.deadline_s or 0), job.maps * seconds_to_ns(float(str(job.map_s))), job.maps)
        for job in experiment.workload.jobs or ()
    ]


def example_periods(experiment: Experiment) -> tuple[list[int], list[Period]]:
    """Algorithm 1 at hour 0: work of each job that cannot wait, and the periods, the last first."""
    cluster = experiment.cluster
    return fitted(example_goals(experiment), capacity_of(cluster.availability, cluster.containers), 0)


def _fitted_pct(job: int, period: int) -> float:
    """Percentage of a job's work that Algorithm 1 fits into a period, the last one first."""
    experiment = load_experiment(catalog_directory() / EXAMPLE)
    _, periods = example_periods(experiment)
    work_ns = example_goals(experiment)[job].work_ns
    return 100 * sum(took_ns for index, took_ns in periods[period].fitted_ns if index == job) / work_ns


def _left_pct() -> float:
    """Percentage of all work that Algorithm 1 fits into no period."""
    experiment = load_experiment(catalog_directory() / EXAMPLE)
    left, _ = example_periods(experiment)
    return 100 * sum(left) / sum(goal.work_ns for goal in example_goals(experiment))


_CELLS: Mapping[str, Callable[[FigureDefinition, Summaries], dict[str, float | None]]] = {
    "natjam/fig11": tightest_deadlines,
    "os-assisted/fig4": straightness,
    "reverse-adaptive/fig1": holders,
    "reverse-adaptive/fig3": fit,
    "reverse-adaptive/fig9": axes,
    "reverse-adaptive/fills": fills,
}


def own_cells(figure: FigureDefinition, summaries: Summaries) -> dict[str, float | None]:
    """The cells of a figure that its paper's function measures, by name."""
    return _CELLS[figure.id](figure, summaries) if figure.id in _CELLS else {}

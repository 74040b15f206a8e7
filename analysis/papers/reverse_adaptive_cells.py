"""What the text of Reverse-Adaptive's paper says of its example, as numbers (sections II to IV, Figs 1 to 4), and what
the axes of Fig. 9 show.

Those of the example are of fluid runs, whose ``shares`` say who held how many containers when.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Any

from analysis.reproduce.definitions import FigureDefinition
from analysis.reproduce.measure import Summaries, values_of
from emulator.experiment.availability import capacity_of
from emulator.experiment.catalog import catalog_directory
from emulator.experiment.load import load_experiment
from emulator.experiment.model import Experiment
from emulator.files.times import seconds_to_ns
from emulator.policies.reverse_adaptive.fitting import Goal, Period, fitted
from emulator.policies.reverse_adaptive.utility import map_utility, reduce_utility

Summary = Mapping[str, Any]
Numbers = dict[str, float | None]

EXAMPLE = "reverse-adaptive-example.yaml"
S_FIT, S_REQ, S_PEND, R_PEND = 10, 15, 35, 10
"""The job of the paper's Fig. 4."""
_D1_H, _D2_H, _D3_H = 6.5, 15.0, 23.1
_HOUR_S = 3600.0


def holders(_: FigureDefinition, summaries: Summaries) -> Numbers:
    """Figs 1 and 2: who holds the cluster when."""
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

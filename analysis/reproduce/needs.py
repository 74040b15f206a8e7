"""What a reproduction needs before it starts: how many runs, about how long, and what this machine lacks."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TypedDict

from analysis.reproduce.definitions import FigureDefinition
from emulator.campaign.directory import Variant, planned_runs
from emulator.display.work_display import in_words
from emulator.errors import ConfigError
from emulator.experiment.model import Experiment
from emulator.live.dumpers.criu import why_no_criu
from emulator.live.memory.nodes import why_no_swap
from emulator.sim.session import calibration_warning
from emulator.vocabulary import counted

_IMAGE_MECHANISMS = ("image", "adaptive")
_START_REAL_S = 3.0
"""Start and end of a live run."""


class Took(TypedDict):
    """What one run of a figure took when it was last measured, on average over its variants or some of them."""

    cpu_s: float
    """Processor time of its simulation, on the machine that measured it."""
    makespan_s: float


@cache
def stored() -> Mapping[str, Took]:
    """By figure; ``docs/timings.py`` measures it."""
    return json.loads((Path(str(resources.files("analysis"))) / "claims/took.json").read_text())


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be done."""

    runs: int
    """Without those that were made before, and those that several figures share."""
    made: int
    """Made before."""
    untimed: int
    """How many of these runs are of figures that were never timed."""
    real_s: float
    """About how long the others take on this machine."""

    def __str__(self) -> str:
        left = f"{counted(self.runs, 'run')} to make" + (f" ({self.made} were made before)" if self.made else "")
        if not self.runs:
            return left
        if self.untimed == self.runs:
            return f"{left}; how long they take is seen after the first of them"
        how_long = f"{left}, about {in_words(self.real_s)} on {os.cpu_count() or 1} cores that do nothing else"
        return how_long + (f", and {counted(self.untimed, 'run')} of figures never timed" if self.untimed else "")


def work_of(variants: Mapping[str, Sequence[Variant]], made: Collection[str] = ()) -> Work:
    """The runs of figures, by figure; ``made``: the SHA-256 of those that are there."""
    took_by_run: dict[str, float | None] = {}
    for figure, of_figure in variants.items():
        took = stored().get(figure)
        for run in planned_runs(of_figure):
            took_by_run[run.sha256] = None if took is None else _run_real_s(took, run.experiment)
    left = [real_s for sha256, real_s in took_by_run.items() if sha256 not in made]
    known = [real_s for real_s in left if real_s is not None]
    return Work(len(left), len(took_by_run) - len(left), len(left) - len(known), sum(known))


def _run_real_s(took: Took, experiment: Experiment) -> float:
    if experiment.engine == "live":
        return took["makespan_s"] / experiment.time_scale + _START_REAL_S
    return took["cpu_s"] / (os.cpu_count() or 1)


def cost_of(figure: FigureDefinition, seeds: int, engine: str) -> str:
    """What so many seeds of a figure take, in words."""
    runs, took = len(figure.by(engine).settings) * seeds, stored().get(figure.id)
    if took is None:
        return counted(runs, "run")
    if engine == "live":
        return f"{counted(runs, 'live run')} of some {took['makespan_s']:.0f} emulated seconds"
    return f"{counted(runs, 'run')}, {in_words(runs * took['cpu_s'])} of processor time"


def lacking(variants: Mapping[str, Sequence[Variant]]) -> dict[str, str]:
    """Figures that cannot be made on this machine as it is, and why: they simulate it, and it has not been measured;
    or they are live, and save programs or swap, which it cannot."""
    found = {figure: filter(None, (_lacks(one.experiment) for one in of_them)) for figure, of_them in variants.items()}
    return {figure: why for figure, whys in found.items() if (why := next(whys, None)) is not None}


def _lacks(experiment: Experiment) -> str | None:
    if experiment.engine == "sim":
        try:
            calibration_warning(experiment)
        except ConfigError as error:
            return error.message
        return None
    jobs, cluster = experiment.workload.jobs or (), experiment.cluster
    saves = experiment.scheduler.choice("mechanism").name in _IMAGE_MECHANISMS
    if saves and any(job.tasks for job in jobs) and (why := why_no_criu()):
        return f"its programs are saved by criu: {why}"
    if cluster.swap_gb and sum(job.largest_task_gb for job in jobs) > cluster.memory_gb and (why := why_no_swap()):
        return f"its tasks hold more than cluster.memory_gb: {why}"
    return None

"""Runs both engines on several experiments; it can be stopped and continued.

Live runs are a campaign: complete ones are not repeated (``emulator.campaign.runner``).  Simulations are always run
again, with the present calibration, on all cores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from analysis.fidelity.figures import FileFidelity, choices_of, compare
from analysis.whole_run import run_experiment
from emulator.campaign.directory import CampaignDirectory, PlannedRun
from emulator.campaign.runner import run_campaign
from emulator.campaign.spread import ProcessWorkers, spread
from emulator.costs.calibration_file import AUTO, chosen_path, load_calibration
from emulator.display.work_display import WorkStatus
from emulator.errors import RunError
from emulator.experiment.model import Experiment
from emulator.fluid.session import simulated as simulated_fluid
from emulator.policies.axes import AXES
from emulator.policies.policy import ShareAllocation
from emulator.records.summary import build_summary
from emulator.resolved import resolve
from emulator.sim.session import simulated_history

SIMULATED_RUNS = 10
"""Simulations of each experiment: they are cheap, and their mean should be that of the model."""
REPEATS, REPEATS_DRAWING = 1, 5
"""Live runs of an experiment.  If its policies draw at random, each run has another seed, so that the mean does not
depend on the draws."""
NOISY_LAG_FACTOR = 1.5
"""If a live run's timers are later than when the machine was measured by this factor, other programs were running."""
_Summaries = list[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Case:
    """One experiment to compare the engines on."""

    name: str
    label: str
    """The prefix of the names of its live runs, unique among cases."""
    experiment: Experiment
    repeats: int
    draws: bool
    """Whether its policies draw at random."""

    @property
    def experiments(self) -> list[Experiment]:
        """One for each live run."""
        first = self.experiment.seed
        seeds = [first + number * self.draws for number in range(self.repeats)]
        return [self.experiment.model_copy(update={"seed": seed}) for seed in seeds]

    @property
    def live_runs(self) -> list[PlannedRun]:
        """Its live runs; several may have one seed, so each is a variant of its own."""
        return [
            PlannedRun(f"{self.label}-live-{number}", experiment, {})
            for number, experiment in enumerate(self.experiments, 1)
        ]


def make_case(name: str, label: str, experiment: Experiment, repeats: int | None) -> Case:
    """The case of an experiment; its simulations use this machine's costs, unless it names others.

    ``repeats``: number of live runs; None: as many as its policies need.

    Raises:
        ConfigError: this machine has not been measured.
    """
    calibration = experiment.calibration or AUTO
    chosen_path(experiment.overheads, calibration)
    draws = any(_draws(axis.replace(" ", "_"), name) for axis, name in choices_of(experiment))
    if repeats is None:
        repeats = REPEATS_DRAWING if draws else REPEATS
    once = experiment.model_copy(update={"engine": "live", "calibration": calibration, "repeats": 1})
    return Case(name, label, once, repeats, draws)


def _draws(axis: str, name: str) -> bool:
    policy = AXES[axis].by_name.get(name)
    return policy is None or policy.draws


def run_live(
    cases: Sequence[Case], directory: CampaignDirectory, on_status: Callable[[WorkStatus], None]
) -> list[list[Mapping[str, Any]]]:
    """Make the missing live runs of all cases in ``directory``, which the caller holds; the summaries of each case.

    Raises:
        ConfigError: the directory has runs of other experiments under these names.
        RunError: a run failed.
    """
    runs = [run for case in cases for run in case.live_runs]
    made = run_campaign("fidelity", runs, directory, run_experiment, on_status)
    if made.failures:
        raise RunError("\n".join(f"{directory.path}: {name}: {why}" for name, why in made.failures.items()))
    summaries = {run.name: summary for run in runs if (summary := made.summary(run)) is not None}
    return [[summaries[run.name] for run in case.live_runs] for case in cases]


def comparison(case: Case, live: Sequence[Mapping[str, Any]], simulated: Sequence[_Summaries]) -> FileFidelity:
    """How far the engines differ in one case."""
    return compare(case.name, case.experiment, live, simulated, _fluid(case))


def noise(case: Case, summaries: Sequence[Mapping[str, Any]]) -> str | None:
    """A warning about live runs that were not alone on the machine."""
    path = chosen_path(case.experiment.overheads, case.experiment.calibration)
    assert path is not None
    measured_ms = load_calibration(path).operations.timer_lag.p99_real_ns[0] / 1e6
    lags_ms = [summary["lag"]["p99_real_ms"] for summary in summaries]
    if max(lags_ms) <= NOISY_LAG_FACTOR * measured_ms:
        return None
    shown = ", ".join(f"{lag_ms:.1f}" for lag_ms in lags_ms)
    return (
        f"{case.label}: the timers of its live runs were late by {shown} ms (p99), against {measured_ms:.1f} ms when "
        "the machine was measured: other programs were running, or the machine was slower"
    )


class _Draw(NamedTuple):
    """One simulation: the number of its case, the experiment with its seed, and which draw of the machine's costs."""

    case: int
    experiment: Experiment
    number: int


def simulate(cases: Sequence[Case], on_status: Callable[[WorkStatus], None]) -> list[list[_Summaries]]:
    """For each live run of each case, the simulations with its seed, made on all cores."""
    tasks = [
        _Draw(place, experiment, number)
        for place, case in enumerate(cases)
        for experiment in {experiment.seed: experiment for experiment in case.experiments}.values()
        for number in range(SIMULATED_RUNS)
    ]
    made: dict[tuple[int, int, int], Mapping[str, Any]] = {}
    with ProcessWorkers(_simulated_batch, preloaded=[__name__, "emulator.sim.session"]) as workers:
        for found in spread(tasks, workers):
            made.update(found)
            on_status(WorkStatus(f"{len(tasks)} simulations", len(made) / len(tasks), None))
    return [
        [[made[place, experiment.seed, number] for number in range(SIMULATED_RUNS)] for experiment in case.experiments]
        for place, case in enumerate(cases)
    ]


def _simulated_batch(batch: Sequence[_Draw]) -> list[tuple[tuple[int, int, int], Mapping[str, Any]]]:
    return [
        ((task.case, task.experiment.seed, task.number), _simulated_summary(task.experiment, task.number))
        for task in batch
    ]


def _fluid(case: Case) -> list[Mapping[str, float]]:
    """Completion times in fluid runs with the seeds of the live runs, if the allocation gives shares."""
    if not isinstance(case.experiment.scheduler.allocation.known, ShareAllocation):
        return []
    found: list[Mapping[str, float]] = []
    for seed in dict.fromkeys(experiment.seed for experiment in case.experiments):
        run = resolve(case.experiment.model_copy(update={"seed": seed}))
        ends_ns = simulated_fluid(run, lambda record: None)[1].ends_ns
        found.append({job.name: (ends_ns[job.name] - job.submit_ns) / 1e9 for job in run.jobs})
    return found


def _simulated_summary(experiment: Experiment, draw: int) -> Mapping[str, Any]:
    run = resolve(experiment)
    return build_summary(simulated_history(run, draw), run, versions={}, machines=(), real_s=0.0, lag={}, output=None)

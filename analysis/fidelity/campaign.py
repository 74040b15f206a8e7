"""Runs both engines on several experiments; it can be stopped and continued.

Simulations come first, on all cores.  They are always run again, with the present calibration.  Live runs keep their
run directories, and complete ones are not repeated.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from analysis.fidelity.figures import FileFidelity, choices_of, compare
from analysis.whole_run import run_experiment
from emulator.campaign.kept_runs import DIGESTS_NAME, KeptRuns, keep_digest
from emulator.campaign.processes import ProcessWorkers
from emulator.campaign.spread import spread
from emulator.costs.calibration import AUTO, chosen_path, load_calibration
from emulator.display.closing_tables import failures
from emulator.display.work_display import WorkStatus
from emulator.errors import ConfigError, RunError
from emulator.experiment.inputs import Inputs
from emulator.experiment.load import load_experiment
from emulator.experiment.model import Experiment
from emulator.files.whole_files import held_directory
from emulator.fluid.session import simulated as simulated_fluid
from emulator.policies.allocation_forms import ShareAllocation
from emulator.policies.axes import ALLOCATION, AXES
from emulator.records.run_directory import EXPERIMENT_NAME, SUMMARY_NAME, RunDirectory, sha256_of
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
_AROUND_REAL_S = 8.0
"""Real time of a live run in addition to its emulated time, until one was timed."""
_LIVE = "-live-"
_Summaries = list[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Case:
    """One experiment to compare the engines on."""

    name: str
    label: str
    """Name of its live runs' directories, unique among cases."""
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

    def run_dirs(self, directory: Path) -> list[Path]:
        """The directories of its live runs."""
        return [directory / f"{self.label}{_LIVE}{number}" for number in range(1, self.repeats + 1)]


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


@contextlib.contextmanager
def taken_directory(directory: Path) -> Iterator[None]:
    """Create the directory, or use one that has only an earlier comparison's results; others are kept out of it.

    Raises:
        ConfigError: it cannot be used, or another process uses it.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        strange = [path.name for path in directory.iterdir() if not _is_ours(path)]
    except OSError as error:
        raise ConfigError(f"{directory}: cannot be written: {error.strerror}; name another directory") from None
    if strange:
        raise ConfigError(f"{directory}: has {strange[0]}, not from a comparison; name a new or empty directory")
    with held_directory(directory, "another comparison is running there; name another directory"):
        yield


def _is_ours(path: Path) -> bool:
    return _LIVE in path.name or path.stem == "fidelity" or path.name == DIGESTS_NAME


def run_cases(
    cases: Sequence[Case],
    directory: Path,
    on_status: Callable[[WorkStatus], None],
    on_noise: Callable[[str], None],
) -> Iterator[FileFidelity]:
    """Make all missing runs, and say for each case in turn how far the engines differ.

    ``on_noise`` is called for live runs that were not alone on the machine.

    Raises:
        ConfigError: the directory has live runs of other experiments under these names, or changed ones.
        RunError: a run failed.
    """
    simulated = _simulate(cases, on_status)
    clock = _Clock(cases, simulated, directory)
    kept, inputs = KeptRuns(directory), Inputs()
    for case, summaries in zip(cases, simulated, strict=True):
        live = []
        for experiment, run_dir in zip(case.experiments, case.run_dirs(directory), strict=True):
            on_status(clock.status(f"{case.label}: live, {len(live) + 1} of {case.repeats}"))
            reads = inputs.sha256(experiment)
            summary = _earlier_summary(experiment, run_dir, kept, reads)
            if summary is None:
                with clock.timing(run_dir):
                    summary = _live_summary(experiment, run_dir)
                keep_digest(directory, run_dir.name, sha256_of(run_dir / SUMMARY_NAME), reads)
            live.append(summary)
        if noise := _noise(case, live):
            on_noise(noise)
        yield compare(case.name, case.experiment, live, summaries, _fluid(case))


class _Clock:
    """Estimates what is done and left of the live runs, from their emulated times and the additional time so far."""

    def __init__(self, cases: Sequence[Case], simulated: Sequence[Sequence[_Summaries]], directory: Path) -> None:
        self._left_real_s = {
            run_dir: summaries[0]["makespan_s"] / case.experiment.time_scale
            for case, by_run in zip(cases, simulated, strict=True)
            for run_dir, summaries in zip(case.run_dirs(directory), by_run, strict=True)
            if RunDirectory(run_dir).finished_summary() is None
        }
        """Emulated time of the runs to come, without the additional time."""
        self._began_real_s = time.monotonic()
        self._around_real_s: list[float] = []

    @contextlib.contextmanager
    def timing(self, run_dir: Path) -> Iterator[None]:
        """Time one run."""
        began_real_s = time.monotonic()
        yield
        took_real_s = time.monotonic() - began_real_s
        self._around_real_s.append(took_real_s - self._left_real_s.pop(run_dir, took_real_s))

    def status(self, part: str) -> WorkStatus:
        """The status of the work during ``part``."""
        around_real_s = fmean(self._around_real_s) if self._around_real_s else _AROUND_REAL_S
        left_real_s = sum(self._left_real_s.values()) + around_real_s * len(self._left_real_s)
        spent_real_s = time.monotonic() - self._began_real_s
        return WorkStatus(part, spent_real_s / max(1e-9, spent_real_s + left_real_s), left_real_s)


def _noise(case: Case, summaries: Sequence[Mapping[str, Any]]) -> str | None:
    """A warning about live runs that were disturbed."""
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


def _simulate(cases: Sequence[Case], on_status: Callable[[WorkStatus], None]) -> list[list[_Summaries]]:
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
    known = ALLOCATION.by_name.get(case.experiment.scheduler.allocation.name)
    if not isinstance(known, ShareAllocation):
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


def _earlier_summary(
    experiment: Experiment, run_dir: Path, kept: KeptRuns, inputs_sha256: str
) -> Mapping[str, Any] | None:
    """The summary of a live run made before; None if there is none.  A run that was stopped is removed.

    Raises:
        ConfigError: there is a run of another experiment, or it is not as it was made.
    """
    try:
        if not run_dir.exists():
            return None
        if (summary := RunDirectory(run_dir).finished_summary()) is not None:
            if load_experiment(run_dir / EXPERIMENT_NAME) != experiment:
                raise ConfigError(f"{run_dir}: is a run of another experiment; name another directory, or remove it")
            if (changed := kept.changed(run_dir.name, run_dir, summary, inputs_sha256)) is not None:
                raise ConfigError(f"{run_dir}: {changed}; remove it, and it is run again")
            return summary
        shutil.rmtree(run_dir)
    except (OSError, ValueError) as error:
        raise RunError(f"{run_dir}: cannot be continued: {error}; remove it") from None
    return None


def _live_summary(experiment: Experiment, run_dir: Path) -> Mapping[str, Any]:
    summary = run_experiment(experiment, run_dir, lambda status: None)
    if found := failures(summary):
        raise RunError(f"{run_dir}: {'; '.join(found)}")
    return summary

"""How far apart the two engines are: the same experiments, live and simulated, figure by figure.

Theory of operation
-------------------
An experiment is run several times by each engine with the same seed: the same workload and the same random decisions.
What differs between live runs is what the machine does; what differs between simulated ones is what was drawn from the
machine's calibration.  The means are compared.  The spread of the live runs, their standard deviation, says how much of
a difference means anything.

With several time scales, live runs at each are held against those at the lowest: how results drift as time is
compressed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulator.calibration import AUTO, chosen_path
from emulator.config import Experiment
from emulator.errors import RunError
from emulator.history import HistoryBuilder
from emulator.overheads import load_overheads
from emulator.progress import failures
from emulator.run import run_experiment
from emulator.sim.session import simulate
from emulator.summary import build_summary
from workloads.expand import expand

MEAN_LIMIT, WORST_LIMIT, WORST_LIMIT_HEARTBEATS = 0.02, 0.05, 2.0
"""How far job completion times may be off: on average; at worst, as a share or in heartbeats, whichever is more."""
DRIFT_LIMIT = 0.02
COMPLETION = "completion_s"

OnPhase = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure of an experiment, by both engines; emulated seconds, counts or shares."""

    job: str | None
    """None for a figure of the whole run."""
    name: str
    live: tuple[float, ...]
    """One for each repeat."""
    simulated: tuple[float, ...]

    @property
    def live_mean(self) -> float:
        return math.fsum(self.live) / len(self.live)

    @property
    def simulated_mean(self) -> float:
        return math.fsum(self.simulated) / len(self.simulated)

    @property
    def difference(self) -> float:
        """Simulated less live."""
        return self.simulated_mean - self.live_mean

    @property
    def error(self) -> float | None:
        """The difference as a share of the live figure; None where that is 0."""
        return self.difference / self.live_mean if self.live_mean else None

    @property
    def live_sd(self) -> float | None:
        """Sample standard deviation of the live runs; None for a single one."""
        if len(self.live) < 2:
            return None
        return math.sqrt(math.fsum((value - self.live_mean) ** 2 for value in self.live) / (len(self.live) - 1))

    @property
    def live_spread(self) -> float | None:
        """``live_sd`` as a share of the live figure."""
        return self.live_sd / self.live_mean if self.live_sd is not None and self.live_mean else None


@dataclass(frozen=True, slots=True)
class FileFidelity:
    """One experiment at one time scale."""

    name: str
    time_scale: float
    heartbeat_s: float
    metrics: tuple[Metric, ...]

    @property
    def completions(self) -> list[Metric]:
        """Completion times of the jobs."""
        return [metric for metric in self.metrics if metric.name == COMPLETION]


@dataclass(frozen=True, slots=True)
class Fidelity:
    """All experiments."""

    files: tuple[FileFidelity, ...]

    @property
    def errors(self) -> list[float]:
        """Of job completion times, absolute."""
        return [abs(metric.error) for file in self.files for metric in file.completions if metric.error is not None]

    @property
    def mean_abs_error(self) -> float:
        return math.fsum(self.errors) / len(self.errors) if self.errors else 0.0

    @property
    def worst_abs_error(self) -> float:
        return max(self.errors, default=0.0)

    @property
    def live_spread(self) -> float | None:
        """Mean spread of job completion times between live runs of the same experiment; None without repeats."""
        spreads = [metric.live_spread for file in self.files for metric in file.completions]
        found = [spread for spread in spreads if spread is not None]
        return math.fsum(found) / len(found) if found else None

    @property
    def beyond(self) -> list[tuple[FileFidelity, Metric]]:
        """Completion times that are off by more than both worst limits."""
        return [
            (file, metric)
            for file in self.files
            for metric in file.completions
            if abs(metric.error or 0.0) > WORST_LIMIT
            and abs(metric.difference) > WORST_LIMIT_HEARTBEATS * file.heartbeat_s
        ]

    def to_json(self) -> dict[str, Any]:
        """What ``fidelity.json`` holds."""
        return {
            "files": [_file_json(file) for file in self.files],
            "mean_abs_error": self.mean_abs_error,
            "worst_abs_error": self.worst_abs_error,
            "live_spread": self.live_spread,
        }


def _file_json(file: FileFidelity) -> dict[str, Any]:
    return {
        "name": file.name,
        "time_scale": file.time_scale,
        "jobs": [
            {
                "job": metric.job,
                "live_s": metric.live_mean,
                "sim_s": metric.simulated_mean,
                "error": metric.error,
                "live_spread": metric.live_spread,
            }
            for metric in file.completions
        ],
        "metrics": [
            {
                "job": metric.job,
                "name": metric.name,
                "live": list(metric.live),
                "sim": list(metric.simulated),
                "difference": metric.difference,
                "error": metric.error,
            }
            for metric in file.metrics
        ],
    }


def calibrated(experiment: Experiment) -> Experiment:
    """The experiment as both engines run it: a simulation takes this machine's costs where it names no others.

    Raises:
        ConfigError: this machine has not been measured.
    """
    found = experiment.model_copy(update={"calibration": experiment.calibration or AUTO, "repeats": 1})
    chosen_path(found.overheads, found.calibration)
    return found


def compare(experiment: Experiment, label: str, repeats: int, directory: Path, on_phase: OnPhase) -> FileFidelity:
    """Run one experiment ``repeats`` times by each engine; live runs leave their run directories in ``directory``.

    Raises:
        ConfigError: this machine has not been measured, or the directory cannot be had.
        RunError: a run could not be carried through.
    """
    experiment = calibrated(experiment)
    simulated = []
    for repeat in range(repeats):
        on_phase(f"{label}: simulating, {repeat + 1} of {repeats}")
        simulated.append(figures(_simulated_summary(experiment, repeat)))
    live = []
    for repeat in range(1, repeats + 1):
        phase = f"{label}: live, {repeat} of {repeats}"
        on_phase(phase)
        once = experiment.model_copy(update={"engine": "live"})
        run_dir = directory / f"{label}-live-{repeat}"
        summary = run_experiment(once, run_dir, lambda status, phase=phase: on_phase(phase))
        if found := failures(summary):
            raise RunError(f"{run_dir}: {'; '.join(found)}")
        live.append(figures(summary))
    metrics = tuple(
        Metric(job, name, tuple(run[job, name] for run in live), tuple(run[job, name] for run in simulated))
        for job, name in live[0]
        if all((job, name) in run for run in (*live, *simulated))
    )
    return FileFidelity(label, experiment.time_scale, experiment.heartbeat_s, metrics)


def _simulated_summary(experiment: Experiment, draw: int) -> Mapping[str, Any]:
    jobs = expand(experiment, experiment.seed)
    history = HistoryBuilder(jobs)
    simulate(experiment, jobs, history.add, draw=draw)
    return build_summary(
        history.tables(),
        experiment,
        seed=experiment.seed,
        profile=load_overheads(experiment.overheads, Path.cwd()),
        versions={},
        machines=(),
        real_s=0.0,
        lag={},
        output=None,
        swap_bytes=0,
    )


def figures(summary: Mapping[str, Any]) -> dict[tuple[str | None, str], float]:
    """The figures that are compared, by (job or None, name), from a run's summary; those it lacks are left out."""
    found: dict[tuple[str | None, str], float | None] = {}
    for job in summary["jobs"]:
        for name in (COMPLETION, "suspensions", "kills", "lost_work_s"):
            found[job["name"], name] = job[name]
    found[None, "makespan_s"] = summary["makespan_s"]
    found[None, "suspensions"] = sum(job["suspensions"] for job in summary["jobs"])
    found[None, "lost_work_s"] = summary["work"]["lost_s"]
    found[None, "utilization"] = summary["work"]["utilization"]
    return {key: float(value) for key, value in found.items() if value is not None}


# ---- drift ----


@dataclass(frozen=True, slots=True)
class Drift:
    """The completion time of one job at one time scale, against the lowest one."""

    file: str
    job: str
    time_scale: float
    live_s: float
    simulated_s: float
    live_drift: float
    simulated_drift: float


def drifts(files: Sequence[FileFidelity]) -> list[Drift]:
    """How completion times move with the time scale; ``files`` are the same experiments at several."""
    found = []
    base: dict[tuple[str, str | None], Metric] = {}
    for file in sorted(files, key=lambda file: file.time_scale):
        for metric in file.completions:
            first = base.setdefault((file.name, metric.job), metric)
            found.append(
                Drift(
                    file.name,
                    metric.job or "",
                    file.time_scale,
                    metric.live_mean,
                    metric.simulated_mean,
                    metric.live_mean / first.live_mean - 1,
                    metric.simulated_mean / first.simulated_mean - 1,
                )
            )
    return found


def highest_faithful_scale(found: Sequence[Drift]) -> float:
    """The highest time scale up to which every job's live completion time stays within the drift limit."""
    faithful = min(drift.time_scale for drift in found)
    for scale in sorted({drift.time_scale for drift in found}):
        if any(abs(drift.live_drift) > DRIFT_LIMIT for drift in found if drift.time_scale == scale):
            break
        faithful = scale
    return faithful

"""The figures that are compared, how far they differ, and how they change as time is compressed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any

from emulator.experiment.model import Experiment
from emulator.policies.axes import ALLOCATION, AUTO, AXES, JOB_EVICTION, selection_for
from emulator.records.measures import figure_of, total
from emulator.vocabulary import Frozen

MEAN_LIMIT, WORST_LIMIT, WORST_LIMIT_HEARTBEATS = 0.02, 0.05, 2.0
"""Limits on errors of job completion times: on average; at worst, as a share or in heartbeats, whichever is larger."""
COMPLETION = "completion_s"
_WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure of an experiment, from both engines; emulated seconds, counts or shares."""

    job: str | None
    """None for a figure of the whole run."""
    name: str
    live: tuple[float, ...]
    """One value for each live run."""
    simulated: tuple[tuple[float, ...], ...]
    """For each live run, the values of the simulations with its seed."""

    @property
    def live_mean(self) -> float:
        return fmean(self.live)

    @property
    def simulated_mean(self) -> float:
        return fmean(map(fmean, self.simulated))

    @property
    def difference(self) -> float:
        """Simulated minus live."""
        return self.simulated_mean - self.live_mean

    @property
    def error(self) -> float | None:
        """The difference as a share of the live figure; None if that is 0."""
        return self.difference / self.live_mean if self.live_mean else None

    @property
    def live_sd(self) -> float | None:
        """How far live runs differ from each other, apart from the effect of their seeds.

        It is the sample standard deviation of live minus simulated with the same seed; None for a single run.
        """
        if len(self.live) < 2:
            return None
        return stdev(live - fmean(simulated) for live, simulated in zip(self.live, self.simulated, strict=True))

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
    choices: tuple[tuple[str, str], ...]
    """The scheduler's choices that had an effect: (axis, name)."""
    metrics: tuple[Metric, ...]
    fluid: Mapping[str, float] = field(default_factory=dict)
    """Completion time of every job in the fluid engine, mean over the seeds; empty if it cannot run the experiment."""

    @property
    def fluid_errors(self) -> list[float]:
        """Their differences from the simulated times, as a share of those."""
        completions = [metric for metric in self.completions if metric.job in self.fluid]
        return [self.fluid[str(metric.job)] / metric.simulated_mean - 1 for metric in completions]

    @property
    def completions(self) -> list[Metric]:
        """Completion times of the jobs."""
        return [metric for metric in self.metrics if metric.name == COMPLETION]

    def is_beyond(self, metric: Metric) -> bool:
        """Whether the error of a figure in seconds is above both worst limits."""
        far = abs(metric.difference) > WORST_LIMIT_HEARTBEATS * self.heartbeat_s
        return far and abs(metric.error or 0.0) > WORST_LIMIT


@dataclass(frozen=True, slots=True)
class Fidelity:
    """Several experiments."""

    files: tuple[FileFidelity, ...]

    @property
    def errors(self) -> list[float]:
        """Absolute errors of job completion times."""
        return [abs(metric.error) for file in self.files for metric in file.completions if metric.error is not None]

    @property
    def mean_abs_error(self) -> float:
        return fmean(self.errors) if self.errors else 0.0

    @property
    def worst_abs_error(self) -> float:
        return max(self.errors, default=0.0)

    @property
    def live_spread(self) -> float | None:
        """Mean spread of job completion times between live runs of the same experiment; None without repeats."""
        spreads = [metric.live_spread for file in self.files for metric in file.completions]
        found = [spread for spread in spreads if spread is not None]
        return fmean(found) if found else None

    @property
    def mean_abs_fluid_error(self) -> float | None:
        """Mean absolute error of fluid against simulated completion times; None if the fluid engine can run none."""
        found = [abs(error) for file in self.files for error in file.fluid_errors]
        return fmean(found) if found else None

    @property
    def beyond(self) -> list[tuple[FileFidelity, Metric]]:
        """Completion times with errors above both worst limits."""
        return [(file, metric) for file in self.files for metric in file.completions if file.is_beyond(metric)]

    def by_choice(self) -> dict[tuple[str, str], Fidelity]:
        """For every policy and mechanism, the experiments that use it."""
        found: dict[tuple[str, str], list[FileFidelity]] = {}
        for file in self.files:
            for choice in file.choices:
                found.setdefault(choice, []).append(file)
        return {choice: Fidelity(tuple(found[choice])) for choice in sorted(found)}

    @property
    def missed(self) -> list[str]:
        """The limits that are exceeded, in words: by all together, and by each policy and mechanism."""
        groups = {"all": self, **{f"{axis} {name}": group for (axis, name), group in self.by_choice().items()}}
        return [
            f"{who}: mean error {group.mean_abs_error:.2%}"
            for who, group in groups.items()
            if group.mean_abs_error > MEAN_LIMIT
        ] + [
            f"{file.name}, {metric.job}: {metric.simulated_mean:.1f} s simulated, {metric.live_mean:.1f} s live"
            for file, metric in self.beyond
        ]

    def to_json(self) -> dict[str, Any]:
        """The contents of ``fidelity.json``."""
        return {
            "files": [_file_json(file) for file in self.files],
            **self._summary_json(),
            "by_choice": [
                {"axis": axis, "name": name, "jobs": len(group.errors), **group._summary_json()}
                for (axis, name), group in self.by_choice().items()
            ],
            "missed": self.missed,
        }

    def _summary_json(self) -> dict[str, Any]:
        return {
            "mean_abs_error": self.mean_abs_error,
            "worst_abs_error": self.worst_abs_error,
            "live_spread": self.live_spread,
            "mean_abs_fluid_error": self.mean_abs_fluid_error,
        }


def _file_json(file: FileFidelity) -> dict[str, Any]:
    return {
        "name": file.name,
        "time_scale": file.time_scale,
        "choices": dict(file.choices),
        "jobs": [
            {
                "job": metric.job,
                "live_s": metric.live_mean,
                "sim_s": metric.simulated_mean,
                "fluid_s": file.fluid.get(str(metric.job)),
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
                "sim": [list(runs) for runs in metric.simulated],
                "difference": metric.difference,
                "error": metric.error,
            }
            for metric in file.metrics
        ],
    }


def compare(
    name: str,
    experiment: Experiment,
    live: Sequence[Mapping[str, Any]],
    simulated: Sequence[Sequence[Mapping[str, Any]]],
    fluid: Sequence[Mapping[str, float]] = (),
) -> FileFidelity:
    """How far the runs of one experiment differ.

    ``live`` and ``simulated`` are summaries, with at least one simulation for the seed of each live run; ``fluid`` has
    completion times of jobs.
    """
    by_live = [_figures(summary) for summary in live]
    by_seed = [[_figures(summary) for summary in summaries] for summaries in simulated]
    everywhere = set(by_live[0]).intersection(*by_live, *(run for runs in by_seed for run in runs))
    metrics = tuple(
        Metric(*key, tuple(run[key] for run in by_live), tuple(tuple(run[key] for run in runs) for runs in by_seed))
        for key in by_live[0]
        if key in everywhere
    )
    means = {job: fmean(run[job] for run in fluid) for job in fluid[0]} if fluid else {}
    return FileFidelity(name, experiment.time_scale, experiment.heartbeat_s, choices_of(experiment), metrics, means)


def choices_of(experiment: Experiment) -> tuple[tuple[str, str], ...]:
    """(axis, name) of an experiment's scheduler choices that have an effect."""
    return choices({axis: experiment.scheduler.choice(axis).name for axis in AXES})


def choices(names: Mapping[str, str], **more: str) -> tuple[tuple[str, str], ...]:
    """The same, from the names on each axis; with wait, evictions have no effect."""
    found = {**names, **more}
    eviction = JOB_EVICTION.by_name.get(found["job_eviction"])
    if found["job_selection"] == AUTO and eviction is not None:
        found["job_selection"] = selection_for(eviction, ALLOCATION.by_name.get(found["allocation"])).name
    compared = ["allocation", "job_selection", "mechanism"]
    if found["mechanism"] != _WAIT:
        compared += ["job_eviction", "task_eviction"]
    return tuple(sorted((axis.replace("_", " "), found[axis]) for axis in compared))


def _figures(summary: Mapping[str, Any]) -> dict[tuple[str | None, str], float]:
    """The figures to compare, by (job or None, name), from a run's summary; missing ones are left out."""
    found: dict[tuple[str | None, str], float | None] = {}
    for job in summary["jobs"]:
        for name in (COMPLETION, "suspensions", "kills", "lost_work_s"):
            found[job["name"], name] = job[name]
    found[None, "makespan_s"] = figure_of(summary, "makespan_s")
    found[None, "suspensions"] = total(summary["jobs"], "suspensions")
    found[None, "lost_work_s"] = figure_of(summary, "lost_s")
    found[None, "utilization"] = figure_of(summary, "utilization")
    return {key: float(value) for key, value in found.items() if value is not None}


DRIFT_LIMIT = 0.02
"""How far a time scale may change the completion time of a live job and be faithful."""


class Drift(Frozen):
    """The completion time of one job at one time scale, and how far it is from that at the lowest one."""

    file: str
    job: str
    time_scale: float
    live_s: float
    sim_s: float
    live_drift: float
    sim_drift: float


def drifts(files: Sequence[FileFidelity]) -> list[Drift]:
    """How completion times change with the time scale; ``files`` are the same experiments at several scales."""
    found = []
    base: dict[tuple[str, str | None], tuple[float, float]] = {}
    for file in sorted(files, key=lambda file: file.time_scale):
        for metric in file.completions:
            means = metric.live_mean, metric.simulated_mean
            live_s, sim_s = base.setdefault((file.name, metric.job), means)
            changes = means[0] / live_s - 1, means[1] / sim_s - 1
            found.append(Drift(file.name, metric.job or "", file.time_scale, *means, *changes))
    return found


def highest_faithful_scale(found: Sequence[Drift]) -> float:
    """The highest time scale up to which every job's live completion time stays within the drift limit."""
    faithful = min(drift.time_scale for drift in found)
    for scale in sorted({drift.time_scale for drift in found}):
        if any(abs(drift.live_drift) > DRIFT_LIMIT for drift in found if drift.time_scale == scale):
            break
        faithful = scale
    return faithful

"""How results change as time is compressed, and how far time can be compressed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.fidelity.figures import FileFidelity, Metric

DRIFT_LIMIT = 0.02


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
    """How completion times change with the time scale; ``files`` are the same experiments at several scales."""
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

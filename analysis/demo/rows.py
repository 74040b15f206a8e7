"""The ways to make room, and what the demonstration says of a run under each: all of it from the runs' summaries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.text import Text

from emulator.display.tables import or_dash
from emulator.records.gaps import disturbances

_ALONE_S = {"research": 192.3, "production": 70.4}
"""Each job alone on the cluster (natjam, Fig. 3)."""
RESEARCH, PRODUCTION = "research-XL", "production-S"
"""The jobs of ``catalog:natjam-fig4``."""

Summary = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Way:
    """One way to make room, and its times in the paper (natjam, section 5); None if the paper has none."""

    name: str
    directory: str
    overrides: tuple[str, ...]
    production_s: float | None
    research_s: float | None


NATJAM = Way("checkpoint (Natjam)", "checkpoint", ("scheduler.mechanism=checkpoint",), 75.6, 197.0)
SUSPEND = Way("suspend (SIGTSTP)", "suspend", ("scheduler.mechanism=suspend",), None, None)
KILL = Way("kill", "kill", ("scheduler.mechanism=kill",), None, 1.23 * _ALONE_S["research"])
SOFT_CAP = Way(
    "soft cap",
    "soft-cap",
    ("scheduler.allocation.name=soft-cap", "scheduler.mechanism=wait"),
    1.85 * _ALONE_S["production"],
    1.00 * _ALONE_S["research"],
)
VARIANTS = (NATJAM, KILL, SUSPEND, SOFT_CAP)
"""The two of the verdict first: on a slow machine it is there after half of the time."""


@dataclass(frozen=True, slots=True)
class Done:
    """The run that counts for a variant."""

    variant: Way
    summary: Summary
    directory: Path


def job_of(summary: Summary, name: str) -> Mapping[str, Any]:
    """The figures of the job with that name."""
    return next(job for job in summary["jobs"] if job["name"] == name)


def cells(variant: Way, summary: Summary) -> list[str | Text]:
    """The row of a run: a time is compared with the published one unless the run was disturbed."""
    found: list[str | Text] = [variant.name]
    for name, published_s in ((PRODUCTION, variant.production_s), (RESEARCH, variant.research_s)):
        job = job_of(summary, name)
        found += [_time(job, published_s, summary["disturbed"]), or_dash(published_s, ".1f")]
    research = job_of(summary, RESEARCH)
    found += [str(research["suspensions"] + research["kills"]), f"{research['lost_work_s']:.0f}"]
    return [*found, "verified" if summary["output"]["verified"] else Text("differs", "red")]


def _time(job: Mapping[str, Any], published_s: float | None, disturbed: bool) -> str | Text:
    measured_s = job["completion_s"]
    if measured_s is None:
        return str(job["state"])
    if disturbed:
        return Text(f"{measured_s:.1f} (busy)", "yellow")
    return f"{measured_s:.1f}" if published_s is None else f"{measured_s:.1f} ({measured_s / published_s - 1:+.1%})"


def not_comparable(variant: Way, summary: Summary) -> str | None:
    """Why a run is not comparable with the paper, and what to do; None if it is."""
    if not summary["disturbed"]:
        return None
    lag, scale = summary["lag"], summary["time_scale"]
    settings = " ".join(f"--set {override}" for override in variant.overrides)
    why = "".join(f"; {reason}" for reason in disturbances(summary)[:1])
    return (
        f"{variant.name}: not comparable: this machine was busy (lag {lag['p99_real_ms']:.0f} ms, which is "
        f"{lag['p99_emulated_s']:.2f} s at time scale {scale:g}{why}); on a quiet one, or: "
        f"natjam run catalog:natjam-fig4 --time-scale {scale / 4:g} {settings}"
    )


def verdict(natjam: Summary, kill: Summary) -> str:
    """What Natjam's checkpoints and kill did to the research job, in one line."""
    ends_s = [job_of(summary, RESEARCH)["completion_s"] for summary in (natjam, kill)]
    if None in ends_s:
        return "no verdict: research-XL did not succeed both times"
    lost_s = [job_of(summary, RESEARCH)["lost_work_s"] for summary in (natjam, kill)]
    kept = "all of research's work" if round(lost_s[0]) == 0 else f"all but {lost_s[0]:,.0f} s of research's work"
    lost = "none" if round(lost_s[1]) == 0 else f"{lost_s[1]:,.0f} s of it"
    if natjam["disturbed"] or kill["disturbed"]:
        times = "their times are not comparable, because this machine was busy"
    else:
        times = f"research-XL took {ends_s[0]:.0f} s under Natjam and {ends_s[1]:.0f} s under kill"
    return f"Natjam kept {kept}; kill lost {lost}; {times}"

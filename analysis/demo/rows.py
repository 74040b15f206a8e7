"""The ways to make room, and what the demonstration says of a run under each: all of it from the runs' summaries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.text import Text

from emulator.display.tables import or_dash
from emulator.records.gaps import standstills

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


_RESEARCH_S = {"natjam": 197.0, "kill": 1.23 * _ALONE_S["research"]}
NATJAM = Way("checkpoint (Natjam)", "checkpoint", ("scheduler.mechanism=checkpoint",), 75.6, _RESEARCH_S["natjam"])
SUSPEND = Way("suspend (SIGTSTP)", "suspend", ("scheduler.mechanism=suspend",), None, None)
KILL = Way("kill", "kill", ("scheduler.mechanism=kill",), None, _RESEARCH_S["kill"])
SOFT_CAP = Way(
    "soft cap",
    "soft-cap",
    ("scheduler.allocation.name=soft-cap", "scheduler.mechanism=wait"),
    1.85 * _ALONE_S["production"],
    1.00 * _ALONE_S["research"],
)
VARIANTS = (NATJAM, KILL, SUSPEND, SOFT_CAP)
"""The two of the verdict first: on a slow machine it is there after half of the time."""


_KILL_COSTS_S = _RESEARCH_S["kill"] - _RESEARCH_S["natjam"]
"""The smallest of the differences that the demonstration is about: what kill costs research, beside Natjam."""
_MAX_MOVE_S = 0.1 * _KILL_COSTS_S
"""A time that can have moved by as much still shows the difference."""
_LEAST_IDLE_CORES = 0.5
"""Where other programs leave less than that, the times are not compared, whatever they are."""


@dataclass(frozen=True, slots=True)
class Done:
    """The run that counts for a variant."""

    variant: Way
    summary: Summary
    directory: Path
    late_s: float
    """The most by which late launches can have moved an end, in emulated seconds (``latest_move_s``)."""
    idle_cores: float
    """What other programs left of the machine before the runs."""

    def disturbances(self) -> list[str]:
        """Why its times may be others than on a quiet machine; empty if they are not."""
        found = standstills(self.summary)
        if self.late_s > _MAX_MOVE_S:
            found.append(
                f"late launches can have moved its ends by {self.late_s:.1f} s, which is more than a tenth of the "
                f"{_KILL_COSTS_S:.1f} s that kill costs research"
            )
        return found

    @property
    def is_comparable(self) -> bool:
        """Whether its times are compared with the paper."""
        return busy_text(self.idle_cores) is None and not self.disturbances()


def busy_text(idle_cores: float) -> str | None:
    """That other programs leave too little of the machine for any run; None if they leave enough."""
    if idle_cores >= _LEAST_IDLE_CORES:
        return None
    return f"this machine is busy: other programs leave {idle_cores:.1f} of its cores, so no time is compared"


def job_of(summary: Summary, name: str) -> Mapping[str, Any]:
    """The figures of the job with that name."""
    return next(job for job in summary["jobs"] if job["name"] == name)


def cells(done: Done) -> list[str | Text]:
    """The row of a run: a time is compared with the published one unless there are doubts."""
    found: list[str | Text] = [done.variant.name]
    variant, summary, is_comparable = done.variant, done.summary, done.is_comparable
    for name, published_s in ((PRODUCTION, variant.production_s), (RESEARCH, variant.research_s)):
        found += [_time(job_of(summary, name), published_s, is_comparable), or_dash(published_s, ".1f")]
    research = job_of(summary, RESEARCH)
    found += [f"{done.late_s:.1f}", str(research["suspensions"] + research["kills"]), f"{research['lost_work_s']:.0f}"]
    return [*found, "verified" if summary["output"]["verified"] else Text("differs", "red")]


def _time(job: Mapping[str, Any], published_s: float | None, is_comparable: bool) -> str | Text:
    measured_s = job["completion_s"]
    if measured_s is None:
        return str(job["state"])
    if not is_comparable:
        return Text(f"{measured_s:.1f} (busy)", "yellow")
    return f"{measured_s:.1f}" if published_s is None else f"{measured_s:.1f} ({measured_s / published_s - 1:+.1%})"


def not_comparable(done: Done) -> str | None:
    """Why a run's own times are not comparable with the paper, and what to do; None if they are."""
    if not (why := done.disturbances()):
        return None
    scale = done.summary["time_scale"]
    settings = " ".join(f"--set {override}" for override in done.variant.overrides)
    return (
        f"{done.variant.name}: not comparable: this machine was busy ({'; '.join(why)}); on a quiet one, or: "
        f"natjam run catalog:natjam-fig4 --time-scale {scale / 4:g} {settings}"
    )


def verdict(natjam: Done, kill: Done) -> str:
    """What Natjam's checkpoints and kill did to the research job, in one line."""
    research = [job_of(done.summary, RESEARCH) for done in (natjam, kill)]
    ends_s, lost_s = [job["completion_s"] for job in research], [job["lost_work_s"] for job in research]
    if None in ends_s:
        return "no verdict: research-XL did not succeed both times"
    kept = "all of research's work" if round(lost_s[0]) == 0 else f"all but {lost_s[0]:,.0f} s of research's work"
    lost = "none" if round(lost_s[1]) == 0 else f"{lost_s[1]:,.0f} s of it"
    if not (natjam.is_comparable and kill.is_comparable):
        times = "their times are not comparable, because this machine was busy"
    else:
        times = (
            f"research-XL took {ends_s[0]:.0f} s under Natjam and {ends_s[1]:.0f} s under kill, of which late launches "
            f"can have made at most {max(natjam.late_s, kill.late_s):.1f} s"
        )
    return f"Natjam kept {kept}; kill lost {lost}; {times}"

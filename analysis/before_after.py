"""Who is evicted before and after a change, for ``natjam compare``: two runs of one workload, or two files to run.

Jobs are told apart by their names, and counted by their queues, which for an imported cluster are its classes.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.table import Table

from analysis.evictions import Eviction, decisions_of, find_evictions
from analysis.load import load, load_decisions
from analysis.whole_run import run_experiment
from emulator.display.tables import names, new_table, numbers
from emulator.experiment.load import load_experiment
from emulator.experiment.warnings import too_large_warning

_ROWS = 30
"""Most evictions on a terminal; ``compare.json`` has all."""


@dataclass(frozen=True, slots=True)
class Evicted:
    """One eviction, as both sides are compared by it."""

    job: str
    queue: str
    t_s: float
    by: str
    """The jobs that wanted room; empty: not known."""
    lost_s: float


@dataclass(slots=True)
class Side:
    """One run."""

    evictions: list[Evicted] = field(default_factory=list)
    waits_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """By queue: how long each job waited that was started."""
    jobs: Counter[str] = field(default_factory=Counter)
    """By queue."""

    @property
    def evicted_jobs(self) -> set[str]:
        return {each.job for each in self.evictions}


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    """Two runs of one workload."""

    before: Side
    after: Side

    @property
    def newly(self) -> list[Evicted]:
        """Evictions of jobs that are not evicted before."""
        return _of_others(self.after, self.before)

    @property
    def no_longer(self) -> list[Evicted]:
        """Evictions of jobs that are not evicted after."""
        return _of_others(self.before, self.after)

    @property
    def has_any(self) -> bool:
        """Whether anybody is evicted on either side."""
        return bool(self.before.evictions or self.after.evictions)

    def to_json(self) -> dict[str, Any]:
        """Every eviction of either side; times are emulated seconds."""
        sides = {"before": self.before, "after": self.after}
        rows = {name: [asdict(each) for each in side.evictions] for name, side in sides.items()}
        return {**rows, "newly": _names(self.newly), "no_longer": _names(self.no_longer)}


def _names(evictions: Iterable[Evicted]) -> list[str]:
    return sorted({each.job for each in evictions})


def _of_others(side: Side, other: Side) -> list[Evicted]:
    known = other.evicted_jobs
    return [each for each in side.evictions if each.job not in known]


def run_both(before: Path, after: Path, directory: Path, say: Callable[[str], None]) -> tuple[Path, Path]:
    """Run two experiments; returns their run directories, in ``directory``.  Raises ConfigError, RunError."""
    experiments = [load_experiment(path) for path in (before, after)]
    found = []
    for name, path, experiment in zip(("before", "after"), (before, after), experiments, strict=True):
        say(f"running {path}")
        if warning := too_large_warning(experiment):
            say(f"  {warning}")
        sys.path.append(str(path.parent.absolute()))  # the user's own policies
        run_experiment(experiment, directory / name, lambda status: None)
        found.append(directory / name)
    return found[0], found[1]


def before_and_after(before: Path, after: Path) -> BeforeAfter:
    """The evictions of two runs.  Raises ConfigError."""
    return BeforeAfter(_side(before), _side(after))


def _side(path: Path) -> Side:
    results = load(path)
    side, queues = Side(), {}
    for job in results.jobs.itertuples():
        queues[job.name] = job.queue
        side.jobs[job.queue] += 1
        if job.start_s == job.start_s:  # not a number: it never started
            side.waits_s[job.queue].append(job.start_s - job.submit_s)
    found = find_evictions(results, decisions_of(load_decisions(path)))
    side.evictions += (_evicted(each, queues) for each in found if each.outcome != "ended")
    return side


def _evicted(eviction: Eviction, queues: dict[str, str]) -> Evicted:
    job = eviction.chosen["job"]
    return Evicted(job, queues[job], eviction.decision.t_s, ", ".join(eviction.requesters), eviction.lost_s)


# ---- tables ----


def queues_table(found: BeforeAfter) -> Table:
    """What both sides mean for each queue."""
    counted = ("evictions", "lost h", "mean wait s", "not started")
    heads = (f"{what}\n{side}" for what in counted for side in ("before", "after"))
    table = new_table("evictions", [*names("queue"), *numbers("jobs", *heads)], also_in="compare.json")
    sides = found.before, found.after
    for queue in dict.fromkeys([*found.before.jobs, *found.after.jobs]):
        mine = [[each for each in side.evictions if each.queue == queue] for side in sides]
        waits = [side.waits_s[queue] for side in sides]
        table.add_row(
            queue,
            f"{max(side.jobs[queue] for side in sides):,}",
            *(f"{len(evictions):,}" for evictions in mine),
            *(f"{sum(each.lost_s for each in evictions) / 3600:,.2f}" for evictions in mine),
            *(f"{fmean(each):,.0f}" if each else "-" for each in waits),
            *(f"{side.jobs[queue] - len(each):,}" for side, each in zip(sides, waits, strict=True)),
        )
    return table


def changes_tables(found: BeforeAfter) -> list[Table]:
    """Who is evicted on one side only, by whom and when."""
    titled = (("now evicted", found.newly), ("no longer evicted", found.no_longer))
    return [_changes_table(title, evictions) for title, evictions in titled if evictions]


def _changes_table(title: str, evictions: list[Evicted]) -> Table:
    count = len({each.job for each in evictions})
    title = f"{title} (jobs: {count:,}, evictions: {len(evictions):,})"
    columns = [*numbers("at, s"), *names("job", "queue", "for"), *numbers("lost s")]
    table = new_table(title, columns, also_in="compare.json")
    for each in evictions[:_ROWS]:
        table.add_row(f"{each.t_s:,.0f}", each.job, each.queue, each.by or "-", f"{each.lost_s:,.0f}")
    if len(evictions) > _ROWS:
        table.caption = f"and {len(evictions) - _ROWS:,} more"
    return table

"""Who is evicted before and after a change, for ``natjam compare``: two runs of one workload, or two files to run.

Jobs are told apart by their names, and counted by their queues, which for an imported cluster are its classes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from analysis.evictions import Eviction, Row, evictions
from analysis.load import rows_of
from analysis.run_paths import the_run
from analysis.whole_run import run_experiment
from emulator.display.tables import names, new_table, numbers, or_dash
from emulator.experiment.load import load_experiment
from emulator.experiment.warnings import too_large_warning
from emulator.records.measures import by_queue, mean, not_started, waits_s
from emulator.vocabulary import Frozen

_ROWS = 30
"""Most evictions on a terminal; ``compare.json`` has all."""


class Side(Frozen):
    """One run."""

    jobs: Sequence[Row]
    """The rows of its table of jobs."""
    evictions: Sequence[Eviction]

    def not_in(self, other: Side) -> list[Eviction]:
        """Evictions of jobs that are not evicted on the other side."""
        known = {each.job for each in other.evictions}
        return [each for each in self.evictions if each.job not in known]


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


def before_and_after(before: Path, after: Path) -> tuple[Side, Side]:
    """The two runs.  Raises ConfigError."""
    return _side(before), _side(after)


def _side(path: Path) -> Side:
    found = evictions(path)
    return Side(rows_of(the_run(path).path, "jobs"), [each for each in found if each.outcome != "ended"])


def to_json(before: Side, after: Side) -> dict[str, Any]:
    """Every eviction of either side; times are emulated seconds."""
    return {
        "before": [_eviction_json(each) for each in before.evictions],
        "after": [_eviction_json(each) for each in after.evictions],
        "newly": _jobs(after.not_in(before)),
        "no_longer": _jobs(before.not_in(after)),
    }


def _eviction_json(eviction: Eviction) -> dict[str, Any]:
    named = {name: getattr(eviction, name) for name in ("job", "queue", "t_s")}
    return {**named, "by": ", ".join(eviction.requesters), "lost_s": eviction.lost_s}


def _jobs(evictions: Iterable[Eviction]) -> list[str]:
    return sorted({each.job for each in evictions})


# ---- tables ----


def queues_table(*sides: Side) -> Table:
    """What the sides, before and after, mean for each queue."""
    counted = ("evictions", "lost h", "mean wait s", "not started")
    heads = (f"{what}\n{side}" for what in counted for side in ("before", "after"))
    table = new_table("evictions", [*names("queue"), *numbers("jobs", *heads)], also_in="compare.json")
    by_side = [by_queue(side.jobs) for side in sides]
    for queue in dict.fromkeys(queue for jobs in by_side for queue in jobs):
        mine = [jobs.get(queue, []) for jobs in by_side]
        evicted = [[each for each in side.evictions if each.queue == queue] for side in sides]
        table.add_row(
            queue,
            f"{max(map(len, mine)):,}",
            *(f"{len(each):,}" for each in evicted),
            *(f"{sum(one.lost_s for one in each) / 3600:,.2f}" for each in evicted),
            *(or_dash(mean(waits_s(jobs)), ",.0f") for jobs in mine),
            *(f"{not_started(jobs):,}" for jobs in mine),
        )
    return table


def changes_tables(before: Side, after: Side) -> list[Table]:
    """Who is evicted on one side only, by whom and when."""
    titled = (("now evicted", after.not_in(before)), ("no longer evicted", before.not_in(after)))
    return [_changes_table(title, evictions) for title, evictions in titled if evictions]


def _changes_table(title: str, evictions: Sequence[Eviction]) -> Table:
    title = f"{title} (jobs: {len(_jobs(evictions)):,}, evictions: {len(evictions):,})"
    columns = [*numbers("at, s"), *names("job", "queue", "for"), *numbers("lost s")]
    table = new_table(title, columns, also_in="compare.json")
    for each in evictions[:_ROWS]:
        by = ", ".join(each.requesters) or "-"
        table.add_row(f"{each.t_s:,.0f}", each.job, each.queue, by, f"{each.lost_s:,.0f}")
    if len(evictions) > _ROWS:
        table.caption = f"and {len(evictions) - _ROWS:,} more"
    return table

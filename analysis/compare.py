"""Compares two sets of runs job by job, for ``natjam compare``; of two single runs also who is evicted.

Theory of operation
-------------------
The papers compare two schedulers by running the same jobs under both, and plot for every job the difference of its two
completion times (natjam, section 6.1).  A side is a run, its repeats, or a campaign.  Runs are paired by variant and
seed; if the sides have no seed in common, by the numbers of repeats.  Runs without a partner count nowhere.  If only
one side has several variants, the other is compared with each of them.  The interval is over the seeds, not over the
jobs (see ``Difference``); variants of two campaigns share their seeds, so they count as one.

Evictions, and the nodes of pods, are of two runs of one workload, or of two files to run.  Jobs are told apart by their
names, and counted by their queues, which for an imported cluster are its classes.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from analysis.evictions import Eviction, Row, evictions
from analysis.frames import DataFrame, pandas
from analysis.load import load_runs, rows_of
from analysis.report.variants import short_names
from analysis.run_paths import find_runs, read_summary, the_run
from analysis.statistics import Difference, compare_pairs, pair_jobs
from analysis.whole_run import run_experiment
from emulator.display.tables import ALWAYS, names, new_table, number, numbers, or_dash
from emulator.errors import ConfigError
from emulator.experiment.load import load_experiment
from emulator.experiment.warnings import warnings
from emulator.files.whole_files import write_json
from emulator.records.gaps import disturbances
from emulator.records.measures import by_queue, mean, not_started, waits_s
from emulator.records.summary import spread_json
from emulator.vocabulary import Frozen

QUANTITIES = {
    "completion_s": "completion time, s",
    "margin_s": "deadline margin, s",
    "start_s": "start, s",
    "lost_work_s": "lost work, s",
}
"""The quantities to compare: columns of the jobs, with their names in figures."""
TOTALS = {
    "wasted_fraction": ("CPU time wasted", 100.0, "%"),
    "energy_j": ("energy", 1e-6, "MJ"),
    "peak_bytes": ("storage, the most at a time", 1e-9, "GB"),
    "io_fraction": ("the storage devices' time in use", 100.0, "%"),
}
"""What whole runs are compared by: column of the runs, and its name, factor and unit in the table."""
ALL_QUEUES = "all queues"
_SHOWN_PERCENTILES = (1, 5, 25, 50, 75, 95, 99)
POD = "pod"
"""The kind of the only task of a pod of an imported cluster."""
_MAX_EVICTIONS = 30
"""On a terminal; ``compare.json`` has all."""
_RUN_KEYS = ("variant", "run_number")
_KEYS = (*_RUN_KEYS, "job", "queue")


@dataclass(frozen=True, slots=True)
class Comparison:
    """How the jobs of two sides differ: ``a`` minus ``b``."""

    a: str
    b: str
    quantity: str
    """One of ``QUANTITIES``."""
    pairs: DataFrame
    """One row for each pair of jobs: variant, run_number, job, queue, a, b, difference."""
    differences: Mapping[str, Difference]
    """By queue, and for all queues together; where one side is compared with each variant of the other, by both."""
    unpaired: tuple[int, int]
    """Jobs of either side's runs that are not in the other's, or did not succeed in both."""
    unpaired_runs: tuple[int, int]
    """Runs of either side that have no partner; nothing here is of them."""
    disturbed: tuple[int, int]
    """Runs of either side with which the machine did not keep up."""
    runs: tuple[tuple[Path, ...], tuple[Path, ...]]
    """The directories of either side's runs that have a partner."""
    by_seed: bool
    """Whether runs are paired by their seeds; otherwise by their numbers."""
    totals: Mapping[str, tuple[float | None, float | None]]
    """Means over the runs of either side of what ``TOTALS`` names, without what no run has; none by variant."""

    @property
    def pair(self) -> tuple[Path, Path] | None:
        """The directories of the only two runs that are compared; None: there are more."""
        a, b = self.runs
        return (a[0], b[0]) if len(a) == len(b) == 1 else None

    def to_json(self) -> dict[str, Any]:
        """The contents of ``compare.json``; differences are ``a`` minus ``b``, in emulated seconds."""
        return {
            "a": self.a,
            "b": self.b,
            "quantity": self.quantity,
            "paired_by": "seed" if self.by_seed else "number",
            "intervals": len(self.differences),
            "queues": {queue: _difference_json(found) for queue, found in self.differences.items()},
            "unpaired": {"a": self.unpaired[0], "b": self.unpaired[1]},
            "unpaired_runs": {"a": self.unpaired_runs[0], "b": self.unpaired_runs[1]},
            "disturbed": {"a": self.disturbed[0], "b": self.disturbed[1]},
            "totals": {name: {"a": a, "b": b} for name, (a, b) in self.totals.items()},
            "jobs": self.pairs.rename(columns={"job": "name"}).to_dict("records"),
        }


class NothingInCommonError(ConfigError):
    """No job succeeded on both sides.  Of two single runs the evictions can be compared all the same."""


def in_order(a: Path, b: Path, baseline: Path | None) -> tuple[Path, Path]:
    """The two sides, the one that is subtracted last: ``baseline``, which must be one of them; by default ``b``.

    Raises ConfigError.
    """
    named = {side: {str(side), str(side.resolve()), side.resolve().name} for side in (a, b)}
    found = [b] if baseline is None else [side for side in (a, b) if str(baseline) in named[side]]
    if len(found) != 1:
        raise ConfigError(f"--baseline {baseline}: must be one of the two sides, {a} or {b}")
    return (b, a) if found == [a] else (a, b)


def compare_runs(a: Path, b: Path, quantity: str = "completion_s") -> Comparison:
    """Compare the runs at two paths; ``b`` is the baseline.

    Raises:
        NothingInCommonError: no job succeeded on both sides.
        ConfigError: a path has no finished run, or two with one seed.
    """
    if quantity not in QUANTITIES:
        raise ConfigError(f"there is no quantity '{quantity}' to compare; known are {', '.join(QUANTITIES)}")
    loaded = [load_runs(find_runs([path])) for path in (a, b)]
    runs, by_seed, by_variant = _numbered([results.runs for results in loaded])
    for path, side in zip((a, b), runs, strict=True):
        twice = side[side.duplicated(list(_RUN_KEYS))]
        if len(twice):
            which = f"{'the seed' if by_seed else 'the number'} {twice['run_number'].iloc[0]}"
            raise ConfigError(f"{path}: has two runs with {which}, which count only once; remove one")
    paired = [side.merge(other[list(_RUN_KEYS)], on=list(_RUN_KEYS)) for side, other in (runs, runs[::-1])]
    sides = [results.jobs.merge(side, on=["run", "repeat"]) for results, side in zip(loaded, paired, strict=True)]
    succeeded = [side[side["state"] == "succeeded"] for side in sides]
    pairs = pair_jobs(succeeded[0], succeeded[1], quantity, _KEYS)
    if not len(pairs):
        raise NothingInCommonError(
            f"{a} and {b} have no job in common with a {quantity}, so there is nothing to compare"
        )
    groups = {str(queue): found for queue, found in pairs.groupby("queue", sort=False)}
    if by_variant:
        variants = [*dict.fromkeys(pairs["variant"])]
        shown = dict(zip(variants, short_names(variants), strict=True))
        by_both = pairs.groupby(["variant", "queue"], sort=False)
        groups = {f"{shown[variant]}: {queue}": found for (variant, queue), found in by_both}
    elif len(groups) > 1:
        groups[ALL_QUEUES] = pairs
    names = [path.resolve().name for path in (a, b)]
    if names[0] == names[1]:
        names = [str(a), str(b)]
    paths = [tuple(map(Path, side["path"].drop_duplicates())) for side in paired]
    used = [results.runs[results.runs["path"].isin(side["path"])] for results, side in zip(loaded, paired, strict=True)]
    return Comparison(
        names[0],
        names[1],
        quantity,
        pairs,
        {name: compare_pairs(found["difference"], found["run_number"]) for name, found in groups.items()},
        unpaired=(len(sides[0]) - len(pairs), len(sides[1]) - len(pairs)),
        unpaired_runs=(len(loaded[0].runs) - len(paths[0]), len(loaded[1].runs) - len(paths[1])),
        disturbed=(_disturbed(paths[0]), _disturbed(paths[1])),
        runs=(paths[0], paths[1]),
        by_seed=by_seed,
        totals={} if by_variant else _totals(used[0], used[1]),
    )


def _totals(a: DataFrame, b: DataFrame) -> dict[str, tuple[float | None, float | None]]:
    found = {}
    for name in TOTALS:
        means = [pandas.to_numeric(side[name]).mean() for side in (a, b)]
        values = [None if math.isnan(mean) else float(mean) for mean in means]
        if any(values):
            found[name] = (values[0], values[1])
    return found


def _disturbed(runs: Sequence[Path]) -> int:
    return sum(bool(disturbances(read_summary(run))) for run in runs)


def _numbered(runs: Sequence[DataFrame]) -> tuple[list[DataFrame], bool, bool]:
    """The runs of the two sides, with the ``variant`` and ``run_number`` by which they are paired.

    Returns also whether that number is the seed, and whether one side has only one variant, which is there once for
    each variant of the other.
    """
    sides = [side[["run", "repeat", "seed", "path"]].copy() for side in runs]
    for side in sides:
        side["variant"] = side["run"].str.partition("/")[2]  # the part before is the directory given by the user
    single = [place for place, side in enumerate(sides) if side["variant"].nunique() == 1]
    if len(single) == 1:
        (place,) = single
        variants = sides[1 - place]["variant"].drop_duplicates()
        sides[place] = sides[place].drop(columns="variant").merge(variants, how="cross")
    shared = set(sides[0]["seed"]) & set(sides[1]["seed"])
    for side in sides:
        side["run_number"] = side["seed" if shared else "repeat"]
        if len(single) == len(sides):
            side["variant"] = ""  # their names do not matter
    return sides, bool(shared), len(single) == 1


def _difference_json(found: Difference) -> dict[str, Any]:
    whole = spread_json(found.spread)
    return {
        **whole,
        "n": found.jobs,
        "runs": whole["n"],
        "percentiles": {str(which): value for which, value in found.percentiles.items()},
        "a_lower": found.a_lower,
        "b_lower": found.b_lower,
        "p_value": found.p_value,
    }


def comparison_table(comparison: Comparison) -> Table:
    """The distribution of the differences, one row for each queue."""
    columns = [*names("queue"), *numbers("jobs", "runs", importance=5)]
    columns += numbers("mean", "95% interval", importance=ALWAYS)
    for which in _SHOWN_PERCENTILES:
        columns += numbers(f"p{which}", importance=4 if which == 50 else 1 if which in (25, 75) else 2)
    columns += numbers(*(f"{side}\nlower" for side in (comparison.a, comparison.b)), importance=3)
    title = Text(
        f"{QUANTITIES[comparison.quantity]}: {comparison.a} minus {comparison.b} (negative: lower under {comparison.a})"
    )
    table = new_table(title, columns, also_in="compare.json")
    for queue, found in comparison.differences.items():
        low, high = found.spread.low, found.spread.high
        table.add_row(
            Text(queue),
            str(found.jobs),
            str(found.spread.n),
            _signed(found.spread.mean),
            "-" if low is None or high is None else f"{_signed(low)} to {_signed(high)}",
            *(_signed(found.percentiles[which]) for which in _SHOWN_PERCENTILES),
            f"{found.a_lower:.0%}",
            f"{found.b_lower:.0%}",
        )
    return table


def totals_table(comparison: Comparison) -> Table:
    """What the runs took in all, a row each; of several runs the mean."""
    columns = [*names(""), *numbers(comparison.a, comparison.b, importance=ALWAYS)]
    table = new_table("whole runs", columns, also_in="compare.json")
    for name, values in comparison.totals.items():
        label, factor, unit = TOTALS[name]
        table.add_row(f"{label}, {unit}", *("-" if value is None else _amount(value * factor) for value in values))
    return table


def comparison_notes(comparison: Comparison) -> list[str]:
    """What the intervals are, and notes to the table."""
    said = [_about_intervals(comparison)]
    a, b = comparison.unpaired_runs
    if a or b:
        whose = f"{a:,} of {comparison.a}, {b:,} of {comparison.b}"
        what = "seed" if comparison.by_seed else "number"
        said.append(f"runs left out everywhere, because the other side has none with their {what}: {whose}")
    a, b = comparison.unpaired
    if a or b:
        why = "did not succeed in both" + (", or have no deadline" if comparison.quantity == "margin_s" else "")
        jobs = f"{a:,} of {comparison.a}, {b:,} of {comparison.b}"
        said.append(f"jobs left out, because they are not in both or {why}: {jobs}")
    for side, disturbed, runs in zip((comparison.a, comparison.b), comparison.disturbed, comparison.runs, strict=True):
        if disturbed:
            which = "the run" if len(runs) == 1 else f"{disturbed} of the {len(runs)} runs"
            said.append(f"disturbed: the machine did not keep up with {which} of {side}; do not trust their times")
    return said


def _about_intervals(comparison: Comparison) -> str:
    runs, count = max(found.spread.n for found in comparison.differences.values()), len(comparison.differences)
    if runs == 1:
        (number,) = set(comparison.pairs["run_number"])
        which = f"seed {number}" if comparison.by_seed else "one run of each side, of different seeds"
        variants = comparison.pairs["variant"].nunique()
        each = f" for each of {variants} variants" if variants > 1 else ""
        return (
            f"one pair of runs{each} ({which}): no interval over seeds can be given; the percentiles are of the jobs of"
            " this pair, and do not say how another seed would differ"
        )
    how = "by seed" if comparison.by_seed else "by their numbers, because no seed is in both"
    many = "one interval" if count == 1 else f"{count} intervals, each of 95% by itself, not adjusted for their number"
    return (
        f"{runs} pairs of runs, paired {how}; the interval is over the runs' mean differences (Student's), because jobs"
        f" of one run depend on each other; {many}"
    )


def write_comparison(comparison: Comparison, directory: Path, more: Mapping[str, Any]) -> None:
    """Write ``compare.json``, with ``more`` in it, and ``compare.png``: the papers' CDF, or a dot for each of few jobs.

    Raises RunError.
    """
    from analysis.figures import runs, style

    write_json(directory / "compare.json", {**comparison.to_json(), **more})
    quantity = QUANTITIES[comparison.quantity]
    figure = runs.differences(comparison.pairs, comparison.a, comparison.b, quantity)
    style.save(figure, [directory / "compare.png"])


def _amount(value: float) -> str:
    return f"{value:,.1f}" if value >= 10 else f"{value:.3g}"


def _signed(value: float) -> str:
    text = number(value, (1, 1, 2), "+")
    return "0" if not text.strip("+-0.") else text


# ---- evictions before and after ----


class Side(Frozen):
    """One run."""

    jobs: Sequence[Row]
    """The rows of its table of jobs."""
    evictions: Sequence[Eviction]
    nodes: Mapping[str, str]
    """By pod of an imported cluster: the node that it is on in the end."""

    def not_in(self, other: Side) -> list[Eviction]:
        """Evictions of jobs that are not evicted on the other side."""
        known = {each.job for each in other.evictions}
        return [each for each in self.evictions if each.job not in known]

    def moved(self, after: Side) -> list[tuple[Row, str | None, str | None]]:
        """The jobs that are on another node afterwards, or on one on one side only, with both nodes; None: on none."""
        there = {each["name"] for each in after.jobs}
        nodes = ((each, self.nodes.get(each["name"]), after.nodes.get(each["name"])) for each in self.jobs)
        return [(job, before, then) for job, before, then in nodes if job["name"] in there and before != then]


def differ(before: Side, after: Side) -> bool:
    """Whether anyone is evicted on either side, or is on another node afterwards."""
    return bool(before.evictions or after.evictions or before.moved(after))


def run_both(before: Path, after: Path, directory: Path, say: Callable[[str], None]) -> tuple[Path, Path]:
    """Run two experiments; returns their run directories, in ``directory``.  Raises ConfigError, RunError."""
    experiments = [load_experiment(path) for path in (before, after)]
    found = []
    for name, path, experiment in zip(("before", "after"), (before, after), experiments, strict=True):
        say(f"running {path}")
        for warning in warnings(experiment):
            say(f"  {warning}")
        sys.path.append(str(path.parent.absolute()))  # the user's own policies
        run_experiment(experiment, directory / name, lambda status: None)
        found.append(directory / name)
    return found[0], found[1]


def evicted_side(path: Path) -> Side:
    """One run.  Raises ConfigError."""
    run = the_run(path).path
    evicted = [each for each in evictions(path) if each.outcome != "ended"]
    last = {row["job"]: row for row in rows_of(run, "attempts") if row["kind"] == POD}
    left = {each.attempt for each in evicted}
    nodes = {job: row["node"] for job, row in last.items() if row["attempt"] not in left}
    return Side(rows_of(run, "jobs"), evicted, nodes)


def evictions_json(before: Side, after: Side) -> dict[str, Any]:
    """Every eviction of either side; times are emulated seconds."""
    return {
        "before": [_eviction_json(each) for each in before.evictions],
        "after": [_eviction_json(each) for each in after.evictions],
        "newly": _job_names(after.not_in(before)),
        "no_longer": _job_names(before.not_in(after)),
        "moved": [{"job": job["name"], "before": old, "after": new} for job, old, new in before.moved(after)],
    }


def _eviction_json(eviction: Eviction) -> dict[str, Any]:
    named = {name: getattr(eviction, name) for name in ("job", "queue", "t_s")}
    return {**named, "by": ", ".join(eviction.requesters), "lost_s": eviction.lost_s}


def _job_names(evictions: Iterable[Eviction]) -> list[str]:
    return sorted({each.job for each in evictions})


def evictions_table(*sides: Side) -> Table:
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
    """Who is evicted on one side only, by whom and when, and who is on another node in the end, or on none."""
    titled = (("now evicted", after.not_in(before)), ("no longer evicted", before.not_in(after)))
    tables = [_changes_table(title, evictions) for title, evictions in titled if evictions]
    moved = before.moved(after)
    return [*tables, _moves_table(moved)] if moved else tables


def _moves_table(moved: Sequence[tuple[Row, str | None, str | None]]) -> Table:
    columns = names("job", "queue", "node before", "node after")
    table = new_table(f"on another node in the end, or on none (jobs: {len(moved):,})", columns, also_in="compare.json")
    for job, before, after in moved[:_MAX_EVICTIONS]:
        table.add_row(job["name"], job["queue"], before or "-", after or "-")
    return _shortened(table, len(moved))


def _shortened(table: Table, rows: int) -> Table:
    if rows > _MAX_EVICTIONS:
        table.caption = f"and {rows - _MAX_EVICTIONS:,} more"
    return table


def _changes_table(title: str, evictions: Sequence[Eviction]) -> Table:
    title = f"{title} (jobs: {len(_job_names(evictions)):,}, evictions: {len(evictions):,})"
    columns = [*numbers("at, s"), *names("job", "queue", "for"), *numbers("lost s")]
    table = new_table(title, columns, also_in="compare.json")
    for each in evictions[:_MAX_EVICTIONS]:
        by = ", ".join(each.requesters) or "-"
        table.add_row(f"{each.t_s:,.0f}", each.job, each.queue, by, f"{each.lost_s:,.0f}")
    return _shortened(table, len(evictions))

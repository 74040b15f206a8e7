"""Summaries over runs that differ only by their seed: a row and a chart of intervals, for repeats and campaigns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rich.table import Table
from rich.text import Text

from analysis.report.facts import Cell, Grid, failed_jobs, figure, mean_completion_s, percent, text
from analysis.statistics import Spread, compare_pairs, spread
from emulator.display.closing_tables import missed_text
from emulator.display.tables import names, new_table, numbers

_NEUTRAL_COLOUR = 3
MOST_ON_TERMINAL = 40
"""Most variants in the closing table of a campaign."""
_Summary = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Variant:
    """The runs with one name."""

    name: str
    summaries: tuple[_Summary, ...]

    def spread(self, values: Sequence[float | None]) -> Spread | None:
        """The spread of one value for each run; None if there is none."""
        known = [value for value in values if value is not None]
        return spread(known) if known else None

    def makespan_s(self) -> Spread | None:
        return self.spread([summary["makespan_s"] for summary in self.summaries])

    def completion_s(self, queue: str) -> Spread | None:
        """The spread of the mean completion time of a queue's jobs in each run."""
        return self.spread([_mean_completion_s(summary, queue) for summary in self.summaries])


def _mean_completion_s(summary: _Summary, queue: str) -> float | None:
    return mean_completion_s(job for job in summary["jobs"] if job["queue"] == queue)


def _interval(found: Spread | None) -> list[Cell]:
    return [figure(value) for value in ((found.mean, found.low, found.high) if found else (None, None, None))]


def find_variants(names: Sequence[str], summaries: Sequence[_Summary]) -> list[Variant]:
    """Runs by name, in their order; empty if no name has several runs, because there is nothing to summarise."""
    by_name: dict[str, list[_Summary]] = {}
    for name, summary in zip(names, summaries, strict=True):
        by_name.setdefault(name, []).append(summary)
    if len(by_name) == len(names):
        return []
    return [Variant(name, tuple(found)) for name, found in by_name.items()]


def _queues(variants: Sequence[Variant]) -> list[str]:
    found = {job["queue"]: None for variant in variants for summary in variant.summaries for job in summary["jobs"]}
    return list(found)


def variants_grid(variants: Sequence[Variant]) -> Grid:
    """One row for each variant: means with their 95% bootstrap intervals."""
    queues = _queues(variants)
    measures = ["makespan, s", *(f"{queue}: mean completion, s" for queue in queues)]
    heads = ["variant", "runs", "jobs failed"]
    heads += [head for measure in measures for head in (measure, "95% from", "to")]
    rows = []
    for variant in variants:
        jobs = (job for summary in variant.summaries for job in summary["jobs"])
        row = [text(variant.name), figure(len(variant.summaries)), failed_jobs(jobs)]
        for found in (variant.makespan_s(), *map(variant.completion_s, queues)):
            row += _interval(found)
        wasted = variant.spread([summary["work"]["wasted_fraction"] for summary in variant.summaries])
        rows.append((*row, percent(wasted.mean if wasted else None)))
    return Grid((*heads, "work lost"), tuple(rows))


def differences_grid(variants: Sequence[Variant]) -> Grid | None:
    """Every variant minus the first one, for runs with the same seed; None if they have no seed in common."""
    queues = _queues(variants)
    names = _short([variant.name for variant in variants])
    measures: list[tuple[str, Callable[[_Summary], float | None]]] = [
        ("makespan, s", lambda found: found["makespan_s"])
    ]
    measures += [(f"{queue}: mean completion, s", partial(_mean_completion_s, queue=queue)) for queue in queues]
    first = {summary["seed"]: summary for summary in variants[0].summaries}
    rows = []
    for name, variant in list(zip(names, variants, strict=True))[1:]:
        pairs = [(summary, first[summary["seed"]]) for summary in variant.summaries if summary["seed"] in first]
        row = [text(name), figure(len(pairs))]
        for _, measure in measures:
            values = [(measure(a), measure(b)) for a, b in pairs]
            known = [a - b for a, b in values if a is not None and b is not None]
            found = compare_pairs(known).spread if known else None
            row += _interval(found)
        rows.append(tuple(row))
        if not pairs:
            return None
    heads = [head for measure, _ in measures for head in (measure, "95% from", "to")]
    return Grid(("variant", "seeds", *heads), tuple(rows))


def campaign_table(variants: Sequence[Variant], most: int = MOST_ON_TERMINAL) -> Table:
    """The last table of a campaign on a terminal: one row for each variant, with means over its runs.

    With several runs, each mean is followed by half of its 95% bootstrap interval.
    """
    queues = _queues(variants)
    jobs = [job for variant in variants for summary in variant.summaries for job in summary["jobs"]]
    has_deadlines = any(job["deadline_s"] is not None for job in jobs)
    columns = [
        *names("variant"),
        *numbers("runs", importance=1),
        *numbers("jobs\nfailed", importance=5),
        *numbers("makespan"),
    ]
    columns += numbers(*(f"{queue}:\nmean completion" for queue in queues), importance=4)
    columns += numbers("deadlines\nmissed", importance=4) if has_deadlines else []
    columns += numbers("work\nlost", importance=3)
    table = new_table("emulated seconds; means over the runs, ± 95%", columns, also_in="campaign.parquet")
    for name, variant in list(zip(_short([one.name for one in variants]), variants, strict=True))[:most]:
        mine = [job for summary in variant.summaries for job in summary["jobs"]]
        failed = failed_jobs(mine)
        wasted = variant.spread([summary["work"]["wasted_fraction"] for summary in variant.summaries])
        table.add_row(
            name,
            str(len(variant.summaries)),
            Text(failed.text, "red" if failed.value else ""),
            *(_mean_and_half(found) for found in (variant.makespan_s(), *map(variant.completion_s, queues))),
            *((missed_text(mine),) if has_deadlines else ()),
            percent(wasted.mean if wasted else None).text,
        )
    if len(variants) > most:
        table.caption = f"... and {len(variants) - most} more"
    return table


def _mean_and_half(found: Spread | None) -> str:
    if found is None:
        return "-"
    mean = figure(found.mean).text
    return mean if found.low is None or found.high is None else f"{mean} ± {(found.high - found.low) / 2:,.2g}"


def interval_charts(variants: Sequence[Variant]) -> list[dict[str, Any]]:
    """The charts beside the table: for each a title, and for every variant mean, low and high."""
    queues = _queues(variants)
    charts = [("makespan", _NEUTRAL_COLOUR, [variant.makespan_s() for variant in variants])]
    charts += [
        (
            f"{queue}: mean completion",
            sorted(queues).index(queue),
            [variant.completion_s(queue) for variant in variants],
        )
        for queue in queues
    ]
    names = _short([variant.name for variant in variants])
    return [
        {
            "title": title,
            "colour": colour,
            "rows": [
                {"name": name, "mean": found.mean, "low": found.low, "high": found.high}
                for name, found in zip(names, spreads, strict=True)
                if found is not None
            ],
        }
        for title, colour, spreads in charts
    ]


def _short(names: Sequence[str]) -> list[str]:
    """Names without their common parts: the campaign's directory, the keys of its grid."""
    first = names[0].rpartition("/")[0]
    common = f"{first}/" if first and all(name.startswith(f"{first}/") for name in names) else ""
    settings = [[part.partition("=") for part in name.removeprefix(common).split(",")] for name in names]
    if len({tuple(key for key, _, _ in parts) for parts in settings}) == 1 and len(names) > 1:
        return [", ".join(value or key for key, _, value in parts) for parts in settings]
    return [name.removeprefix(common) for name in names]

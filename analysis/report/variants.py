"""Summaries over runs that differ only by their seed: a row and a chart of intervals, for repeats and campaigns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rich.table import Table
from rich.text import Text

from analysis.report.facts import Cell, Grid, failed_jobs, figure, mean_completion_s, percent, text
from analysis.statistics import Spread, spread
from emulator.display.closing_tables import missed_text
from emulator.display.tables import names, new_table, numbers

_NEUTRAL_COLOUR = 3
MOST_ON_TERMINAL = 40
"""Most variants in the closing table of a campaign."""
_Summary = Mapping[str, Any]
Measure = Callable[[_Summary], float | None]


@dataclass(frozen=True, slots=True)
class VariantRuns:
    """The runs with one name."""

    name: str
    summaries: tuple[_Summary, ...]

    def spread(self, read: Measure) -> Spread | None:
        """The spread of one value of each run; None if no run has it."""
        known = [value for summary in self.summaries if (value := read(summary)) is not None]
        return spread(known) if known else None

    def wasted(self) -> Cell:
        """The share of work that was lost, the mean over the runs."""
        found = self.spread(lambda summary: summary["work"]["wasted_fraction"])
        return percent(found.mean if found else None)


def measures_of(variants: Sequence[VariantRuns]) -> dict[str, Measure]:
    """What variants are compared by, in emulated seconds: the makespan, and each queue's mean completion."""
    queues = {job["queue"]: None for variant in variants for summary in variant.summaries for job in summary["jobs"]}
    found: dict[str, Measure] = {"makespan": lambda summary: summary["makespan_s"]}
    return found | {f"{queue}: mean completion": partial(_mean_completion_s, queue=queue) for queue in queues}


def _mean_completion_s(summary: _Summary, queue: str) -> float | None:
    return mean_completion_s(job for job in summary["jobs"] if job["queue"] == queue)


def interval_cell(found: Spread | None, sign: bool = False) -> Cell:
    """A mean with its interval."""
    if found is None:
        return Cell(None, "-")
    said = [figure(value).text for value in (found.mean, found.low, found.high) if value is not None]
    if sign:
        said = [text if text.startswith("-") else f"+{text}" for text in said]
    return Cell(found.mean, said[0] if len(said) == 1 else f"{said[0]} ({said[1]} to {said[2]})")


def find_variants(names: Sequence[str], summaries: Sequence[_Summary]) -> list[VariantRuns]:
    """Runs by name, in their order; empty if no name has several runs, because there is nothing to summarise."""
    by_name: dict[str, list[_Summary]] = {}
    for name, summary in zip(names, summaries, strict=True):
        by_name.setdefault(name, []).append(summary)
    if len(by_name) == len(names):
        return []
    return [VariantRuns(name, tuple(found)) for name, found in by_name.items()]


def variants_grid(variants: Sequence[VariantRuns]) -> Grid:
    """One row for each variant: means with their intervals over the runs."""
    measures, rows = measures_of(variants), []
    for variant in variants:
        jobs = (job for summary in variant.summaries for job in summary["jobs"])
        found = (interval_cell(variant.spread(read)) for read in measures.values())
        start = (text(variant.name), figure(len(variant.summaries)), failed_jobs(jobs))
        rows.append((*start, *found, variant.wasted()))
    heads = (f"{measure}, s" for measure in measures)
    return Grid(("variant", "runs", "jobs failed", *heads, "work lost"), tuple(rows))


def campaign_table(variants: Sequence[VariantRuns], most: int = MOST_ON_TERMINAL) -> Table:
    """The last table of a campaign on a terminal: one row for each variant, with means and intervals over its runs."""
    measures = measures_of(variants)
    jobs = [job for variant in variants for summary in variant.summaries for job in summary["jobs"]]
    has_deadlines = any(job["deadline_s"] is not None for job in jobs)
    columns = [*names("variant"), *numbers("runs", importance=1), *numbers("jobs\nfailed", importance=5)]
    columns += numbers("makespan") + numbers(*(head_of(name) for name in list(measures)[1:]), importance=4)
    columns += numbers("deadlines\nmissed", importance=4) if has_deadlines else []
    columns += numbers("work\nlost", importance=3)
    table = new_table("emulated seconds; means over the runs, ± 95%", columns, also_in="campaign.parquet")
    for name, variant in list(zip(short_names([one.name for one in variants]), variants, strict=True))[:most]:
        mine = [job for summary in variant.summaries for job in summary["jobs"]]
        failed = failed_jobs(mine)
        table.add_row(
            name,
            str(len(variant.summaries)),
            Text(failed.text, "red" if failed.value else ""),
            *(_mean_and_half(variant.spread(read)) for read in measures.values()),
            *((missed_text(mine),) if has_deadlines else ()),
            variant.wasted().text,
        )
    if len(variants) > most:
        table.caption = f"... and {len(variants) - most} more"
    return table


def head_of(measure: str) -> str:
    """A measure as the head of a column."""
    return measure.replace(": ", ":\n")


def _mean_and_half(found: Spread | None) -> str:
    if found is None:
        return "-"
    mean = figure(found.mean).text
    return mean if found.low is None or found.high is None else f"{mean} ± {(found.high - found.low) / 2:,.2g}"


def interval_charts(variants: Sequence[VariantRuns]) -> list[dict[str, Any]]:
    """The charts beside the table: for each a title, and for every variant mean, low and high."""
    shown, measures = short_names([variant.name for variant in variants]), measures_of(variants)
    return [
        interval_chart(measure, colour, zip(shown, [variant.spread(read) for variant in variants], strict=True))
        for (measure, read), colour in zip(measures.items(), colours_of(measures), strict=True)
    ]


def colours_of(measures: Iterable[str]) -> list[int]:
    """The colours of the measures' charts: each queue's is that of the queue in all pictures of a page."""
    queues = sorted(measure for measure in measures if ": " in measure)
    return [queues.index(measure) if measure in queues else _NEUTRAL_COLOUR for measure in measures]


def interval_chart(
    title: str, colour: int, found: Iterable[tuple[str, Spread | None]], *, zero: bool = False
) -> dict[str, Any]:
    """One chart; ``zero``: its axis has a line at 0, otherwise it shows what lies between the values only."""
    return {
        "title": title,
        "colour": colour,
        "zero": zero,
        "rows": [
            {"name": name, "mean": one.mean, "low": one.low, "high": one.high} for name, one in found if one is not None
        ],
    }


def short_names(names: Sequence[str]) -> list[str]:
    """Names without their common parts: the campaign's directory, the keys of its grid."""
    first = names[0].rpartition("/")[0]
    common = f"{first}/" if first and all(name.startswith(f"{first}/") for name in names) else ""
    settings = [[part.partition("=") for part in name.removeprefix(common).split(",")] for name in names]
    if len({tuple(key for key, _, _ in parts) for parts in settings}) == 1 and len(names) > 1:
        return [", ".join(value or key for key, _, value in parts) for parts in settings]
    return [name.removeprefix(common) for name in names]

"""Summaries over runs that differ only by their seed: a row and a chart of intervals, for repeats and campaigns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from emulator.display.grids import (
    Cell,
    Grid,
    failed,
    figure,
    have_deadlines,
    in_columns,
    missed,
    on_terminal,
    percent,
    text,
)
from emulator.display.tables import FittedTable, names, numbers
from emulator.intervals import Spread, spread_of
from emulator.records.measures import by_queue, known, mean
from emulator.vocabulary import Frozen

_NEUTRAL_COLOUR = 3
MOST_ON_TERMINAL = 40
"""Most variants in the closing table of a campaign."""
_Summary = Mapping[str, Any]
Measure = Callable[[_Summary], float | None]


class VariantRuns(Frozen):
    """The runs with one name."""

    name: str
    summaries: tuple[_Summary, ...]

    @property
    def jobs(self) -> list[_Summary]:
        """Of all its runs."""
        return [job for summary in self.summaries for job in summary["jobs"]]

    def spread(self, read: Measure) -> Spread | None:
        """The spread of one value of each run; None if no run has it."""
        return spread_of(map(read, self.summaries))

    def wasted(self) -> Cell:
        """The share of work that was lost, the mean over the runs."""
        found = self.spread(lambda summary: summary["work"]["wasted_fraction"])
        return percent(found.mean if found else None)


def measures_of(variants: Sequence[VariantRuns]) -> dict[str, Measure]:
    """What variants are compared by, in emulated seconds: the makespan, and each queue's mean completion."""
    found: dict[str, Measure] = {"makespan": lambda summary: summary["makespan_s"]}
    queues = by_queue(job for variant in variants for job in variant.jobs)
    return found | {f"{queue}: mean completion": partial(_mean_completion_s, queue=queue) for queue in queues}


def _mean_completion_s(summary: _Summary, queue: str) -> float | None:
    return mean(known(by_queue(summary["jobs"]).get(queue, ()), "completion_s"))


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


def variants_grid(variants: Sequence[VariantRuns], shown: Sequence[str] | None = None) -> Grid:
    """One row for each variant: means with their intervals over the runs.  ``shown``: their names; None: in full."""
    measures, rows = measures_of(variants), []
    has_deadlines = any(have_deadlines(variant.jobs) for variant in variants)
    for variant, name in zip(variants, shown or [variant.name for variant in variants], strict=True):
        start = (text(name), figure(len(variant.summaries)), failed(variant.jobs))
        found = (interval_cell(variant.spread(read)) for read in measures.values())
        rows.append((*start, *found, *([missed(variant.jobs)] if has_deadlines else []), variant.wasted()))
    columns = [*names("variant"), *numbers("runs", importance=1), *numbers("jobs\nfailed", importance=5)]
    columns += numbers("makespan, s") + numbers(*(head_of(name) for name in list(measures)[1:]), importance=4)
    columns += numbers("deadlines\nmissed", importance=4) if has_deadlines else []
    return in_columns([*columns, *numbers("work\nlost", importance=3)], rows)


def campaign_table(variants: Sequence[VariantRuns]) -> FittedTable:
    """The last table of a campaign on a terminal."""
    grid = variants_grid(variants, short_names([one.name for one in variants]))
    return on_terminal("means over the runs (95% interval)", grid, "campaign.parquet", MOST_ON_TERMINAL)


def head_of(measure: str) -> str:
    """A measure as the head of a column."""
    return f"{measure}, s".replace(": ", ":\n")


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

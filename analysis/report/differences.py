"""Each variant of a campaign minus its baseline, in runs of the same seed: as a table, as a page's grid and charts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from analysis.report.variants import (
    MOST_ON_TERMINAL,
    VariantRuns,
    colours_of,
    head_of,
    interval_cell,
    interval_chart,
    measures_of,
    short_names,
)
from emulator.display.grids import Grid, figure, in_columns, on_terminal, text
from emulator.display.tables import FittedTable, names, numbers
from emulator.errors import ConfigError
from emulator.intervals import Spread, spread_of
from emulator.vocabulary import Frozen


class Row(Frozen):
    """One variant."""

    name: str
    seeds: int
    """How many it shares with the baseline."""
    spreads: tuple[Spread | None, ...]
    """For each measure; over the seeds."""


class Differences(Frozen):
    """All variants but the baseline, each minus the baseline."""

    baseline: str
    measures: tuple[str, ...]
    rows: tuple[Row, ...]

    def in_words(self) -> str:
        """What the intervals are, and how many."""
        intervals = sum(found is not None and found.low is not None for row in self.rows for found in row.spreads)
        if not intervals:
            return "One seed: no interval over seeds can be given."
        count = "One interval" if intervals == 1 else f"{intervals} intervals"
        return (
            f"{count} over the seeds (Student's), each of 95% by itself and not adjusted for their number:"
            " of 20 such intervals, one leaves out its true value by chance."
        )


def differences_of(variants: Sequence[VariantRuns], baseline: str | None = None) -> Differences | None:
    """Every variant minus ``baseline``, by default the first; None if a variant shares no seed with it.

    Raises ConfigError: there is no such variant.
    """
    shown = short_names([variant.name for variant in variants])
    place = 0 if baseline is None else baseline_among(baseline, [variant.name for variant in variants])
    first = {summary["seed"]: summary for summary in variants[place].summaries}
    measures = measures_of(variants)
    rows = []
    for name, variant in zip(shown, variants, strict=True):
        if variant is variants[place]:
            continue
        pairs = [(summary, first[summary["seed"]]) for summary in variant.summaries if summary["seed"] in first]
        if not pairs:
            return None
        values = [[(read(a), read(b)) for a, b in pairs] for read in measures.values()]
        known = [[a - b for a, b in of_measure if a is not None and b is not None] for of_measure in values]
        rows.append(Row(name, len(pairs), tuple(map(spread_of, known))))
    return Differences(shown[place], tuple(measures), tuple(rows))


def baseline_among(baseline: str, variants: Sequence[str]) -> int:
    """The place of the variant that is called so, in full or without what all names share.

    Raises ConfigError: there is none.
    """
    shown = short_names(variants)
    for place, (name, short) in enumerate(zip(variants, shown, strict=True)):
        if baseline in (name, name.rpartition("/")[2], short):
            return place
    raise ConfigError(f"--baseline {baseline}: there is no such variant; there are {'; '.join(shown)}")


def differences_table(found: Differences) -> FittedTable:
    """For the terminal."""
    title = f"minus {found.baseline}, seed by seed: mean difference (95% interval)"
    return on_terminal(title, differences_grid(found), "the page of natjam report", MOST_ON_TERMINAL)


def differences_grid(found: Differences) -> Grid:
    """A row for each variant."""
    columns = [*names("variant"), *numbers("seeds", importance=1)]
    columns += numbers(head_of(found.measures[0])) + numbers(*map(head_of, found.measures[1:]), importance=3)
    rows = [
        (text(row.name), figure(row.seeds), *(interval_cell(one, sign=True) for one in row.spreads))
        for row in found.rows
    ]
    return in_columns(columns, rows)


def difference_charts(found: Differences) -> list[dict[str, Any]]:
    """For a page: a chart for each measure, with a line at 0."""
    return [
        interval_chart(
            f"{measure}, minus {found.baseline}",
            colour,
            ((row.name, row.spreads[place]) for row in found.rows),
            zero=True,
        )
        for place, (measure, colour) in enumerate(zip(found.measures, colours_of(found.measures), strict=True))
    ]

"""Runs that differ only by their seed, taken together, for repeats and campaigns.

Each variant has a row, and each of its measures its mean and interval over the seeds; so has each variant minus the
baseline, in runs of the same seed.  Both are tables of a terminal, and grids and charts of a page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from emulator.display import grids
from emulator.display.grids import Cell, Grid, figure, have_deadlines, in_columns, missed, on_terminal, percent, text
from emulator.display.tables import FittedTable, names, numbers
from emulator.errors import ConfigError
from emulator.intervals import Spread, spread_of
from emulator.records.measures import by_queue, figure_of, known, mean
from emulator.vocabulary import Frozen

_NEUTRAL_COLOUR = 3
MAX_ON_TERMINAL = 40
"""Most variants in the closing table of a campaign."""
_Summary = Mapping[str, Any]
Measure = Callable[[_Summary], float | None]


class VariantRuns(Frozen):
    """The runs with one name."""

    name: str
    summaries: tuple[_Summary, ...]
    """Of the runs that finished."""
    broken: int = 0
    """How many others did not."""

    @property
    def jobs(self) -> list[_Summary]:
        """The jobs of all its runs."""
        return [job for summary in self.summaries for job in summary["jobs"]]

    def spread(self, read: Measure) -> Spread | None:
        """The spread of one value of each run; None if no run has it."""
        return spread_of(map(read, self.summaries))


def measures_of(variants: Sequence[VariantRuns]) -> dict[str, Measure]:
    """What variants are compared by, in emulated seconds: the makespan, and each queue's mean completion."""
    queues = by_queue(job for variant in variants for job in variant.jobs)
    found: dict[str, Measure] = {"makespan": partial(figure_of, name="makespan_s")}
    return found | {f"{queue}: mean completion": partial(_mean_completion_s, queue=queue) for queue in queues}


def _mean_completion_s(summary: _Summary, queue: str) -> float | None:
    return mean(known(by_queue(summary["jobs"]).get(queue, ()), "completion_s"))


def find_variants(names: Sequence[str], summaries: Sequence[_Summary]) -> list[VariantRuns]:
    """Runs by name, in their order; empty if no name has several runs, because there is nothing to summarise."""
    by_name: dict[str, list[_Summary]] = {}
    for name, summary in zip(names, summaries, strict=True):
        by_name.setdefault(name, []).append(summary)
    if len(by_name) == len(names):
        return []
    return [VariantRuns(name, tuple(found)) for name, found in by_name.items()]


def short_names(names: Sequence[str]) -> list[str]:
    """Names without their common parts: the campaign's directory, the keys of its grid."""
    first = names[0].rpartition("/")[0]
    common = f"{first}/" if first and all(name.startswith(f"{first}/") for name in names) else ""
    settings = [[part.partition("=") for part in name.removeprefix(common).split(",")] for name in names]
    if len({tuple(key for key, _, _ in parts) for parts in settings}) == 1 and len(names) > 1:
        return [", ".join(value or key for key, _, value in parts) for parts in settings]
    return [name.removeprefix(common) for name in names]


def variants_grid(variants: Sequence[VariantRuns], shown: Sequence[str] | None = None) -> Grid:
    """One row for each variant: means with their intervals over the runs.  ``shown``: their names; None: in full."""
    measures, rows = measures_of(variants), []
    has_deadlines = any(have_deadlines(variant.jobs) for variant in variants)
    has_broken = any(variant.broken for variant in variants)
    for variant, name in zip(variants, shown or [variant.name for variant in variants], strict=True):
        counts = [figure(len(variant.summaries)), *([figure(variant.broken)] if has_broken else [])]
        start = (text(name), *counts, grids.failed(variant.jobs))
        found = [interval_cell(variant.spread(read)) for read in measures.values()]
        if not variant.summaries:
            found[0] = text("failed")
        wasted = variant.spread(partial(figure_of, name="wasted_fraction"))
        end = [missed(variant.jobs)] if has_deadlines else []
        rows.append((*start, *found, *end, percent(wasted.mean if wasted else None)))
    columns = [
        *names("variant"),
        *numbers("runs", importance=1),
        *(numbers("runs\nfailed", importance=5) if has_broken else []),
    ]
    columns += numbers("jobs\nfailed", importance=5)
    columns += numbers("makespan, s") + numbers(*(_head_of(name) for name in list(measures)[1:]), importance=4)
    columns += numbers("deadlines\nmissed", importance=4) if has_deadlines else []
    return in_columns([*columns, *numbers("work\nlost", importance=3)], rows)


def campaign_table(variants: Sequence[VariantRuns]) -> FittedTable:
    """The last table of a campaign on a terminal."""
    grid = variants_grid(variants, short_names([one.name for one in variants]))
    return on_terminal("means over the runs (95% interval)", grid, "campaign.parquet", MAX_ON_TERMINAL)


def interval_cell(found: Spread | None, sign: bool = False) -> Cell:
    """A mean with its interval."""
    if found is None:
        return Cell(None, "-")
    said = [figure(value).text for value in (found.mean, found.low, found.high) if value is not None]
    if sign:
        said = [text if text.startswith("-") else f"+{text}" for text in said]
    return Cell(found.mean, said[0] if len(said) == 1 else f"{said[0]} ({said[1]} to {said[2]})")


def _head_of(measure: str) -> str:
    return f"{measure}, s".replace(": ", ":\n")


# ---- differences from a baseline ----


class Differences(Frozen):
    """All variants but the baseline, each minus the baseline, seed by seed."""

    baseline: str
    measures: tuple[str, ...]
    seeds: Mapping[str, int]
    """By variant: how many seeds it shares with the baseline."""
    spreads: Mapping[str, Sequence[Spread | None]]
    """By variant, for each measure: over these seeds."""

    def in_words(self) -> str:
        """What the intervals are, and how many."""
        intervals = sum(one is not None and one.low is not None for found in self.spreads.values() for one in found)
        if not intervals:
            return "One seed: no interval over seeds can be given."
        count = "One interval" if intervals == 1 else f"{intervals} intervals"
        return (
            f"{count} over the seeds (Student's), each of 95% by itself and not adjusted for their number:"
            " of 20 such intervals, one leaves out its true value by chance."
        )


def differences_of(variants: Sequence[VariantRuns], baseline: str | None = None) -> Differences | None:
    """Every variant minus ``baseline``, by default the first with a finished run; None if one shares no seed with it.

    A variant without a finished run is left out.

    Raises ConfigError: there is no such variant.
    """
    shown = short_names([variant.name for variant in variants])
    finished = (place for place, variant in enumerate(variants) if variant.summaries)
    place = next(finished, 0) if baseline is None else baseline_among(baseline, [variant.name for variant in variants])
    first = {summary["seed"]: summary for summary in variants[place].summaries}
    measures = measures_of(variants)
    seeds, spreads = {}, {}
    for name, variant in zip(shown, variants, strict=True):
        if variant is variants[place] or not variant.summaries:
            continue
        pairs = [(summary, first[summary["seed"]]) for summary in variant.summaries if summary["seed"] in first]
        if not pairs:
            return None
        values = [[(read(a), read(b)) for a, b in pairs] for read in measures.values()]
        known_ = [[a - b for a, b in of_measure if a is not None and b is not None] for of_measure in values]
        seeds[name], spreads[name] = len(pairs), [*map(spread_of, known_)]
    return Differences(shown[place], tuple(measures), seeds, spreads)


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
    return on_terminal(title, differences_grid(found), "the page of natjam report", MAX_ON_TERMINAL)


def differences_grid(found: Differences) -> Grid:
    """A row for each variant."""
    columns = [*names("variant"), *numbers("seeds", importance=1)]
    columns += numbers(_head_of(found.measures[0])) + numbers(*map(_head_of, found.measures[1:]), importance=3)
    rows = [
        (text(name), figure(found.seeds[name]), *(interval_cell(one, sign=True) for one in spreads))
        for name, spreads in found.spreads.items()
    ]
    return in_columns(columns, rows)


# ---- charts of a page ----


def interval_charts(variants: Sequence[VariantRuns]) -> list[dict[str, Any]]:
    """The charts beside the table of variants."""
    shown, measures = short_names([variant.name for variant in variants]), measures_of(variants)
    spreads = ([variant.spread(read) for read in measures.values()] for variant in variants)
    return _charts(measures, dict(zip(shown, spreads, strict=True)))


def difference_charts(found: Differences) -> list[dict[str, Any]]:
    """The charts beside the table of differences, with a line at 0."""
    return _charts(found.measures, found.spreads, found.baseline)


def _charts(
    measures: Iterable[str], spreads: Mapping[str, Sequence[Spread | None]], baseline: str | None = None
) -> list[dict[str, Any]]:
    """A chart for each measure: its title, and for every variant mean, low and high.

    A queue has the colour that it has in all pictures of the page.  The axis of differences from a ``baseline`` has a
    line at 0; otherwise it shows what lies between the values only.
    """
    queues = sorted(measure for measure in measures if ": " in measure)
    return [
        {
            "title": measure if baseline is None else f"{measure}, minus {baseline}",
            "colour": queues.index(measure) if measure in queues else _NEUTRAL_COLOUR,
            "zero": baseline is not None,
            "rows": [
                {"name": name, "mean": one.mean, "low": one.low, "high": one.high}
                for name, found in spreads.items()
                if (one := found[place]) is not None
            ],
        }
        for place, measure in enumerate(measures)
    ]

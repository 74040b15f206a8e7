"""What both advisers, that of experiments and that of sites, compare: candidates, their results, and their table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from analysis.report.variants import interval_cell
from emulator.display.tables import Column, FittedTable, Kind, new_table
from emulator.intervals import Spread
from emulator.sites.basis import Basis

NO_POLICIES = "-"
"""For ``wait``: with every policy, nothing is taken."""
MIN_PREEMPTIONS = 10
"""No candidate is named best if even the one that preempts most often does so less often than this.

Chance alone makes a count of ten one between 4.8 and 18.4 (95% interval, Poisson).  So below ten, not even a candidate
that preempts half or twice as often can be distinguished, and neither can what its preemptions cost.
"""
Measures = Mapping[str, float | None]
"""Figures by the keys of ``advise.json``."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to run the jobs."""

    settings: Mapping[str, str]
    """What people choose, by the keys of ``advise.json``; the mechanism or mode is the first."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """By the dotted keys of an experiment file; they replace the file's."""
    properties: tuple[str, ...] | None = None
    """With YARN's CapacityScheduler: the properties by which YARN itself does it, ``name=value``; None: it cannot."""

    @property
    def mechanism(self) -> str:
        """Its first setting."""
        return next(iter(self.settings.values()))

    @property
    def policies(self) -> str:
        """The policies of an experiment."""
        return self.settings["policies"]

    @property
    def name(self) -> str:
        """Its settings, as the name of a directory."""
        chosen = (value for value in self.settings.values() if value != NO_POLICIES)
        return re.sub(r"[^A-Za-z0-9._+-]+", "-", "-".join(chosen))


@dataclass(frozen=True, slots=True)
class CandidateResult:
    """What a candidate means for the jobs."""

    candidate: Candidate
    measures: Mapping[str, float | Spread | None]
    """By the keys of ``advise.json``; of days that are drawn, means over them.  None: there is no figure."""

    def value(self, key: str) -> float | None:
        """A measure, or the mean of it."""
        found = self.measures.get(key)
        return found.mean if isinstance(found, Spread) else found

    def number(self, key: str) -> float:
        """The same; 0 where there is no figure."""
        return self.value(key) or 0

    def text(self, key: str, form: str = ",.0f") -> str:
        """A setting or a measure as people read it; ``form`` is that of a number without an interval."""
        if key in self.candidate.settings:
            return self.candidate.settings[key]
        found = self.measures[key]
        if found is None:
            return "-"
        return interval_cell(found).text if isinstance(found, Spread) else format(found, form)

    def to_json(self) -> dict[str, Any]:
        """The entry of ``advise.json``."""
        return {**self.candidate.settings, **self.measures}


def reasons_against_any(basis: Basis, most: float, per: str = "") -> Iterator[str]:
    """A sentence for each reason why no candidate may be named best.

    Args:
        basis: what the answer rests on.
        most: how often the candidate that preempts most often does so.
        per: in what time, after the number; for example " a day".
    """
    if basis.decides:
        first, more = basis.decides[0].reason, len(basis.decides) - 1
        others = f", and {more:,} more" if more else ""
        yield f"No preference: what decides at this site and is not modelled could change the order ({first}{others})."
    if most < MIN_PREEMPTIONS:
        yield f"Too few preemptions to tell: at most {most:.3g}{per}; below {MIN_PREEMPTIONS} no way is named best."


CellColumn = tuple[Column, Callable[[CandidateResult], str]]
"""A column of a table, and the cell of a row."""


def column(head: str, kind: Kind, importance: int, key: str, form: str = ",.0f") -> CellColumn:
    """The column of a setting or measure; ``form`` is that of a number without an interval."""
    return Column(head, kind, importance), lambda row: row.text(key, form)


def results_table(
    title: str, columns: Sequence[CellColumn], found: Sequence[CandidateResult], chosen: CandidateResult | None = None
) -> FittedTable:
    """One row for each candidate; those of one mechanism are together if it has several.  ``chosen`` is marked."""
    table = new_table(title, [column for column, _ in columns], also_in="advise.json")
    mechanisms = [each.candidate.mechanism for each in found]
    has_several = len(set(mechanisms)) < len(found)
    for before, each in zip((found[0], *found), found, strict=False):
        if has_several and each.candidate.mechanism != before.candidate.mechanism:
            table.add_section()
        cells = [cell(each) for _, cell in columns]
        if each.number("failed"):
            first = sum(column.kind is Kind.NAME for column, _ in columns)
            said = f"{each.number('failed')} of {each.number('runs')} runs failed"
            cells = [*cells[:first], said, *[""] * (len(cells) - first - 1)]
        table.add_row(*cells, style="bold green" if each is chosen else "red" if each.number("failed") else "")
    return table

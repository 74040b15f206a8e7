"""How near a paper's printed values the measured ones are: a row for each, and what they come to together."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.table import Table

from analysis.reproduce.claims import all_claims
from analysis.reproduce.definitions import FigureDefinition, all_figures
from analysis.reproduce.record import CellResult, Results
from analysis.reproduce.reproduced import FOUND
from analysis.reproduce.tables import number
from analysis.reproduce.values import SHARES, PaperValues, Value, all_values, source_of
from emulator.display.tables import ALWAYS, names, new_table, numbers, words
from emulator.vocabulary import counted

NEAR = 0.25
WORST = 5
_ALIKE = 0.01
BASES = ("predicted", "fitted")
_HEADS = ("value", "where", "published", "", "95% interval", "seeds", "distance", "basis")
_FOUND = 3
_SIGNS = {"": "", "at most": "<= ", "at least": ">= ", "within": "+/- ", "the text prints a limit": "limit "}
_UNITS = {"pct": "%", "pp": " pp", "ratio": "", "count": "", "s": " s"}


@dataclass(frozen=True, slots=True)
class Score:
    """One printed value, and what was measured for it, in the value's scale."""

    value: Value
    figure: str
    measured: float
    low: float | None
    high: float | None
    seeds: int

    @property
    def is_counted(self) -> bool:
        """Whether it is counted in a recorded trace, and not simulated."""
        return all_figures()[self.figure].is_counted_in_a_trace

    @property
    def holds(self) -> bool | None:
        """Whether the measured value is within a printed limit; None where there is none, or its side is not said."""
        published, measured = self.value.published or 0.0, self.measured
        sides = {
            "at most": measured <= published,
            "at least": measured >= published,
            "within": abs(measured) <= published,
        }
        return sides.get(self.value.bound)

    @property
    def distance(self) -> float | None:
        """Measured less published, over published; None where 0 is published, or a limit and not a value."""
        published = 0.0 if self.value.bound else self.value.published or 0.0
        return (self.measured - published) / abs(published) if published else None

    @property
    def points(self) -> float | None:
        """Measured less published in percentage points, where both are shares."""
        is_share = self.value.scale in SHARES and not self.value.bound
        return self.measured - (self.value.published or 0.0) if is_share else None

    @property
    def why_far(self) -> str:
        """What a run shows of the cause of the distance, or that there is none to look for."""
        is_near = self.distance is not None and abs(self.distance) < _ALIKE
        return self.value.cause or ("Within 1%." if is_near else "No run shows the cause.")

    @property
    def texts(self) -> tuple[str, ...]:
        """In the order of ``heads``."""
        interval = "" if self.low is None or self.high is None else f"{number(self.low)} to {number(self.high)}"
        return (
            self.value.id,
            self.value.where,
            f"{_SIGNS[self.value.bound]}{self._with_unit(self.value.published)}",
            self._with_unit(self.measured) + (", counted" if self.is_counted else ""),
            interval,
            str(self.seeds),
            self._away,
            self.value.basis or "",
        )

    @property
    def _away(self) -> str:
        if self.value.bound:
            return {True: "within it", False: "beyond it", None: ""}[self.holds]
        points = "" if self.points is None else f"{self.points:+.1f} pp"
        if self.distance is None:
            return points or number(self.measured - (self.value.published or 0.0))
        return f"{self.distance:+.1%}" + (f" ({points})" if points else "")

    def _with_unit(self, figure: float | None) -> str:
        scale = self.value.scale or ""
        return number(figure) + _UNITS.get(scale, f" {scale}")


def heads(engine: str) -> tuple[str, ...]:
    """The heads of the columns of a table of values."""
    return (*_HEADS[:_FOUND], FOUND[engine], *_HEADS[_FOUND + 1 :])


def scores(paper: PaperValues, results: Results, engine: str) -> list[Score]:
    """The values that ``engine`` has measured, in the order of the paper."""
    claims, figures = all_claims(), all_figures()
    found = []
    for value in paper.printed:
        if value.claim is not None and claims[value.claim].engine not in ("both", engine):
            continue
        by_figure: dict[str, list[tuple[CellResult, float]]] = {}
        for source in source_of(value, claims, figures):
            cell = results.cells(source.figure, engine).get(source.cell)
            if cell is not None and (cell.measured if value.statistic == "mean" else cell.sd) is not None:
                by_figure.setdefault(source.figure, []).append((cell, source.times))
        if by_figure:
            figure, cells = next(iter(by_figure.items()))
            found.append(_score(value, figure, cells))
    return found


def _score(value: Value, figure: str, cells: Sequence[tuple[CellResult, float]]) -> Score:
    """The mean of the cells, which are most often one; of several there is no interval."""
    if value.statistic == "sd":
        (cell, times), *_ = cells
        return Score(value, figure, (cell.sd or 0.0) * times, None, None, cell.seeds)
    measured = statistics.fmean((cell.measured or 0.0) * times for cell, times in cells)
    (cell, times), alone = cells[0], len(cells) == 1
    low = cell.low * times if alone and cell.low is not None else None
    high = cell.high * times if alone and cell.high is not None else None
    return Score(value, figure, measured, low, high, min(cell.seeds for cell, _ in cells))


def summary_lines(paper: PaperValues, found: Sequence[Score]) -> Iterator[str]:
    """What the values come to: predicted and fitted ones apart, and what is not measured."""
    for basis in BASES:
        of_basis = [score for score in found if score.value.basis == basis and score.distance is not None]
        distances = [abs(score.distance or 0.0) for score in of_basis]
        if not distances:
            continue
        near = sum(distance <= NEAR for distance in distances)
        text = f"{basis}: {counted(len(of_basis), 'value')}, median distance {statistics.median(distances):.1%}"
        points = [abs(score.points) for score in of_basis if score.points is not None]
        text += f" (shares: {statistics.median(points):.1f} percentage points)" if points else ""
        yield f"{text}, {near} of {len(distances)} ({near / len(distances):.0%}) within {NEAR:.0%}"
    if limits := [score.holds for score in found if score.holds is not None]:
        yield f"printed limits: {sum(limits)} of {len(limits)} hold"
    if zeros := sum(score.distance is None and not score.value.bound for score in found):
        yield f"0 is published of {counted(zeros, 'value')}, which has no relative distance"
    if left := len(paper.printed) - len(found):
        yield f"not in these runs: {counted(left, 'value')} of {len(paper.printed)}"
    if pictures := len(paper.values) - len(paper.printed):
        yield f"only in pictures, which are not available: {counted(pictures, 'entry')}"


def worst(found: Sequence[Score]) -> list[Score]:
    """The predicted values farthest away, farthest first."""
    known = [score for score in found if score.distance is not None and score.value.basis == "predicted"]
    return sorted(known, key=lambda score: -abs(score.distance or 0.0))[:WORST]


def papers_of(figures: Sequence[FigureDefinition]) -> list[PaperValues]:
    """The papers of which some value is measured by these figures."""
    ids = {figure.id for figure in figures}
    claims, known = all_claims(), all_figures()
    return [
        paper
        for paper in all_values().values()
        if any(source.figure in ids for value in paper.printed for source in source_of(value, claims, known))
    ]


def score_table(paper: PaperValues, found: Sequence[Score], engine: str) -> Table:
    """For the terminal."""
    value, where, published, measured, interval, seeds, distance, basis = heads(engine)
    columns = [*names(value), *words(where, importance=0), *numbers(published, measured, importance=ALWAYS)]
    columns += [*words(interval, importance=1), *numbers(seeds, importance=1), *numbers(distance), *words(basis)]
    table = new_table(f"{paper.paper}: values that it prints", columns, also_in="claims.json")
    for score in found:
        table.add_row(*score.texts)
    return table

"""``claims.json``: what a reproduction measured, each figure with the command, date, version and seeds that made it.

The tables of values and the pages in ``docs/`` are made from such files (``docs/claims``), so it holds all cells.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from analysis.reproduce.claims import all_claims
from analysis.reproduce.definitions import all_figures
from analysis.reproduce.measure import Measured
from analysis.reproduce.reproduced import Reproduced, Reproduction
from analysis.reproduce.verdict import Verdict, finding, together
from emulator import __version__
from emulator.errors import ConfigError
from emulator.files.strict import Strict
from emulator.intervals import Spread

_DIGITS = 6
"""Significant digits of figures."""


class CellResult(Strict):
    """One measured figure."""

    published: float | None
    measured: float | None
    low: float | None
    high: float | None
    """Ends of the 95% interval; null where there is none."""
    sd: float | None
    """Standard deviation of the runs."""
    seeds: int
    """Runs that it is of; of what is found in several variants at once, those of each."""

    @property
    def spread(self) -> Spread | None:
        """The mean with its deviation and interval; None if it was not measured."""
        return None if self.measured is None else Spread(self.seeds, self.measured, self.sd, self.low, self.high)


class ClaimResult(Strict):
    """One claim, and the verdict on it."""

    id: str
    published: Any
    measured: Any
    accept: dict[str, Any]
    ok: bool | None
    """Whether it holds; null: undecided."""
    why: str
    deciding_seeds: int | None = None
    """How many seeds would decide an undecided one; null: more than can be said."""


class FigureResult(Strict):
    """One figure, and how it was made."""

    id: str
    engine: str
    command: str
    date: str
    natjam: str
    """The version."""
    seeds: int
    """From 1."""
    claims: tuple[ClaimResult, ...]
    cells: dict[str, CellResult]


class Results(Strict):
    """A ``claims.json``."""

    figures: tuple[FigureResult, ...]

    def cells(self, figure: str, engine: str) -> dict[str, CellResult]:
        """The cells of a figure; empty if it was not run."""
        return next((made.cells for made in self.figures if (made.id, made.engine) == (figure, engine)), {})

    def merged(self, newer: Results) -> Results:
        """With the figures of ``newer`` in place of the same ones by the same engine."""
        found = {(figure.id, figure.engine): figure for figure in (*self.figures, *newer.figures)}
        return Results(figures=tuple(found.values()))


def judged_again(results: Results) -> Results:
    """The same figures, with the verdicts that today's claims give on the cells; claims that are no more are left out.

    Verdicts on orders stay, because they are found from pairs of runs, and only means are kept.
    """
    return Results(figures=tuple(_figure_judged_again(figure) for figure in results.figures))


def _figure_judged_again(made: FigureResult) -> FigureResult:
    definition, claims = all_figures().get(made.id), all_claims()
    defined = {} if definition is None else definition.cells
    found = []
    for one in (one for one in made.claims if one.id in claims):
        claim = claims[one.id]
        of_claim = [name for name in made.cells if name in defined and defined[name].claim == one.id]
        if of_claim:
            verdict = together(finding(claim, defined[name].part, made.cells[name].spread) for name in of_claim)
            now = {"published": claim.published, "accept": claim.accept, **verdict.kept}
            one = one.model_copy(update=now)
        found.append(one)
    return made.model_copy(update={"claims": tuple(found)})


def results_of(reproduction: Reproduction, command: str) -> Results:
    """What was measured; ``command``: the call that did it."""
    return Results(figures=tuple(_figure(figure, reproduction.engine, command) for figure in reproduction.figures))


def read_results(path: Path) -> Results:
    """A ``claims.json``.  Raises ConfigError."""
    try:
        return Results.model_validate_json(path.read_bytes(), strict=False)
    except (OSError, ValidationError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error.errors(include_url=False)[0]["msg"])
        raise ConfigError(f"{path}: cannot be read as a claims.json of 'natjam reproduce' ({why})") from None


def _figure(figure: Reproduced, engine: str, command: str) -> FigureResult:
    seeds = max((len(by_seed) for by_seed in figure.summaries.values()), default=0)
    return FigureResult(
        id=figure.definition.id,
        engine=engine,
        command=command,
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        natjam=__version__,
        seeds=seeds,
        claims=tuple(_claim(verdict) for verdict in figure.verdicts),
        cells={name: _cell(cell, seeds) for name, cell in figure.cells.items()},
    )


def _claim(verdict: Verdict) -> ClaimResult:
    claim, measured = verdict.claim, verdict.measured
    kept = {name: rounded(mean) for name, mean in measured.items()} if isinstance(measured, dict) else rounded(measured)
    return ClaimResult(id=claim.id, published=claim.published, measured=kept, accept=claim.accept, **verdict.found.kept)


def _cell(cell: Measured, seeds: int) -> CellResult:
    low, high = cell.interval or (None, None)
    return CellResult(
        published=cell.published,
        measured=rounded(cell.mean),
        low=rounded(low),
        high=rounded(high),
        sd=rounded(cell.sd),
        seeds=cell.n or (0 if cell.mean is None else seeds),
    )


def rounded(value: float | None) -> float | None:
    """As it is kept."""
    return None if value is None else float(f"{value:.{_DIGITS}g}")

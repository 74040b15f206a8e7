"""Figures of papers, as data in ``analysis/claims/<paper>/<figure>.yaml``.

A figure names an experiment of ``workloads/catalog``, its variants (settings by dotted key), and cells.  With ``like``
it names another figure, which has what it does not say itself.  A new paper needs a file of claims and a directory of
figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from analysis.reproduce.cells import ALL, POINT, Cell, at_points, repeated, unit_of, with_points
from analysis.reproduce.claims import Number, all_claims, claims_folder
from emulator.errors import ConfigError
from emulator.experiment.catalog import catalog_directory
from emulator.files.problems import suggestion, validated
from emulator.files.strict import Strict, written_as
from emulator.files.yaml_positions import Document, read_document


class OtherForm(Strict):
    """What is other about a figure where it is not run as it is: live, small, or only a part for a first look."""

    experiment: str | None = None
    """A file of ``workloads/catalog``; null: the figure's."""
    points: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """Points of the grid; null: all."""
    set: dict[str, Any] = Field(default_factory=dict)
    """Settings of this form alone."""
    live_repeats: Annotated[int, Field(ge=1)] | None = None
    """Null: the figure's."""
    about: str = ""


class Grid(Strict):
    """Points at which variants are run, with the settings of each; runs are called ``<variant>-<point>``."""

    points: Annotated[dict[str, dict[str, Any]], Field(min_length=1)]
    values: dict[str, str] = Field(default_factory=dict)
    """The figures for ratios: a dotted path into ``summary.json`` for each point, or one for ``all``."""
    variants: tuple[str, ...] | None = None
    """Variants to which the points' settings apply; others are run once and count at every point; null: all."""

    def value(self, point: str) -> str:
        """The path at ``point``."""
        return self.values.get(point) or self.values[ALL]


class Scaled(Strict):
    """A dotted path into ``summary.json``, and the divisor of its values."""

    value: str
    over: Annotated[Number, Field(gt=0)] = 1.0


Form = Literal["bars", "weeks", "curves"]


class Plot(Strict):
    """The form of the figure in the paper; axis labels have units."""

    form: Form
    x: str
    y: str
    lines: dict[str, str] = Field(default_factory=dict)
    """The variant, by the label of the line or bar, in ``curves`` and ``weeks``."""
    rows: dict[str, Scaled] = Field(default_factory=dict)
    """In ``weeks``, what each row of panels shows, by the label of its axis; columns are the points' names up to ``-``,
    groups of bars the rest of the names.  Of ``curves``: what each panel shows, over the numbers at the end of the
    points' names."""
    least: str | None = None
    """The variant that ``weeks`` has as a line over the bars of the last scheduler, in the first row."""
    log: bool = False


class FigureDefinition(Strict):
    """One figure or table of a paper.

    Variants, points, cells and orders may have the words of ``each`` in their names, in braces, and stand then for one
    of them for each value (``analysis.reproduce.cells.repeated``).  Cells and orders may have ``{variant}`` too, and
    cells ``{point}``; an order of cells with ``{point}`` is one order at each point.  ``at: all`` is all points.
    """

    id: Annotated[str, written_as(r"^[a-z0-9-]+/[a-z0-9-]+$", "the paper, a slash and the figure")]
    title: str
    source: str
    about: str = ""
    engines: tuple[Literal["sim", "live"], ...] = ("sim", "live")
    calibration: bool = False
    """Whether its figures were fitted; they are then left out of the mean error."""
    sim_repeats: Annotated[int, Field(ge=1)] | None = None
    """Seeds, from 1, of its simulations."""
    live_repeats: Annotated[int, Field(ge=1)] | None = None
    """Seeds of its live runs; null: the five repeats of most papers."""
    quick: OtherForm | None = None
    time_scale: Annotated[Number, Field(gt=0)] | None = None
    """The time scale at which it is always run: 1 if it shows real time."""
    experiment: str | None = None
    """A file of ``workloads/catalog``."""
    counted: Literal["google-preemptions", "google-repeats", "slurm-runs"] | None = None
    """In place of it: what is counted in a recorded trace, or found beside recorded runs
    (``analysis.reproduce.counted``); all variants are equal."""
    live: OtherForm | None = None
    """What is other about its live runs."""
    small: OtherForm | None = None
    """The form in which ``docs/choices.py`` tries constants, where the whole figure takes too long."""
    each: dict[str, tuple[Any, ...] | dict[Any, Any]] = Field(default_factory=dict)
    """Words and their values; a mapping has for each value what else it stands for (``{word.value}``)."""
    set: dict[str, Any] = Field(default_factory=dict)
    full: dict[str, Any] = Field(default_factory=dict)
    """Settings that make it as large as the paper's, where it is smaller."""
    variants: dict[str, dict[str, Any]] = Field(default_factory=dict)
    grid: Grid | None = None
    cells: Annotated[dict[str, Cell], Field(min_length=1)]
    orders: dict[str, dict[str, str]] = Field(default_factory=dict)
    """By claim: the cell of each of its variants."""
    plot: Plot | None = None
    """Null: a function of ``analysis.papers`` draws it."""

    @property
    def look(self) -> Plot:
        """The plot of a figure that has one."""
        assert self.plot is not None, self.id
        return self.plot

    @property
    def paper(self) -> str:
        """Its paper."""
        return self.id.partition("/")[0]

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """The settings of every variant, at every point of the grid."""
        found = {name: {**self.set, **variant} for name, variant in self.variants.items()}
        if self.grid is not None:
            for name in self.grid.variants or self.variants:
                alone = found.pop(name)
                found |= {f"{name}-{point}": {**alone, **settings} for point, settings in self.grid.points.items()}
        return found

    def quickly(self) -> FigureDefinition:
        """The figure with only the points and cells of a first look."""
        return self if self.quick is None else self.in_form(self.quick)

    def fully(self) -> FigureDefinition:
        """As large as the paper's."""
        return self.model_copy(update={"set": {**self.set, **self.full}})

    def by(self, engine: str) -> FigureDefinition:
        """As ``engine`` makes it."""
        return self if engine != "live" or self.live is None else self.in_form(self.live)

    def in_form(self, form: OtherForm) -> FigureDefinition:
        """As it is in one of its other forms."""
        figure = self if form.points is None else self._with_points(form.points)
        changes = {
            "about": f"{self.about.strip()}  {form.about.strip()}" if form.about else self.about,
            "set": {**self.set, **form.set},
            "experiment": form.experiment or self.experiment,
            "live_repeats": form.live_repeats or self.live_repeats,
        }
        return figure.model_copy(update=changes)

    def _with_points(self, points: tuple[str, ...]) -> FigureDefinition:
        """Without the other points of the grid, and the cells that are of them."""
        if self.grid is None:
            return self
        grid = self.grid.model_copy(update={"points": {point: self.grid.points[point] for point in points}})
        figure = self.model_copy(update={"grid": grid})
        known = figure.settings
        cells = {name: at_points(cell, points) for name, cell in self.cells.items()}
        kept = {name: cell for name, cell in cells.items() if cell is not None and cell.variant in (None, *known)}
        return figure.model_copy(update={"cells": kept})

    def at(self, variant: str, point: str) -> str:
        """The name of ``variant`` at a point of the grid."""
        found = f"{variant}-{point}"
        return found if found in self.settings else variant

    @property
    def is_counted_in_a_trace(self) -> bool:
        """Whether its figures are no runs of ours at all; those beside recorded runs are simulated."""
        return self.counted is not None and self.counted.startswith("google")

    def unit(self, name: str) -> str:
        """The unit of a cell; empty if nothing says it."""
        return unit_of(self.cells[name], self.cells)

    @property
    def claims(self) -> list[str]:
        """The claims that it measures."""
        return list(dict.fromkeys([*(cell.claim for cell in self.cells.values() if cell.claim), *self.orders]))

    def claims_of(self, name: str) -> list[str]:
        """The claims that a cell is judged by."""
        own = self.cells[name].claim
        ordered = {claim: self.ordered(claim).values() for claim in self.orders}
        orders = [claim for claim, points in ordered.items() if any(name in cells.values() for cells in points)]
        return orders if own is None else [own, *orders]

    @model_validator(mode="before")
    @classmethod
    def _repeats(cls, data: Any) -> Any:
        grid = data.get("grid") or {}
        each, variants, cells, orders = (data.get(key, {}) for key in ("each", "variants", "cells", "orders"))
        if not all(isinstance(part, Mapping) for part in (grid, each, variants, cells, orders)):
            return data
        points, values = (grid.get(key, {}) for key in ("points", "values"))
        several = all(isinstance(of_word, Mapping | tuple) for of_word in each.values())
        if not several or not isinstance(points, Mapping) or not isinstance(values, Mapping):
            return data
        points, variants = repeated(points, each), repeated(variants, each)
        words = {"variant": tuple(variants), **each}
        made = repeated(cells, {**words, "point": tuple(points)} if points else words)
        found = {
            "variants": variants,
            "cells": {name: with_points(cell, points) for name, cell in made.items()},
            "orders": repeated(orders, words),
        }
        if grid:
            found["grid"] = {**grid, "points": points, "values": repeated(values, each)}
        return {**data, **found}

    @model_validator(mode="after")
    def _one_source(self) -> FigureDefinition:
        if (self.experiment is None) == (self.counted is None):
            raise ValueError("give one of experiment and counted")
        if "sim" in self.engines and self.sim_repeats is None:
            raise ValueError("is simulated: say with how many seeds (sim_repeats)")
        return self

    @model_validator(mode="after")
    def _names_are_known(self) -> FigureDefinition:
        known = self.settings
        for name, cell in self.cells.items():
            if cell.variant is not None and cell.variant not in known:
                raise ValueError(f"cell '{name}': there is no variant '{cell.variant}'")
            if cell.difference is not None and cell.difference.against not in known:
                raise ValueError(f"cell '{name}': there is no variant '{cell.difference.against}'")
            if cell.ratio is not None:
                self._check_grid(name, cell.ratio.at, (cell.ratio.of, cell.ratio.over, *cell.ratio.against))
            if cell.level is not None:
                self._check_grid(name, cell.level.at, filter(None, (cell.level.of, cell.level.less)))
            self._check_cells(name, [cell.cell, cell.less, cell.over])
        for claim in self.orders:
            for cells in self.ordered(claim).values():
                self._check_cells(claim, list(cells.values()))
        return self

    def ordered(self, claim: str) -> dict[str, dict[str, str]]:
        """The cells of a claim on an order, by variant: at each point of the grid, or once."""
        cells = self.orders[claim]
        at_points = self.grid is not None and any(POINT in cell for cell in cells.values())
        points = self.grid.points if at_points and self.grid is not None else ("",)
        return {point: {name: cell.replace(POINT, point) for name, cell in cells.items()} for point in points}

    def _check_grid(self, where: str, points: Iterable[str], variants: Iterable[str]) -> None:
        if self.grid is None:
            raise ValueError(f"cell '{where}': needs a grid")
        for point in points:
            if point not in self.grid.points:
                raise ValueError(f"cell '{where}': there is no point '{point}'")
        for name in variants:
            if name not in self.variants:
                raise ValueError(f"cell '{where}': there is no variant '{name}'")

    def _check_cells(self, where: str, names: Sequence[str | None]) -> None:
        for name in names:
            if name is not None and (name not in self.cells or self.cells[name].cell is not None):
                raise ValueError(f"'{where}': '{name}' is not a cell with its own figures")


@cache
def all_figures() -> dict[str, FigureDefinition]:
    """The figures of all papers, by id.  Raises ConfigError."""
    found = {}
    for path in sorted(claims_folder().glob("*/*.yaml"), key=_in_order):
        figure = validated(_read(path), FigureDefinition)
        for claim in figure.claims:
            if claim not in all_claims():
                raise ConfigError(f"{path}: there is no claim '{claim}'{suggestion(claim, all_claims())}")
        found[figure.id] = figure
    return found


_OF_CELLS = ("orders", "small")
"""Keys that go with the cells of a figure."""


def _read(path: Path) -> Document:
    """The document of a figure; what it does not say is as in the figure that it is ``like``."""
    document = read_document(path)
    if like := document.data.pop("like", None):
        other = _read(claims_folder() / f"{like}.yaml").data
        if "cells" in document.data:
            other = {key: value for key, value in other.items() if key not in _OF_CELLS}
        document.data = {**other, **document.data}
    return document


def catalog_path(figure: FigureDefinition) -> Path:
    """The experiment file of a figure that has one."""
    assert figure.experiment is not None
    return catalog_directory() / figure.experiment


def chosen_figures(ids: Sequence[str]) -> list[FigureDefinition]:
    """The figures of some ids: ``natjam/fig4``, a whole paper (``natjam``), or ``all``.  Raises ConfigError."""
    figures = all_figures()
    found: dict[str, FigureDefinition] = {}
    for wanted in ids:
        named = {id: figure for id, figure in figures.items() if wanted in (ALL, id, figure.paper)}
        if not named:
            papers = {figure.paper for figure in figures.values()}
            near = suggestion(wanted, [*figures, *papers])
            raise ConfigError(f"there is no figure or paper '{wanted}'{near}; see 'natjam reproduce --list'")
        found |= named
    return list(found.values())


def _in_order(path: Path) -> tuple[str, bool, int, str]:
    """Sort key that puts fig9 before fig10."""
    digits = "".join(character for character in path.stem if character.isdigit())
    return path.parent.name, not digits, int(digits or 0), path.stem

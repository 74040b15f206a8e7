"""What the papers print: ``analysis/values/<paper>.yaml``.

Each file lists every figure and table of a paper, every number about results that its text, tables and captions print,
and every constant that it leaves open, with ours.  A value says where it is measured: a claim of ``analysis/claims``,
or a cell of a figure; or why it is not.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from analysis.reproduce.claims import Claim, Number, all_claims
from analysis.reproduce.definitions import FigureDefinition, all_figures
from emulator.errors import ConfigError
from emulator.files.problems import Problem, describe, suggestion, validated
from emulator.files.strict import Name, Strict, written_as
from emulator.files.yaml_positions import read_document

PERCENT = 100.0
SHARES = ("pct", "pp")
"""Scales of shares printed in percent, and of differences of such shares in percentage points."""
Id = Annotated[str, written_as(r"^[A-Za-z0-9._-]+$", "letters, digits and . _ -")]
CellName = Annotated[str, written_as(r"^[a-z0-9-]+/[a-z0-9-]+:.+$", "the figure, a colon and the cell")]


class PaperFigure(Strict):
    """A figure or table of the paper's text, whether it is reproduced here or not."""

    name: Name
    shows: str
    state: Literal["reproduced", "partly", "not"]
    by: str | tuple[str, ...] | None = None
    """The figures of ``analysis/claims`` that reproduce it; or a page of the docs, of what is no measurement."""
    missing: str = ""
    """What is missing, or why it is not reproduced."""

    @property
    def commands(self) -> tuple[str, ...]:
        """The ids of the figures that reproduce it."""
        return (self.by,) if isinstance(self.by, str) else self.by or ()

    def state_in(self, run: Collection[str], absent: str) -> str:
        """Its state, if all figures that reproduce it are among those that were run; else ``absent``, and which of
        them were not."""
        if self.is_no_measurement:
            return "no measurement"
        left = [id for id in self.commands if id not in run]
        if self.state == "not" or not left:
            return self.state
        return absent if len(left) == len(self.commands) else f"{absent}: {', '.join(left)}"

    @property
    def is_no_measurement(self) -> bool:
        """Whether pages of the docs describe it, and no run measures it."""
        return bool(self.commands) and all(id.startswith("docs/") for id in self.commands)

    def how(self, page: str = "{}", command: str = "{}") -> str:
        """How it is reproduced, or why not: pages of the docs and commands, each written as said."""
        by = [
            page.format(id) if id.startswith("docs/") else command.format(f"natjam reproduce {id}")
            for id in self.commands
        ]
        return "; ".join(part for part in (", ".join(by), self.missing) if part)

    @model_validator(mode="after")
    def _says_how_or_why(self) -> PaperFigure:
        if self.state != "not" and not self.commands:
            raise ValueError(f"state {self.state}: say by which figure, as in natjam/fig4")
        if self.state != "reproduced" and not self.missing:
            raise ValueError(f"state {self.state}: say what is missing")
        return self


class Value(Strict):
    """One number about results that the paper prints; or what only a picture shows, which counts nowhere."""

    id: Id
    where: str
    says: str = ""
    """A short quotation."""
    published: Number | None = None
    scale: Name | None = None
    """ratio, pct (a share in percent), pp (percentage points), s, count, or another unit."""
    statistic: Literal["mean", "sd"] = "mean"
    """sd: the standard deviation of the figure's runs."""
    bound: Literal["", "at most", "at least", "within", "the text prints a limit"] = ""
    """The text prints a limit, not a value: ``within``, the size of it is at most this."""
    basis: Literal["predicted", "fitted"] | None = None
    """fitted: a workload or a constant was chosen with the value known."""
    why: str = ""
    """What was chosen with a fitted one known."""
    claim: str | None = None
    part: str | None = None
    """The part of the claim."""
    cell: CellName | None = None
    """In place of a claim: ``figure:cell``."""
    times: Number | None = None
    """What the measured figure is multiplied by; null: 100 if this is a percentage and the claim a share of 1."""
    unmeasured: str = ""
    """Why it is not measured."""
    cause: str = ""
    """What an ablation run shows of the cause, where a value is far away."""
    picture: str = ""
    """Why what only a picture shows cannot be compared."""

    @model_validator(mode="after")
    def _is_measured_or_says_why(self) -> Value:
        if self.picture:
            return self
        if not self.says or self.published is None or self.scale is None or self.basis is None:
            raise ValueError("give says, published, scale and basis; or picture, for what only a picture shows")
        if (self.claim is not None) + (self.cell is not None) + bool(self.unmeasured) != 1:
            raise ValueError("give one of claim, cell and unmeasured")
        if (self.basis == "fitted") != bool(self.why):
            raise ValueError("a fitted value says why, what was chosen with it known; others do not")
        return self


class Constant(Strict):
    """What a paper leaves open, and what we chose."""

    name: str
    where: str
    ours: str | Number
    setting: str | None = None
    """The dotted key of an experiment; null: it is no setting."""
    files: Annotated[tuple[str, ...], Field(alias="in")] = ()
    """Files of ``workloads/catalog`` that set it."""
    source: str
    """Where ours is from, or why it was chosen."""
    feeds: tuple[str, ...] = ()
    """The values and claims that depend on it, or the first part of their names, up to a dot."""


class PaperValues(Strict):
    """One file."""

    paper: Name
    figures: tuple[PaperFigure, ...]
    values: tuple[Value, ...]
    constants: tuple[Constant, ...] = ()

    @property
    def figures_of(self) -> str:
        """What the ids of its figures in ``analysis/claims`` begin with."""
        ids = (id for figure in self.figures for id in figure.commands if not id.startswith("docs/"))
        return next(ids, self.paper).partition("/")[0]

    @property
    def printed(self) -> tuple[Value, ...]:
        """All but what only pictures show."""
        return tuple(value for value in self.values if not value.picture)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value is measured: a cell of a figure, and the factor from its scale to the value's."""

    figure: str
    cell: str
    times: float


def source_of(value: Value, claims: Mapping[str, Claim], figures: Mapping[str, FigureDefinition]) -> tuple[Source, ...]:
    """The cells that measure a value, most often one; empty if it is not measured."""
    if value.cell is not None:
        figure, _, cell = value.cell.partition(":")
        return (Source(figure, cell, _times(value, figures[figure].cells[cell].published)),)
    if value.claim is None:
        return ()
    times = _times(value, claims[value.claim].published_of(value.part))
    return tuple(
        Source(figure.id, cell, times)
        for figure in figures.values()
        if value.claim in figure.claims
        for cell in cells_of_part(figure, value.claim, value.part)
    )


def cells_of_part(figure: FigureDefinition, claim: str, part: str | None) -> list[str]:
    """The cells that measure a part of a claim, or a variant of a claim on an order."""
    if claim in figure.orders:
        return [cells[part] for cells in figure.ordered(claim).values() if part in cells]
    return [name for name, cell in figure.cells.items() if cell.claim == claim and cell.part == part]


def _times(value: Value, theirs: float | None) -> float:
    """From the scale of the claim or cell, which publishes ``theirs``, to the value's."""
    if value.times is not None:
        return value.times
    if value.scale in SHARES and theirs is not None and _same(PERCENT * theirs, value.published):
        return PERCENT
    return 1.0


def _same(a: float | None, b: float | None) -> bool:
    return a is not None and b is not None and math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)


def read_values(path: Path) -> PaperValues:
    """The file of one paper.  Raises ConfigError: what is named is not there, or is another number."""
    document = read_document(path)
    found = validated(document, PaperValues)
    problems = list(_problems(found))
    if path.stem != found.paper:
        problems.append((("paper",), f"must be '{path.stem}', as the file is called"))
    if problems:
        raise ConfigError(describe(problems, document))
    return found


def _problems(found: PaperValues) -> Iterator[Problem]:
    claims, figures = all_claims(), all_figures()
    for index, figure in enumerate(found.figures):
        for id in figure.commands:
            if id not in figures and not id.startswith("docs/"):
                yield ("figures", index, "by"), f"there is no figure '{id}'{suggestion(id, figures)}"
    known: set[str] = set()
    for index, value in enumerate(found.values):
        if value.id in known:
            yield ("values", index, "id"), f"'{value.id}' is there twice"
        known.add(value.id)
        for field, message in _value_problems(value, claims, figures):
            yield ("values", index, field), message
    for index, constant in enumerate(found.constants):
        for id in constant.feeds:
            if id not in claims and not any(name == id or name.startswith(f"{id}.") for name in known):
                near = suggestion(id, [*known, *claims])
                yield ("constants", index, "feeds"), f"there is no value and no claim '{id}'{near}"


def _value_problems(
    value: Value, claims: Mapping[str, Claim], figures: Mapping[str, FigureDefinition]
) -> Iterator[tuple[str, str]]:
    """Fields and what is wrong with them."""
    if value.cell is not None:
        figure, _, cell = value.cell.partition(":")
        if figure not in figures:
            yield "cell", f"there is no figure '{figure}'{suggestion(figure, figures)}"
        elif cell not in figures[figure].cells:
            yield "cell", f"{figure} has no cell '{cell}'{suggestion(cell, figures[figure].cells)}"
        elif not _agrees(value, figures[figure].cells[cell].published):
            yield "published", f"is {value.published:g}, but {figure} has {figures[figure].cells[cell].published:g}"
    elif value.claim is not None:
        if value.claim not in claims:
            yield "claim", f"there is no claim '{value.claim}'{suggestion(value.claim, claims)}"
            return
        theirs = claims[value.claim].published_of(value.part)
        if not _agrees(value, theirs):
            yield "published", f"is {value.published:g}, but claim {value.claim} has {theirs:g}"
        if not source_of(value, claims, figures):
            yield "claim", f"no figure measures {value.claim}" + (f", part '{value.part}'" if value.part else "")


def _agrees(value: Value, theirs: float | None) -> bool:
    """Whether the number is that of the claim or the cell, if that has one."""
    factors = (value.times,) if value.times is not None else (1.0, PERCENT) if value.scale in SHARES else (1.0,)
    if value.statistic != "mean":
        return True
    return theirs is None or any(_same(theirs * factor, value.published) for factor in factors)


@cache
def fitted_claims() -> frozenset[str]:
    """The claims that are no predictions: every printed value that they ask for is fitted."""
    claims, figures = all_claims(), all_figures()
    bases: dict[str, set[str | None]] = {id: {"fitted"} for id, claim in claims.items() if claim.fitted}
    for value in (value for paper in all_values().values() for value in paper.printed):
        for source in source_of(value, claims, figures):
            for claim in figures[source.figure].claims_of(source.cell):
                bases.setdefault(claim, set()).add(value.basis)
    return frozenset(claim for claim, found in bases.items() if found == {"fitted"})


@cache
def all_values() -> dict[str, PaperValues]:
    """The files of all papers, by paper.  Raises ConfigError."""
    folder = Path(str(resources.files("analysis") / "values"))
    return {path.stem: read_values(path) for path in sorted(folder.glob("*.yaml"))}

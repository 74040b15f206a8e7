"""How far claims and values move when a constant that a paper leaves open is halved and doubled.

    python -m analysis.reproduce.choices natjam                    # all constants of a paper that are numbers
    python -m analysis.reproduce.choices natjam --only heartbeats  # one of them

Each constant is tried in the smallest figure that measures something it feeds, simulated, on quick seeds; where that
takes minutes and the figure's live runs have a form of their own, in that form, simulated.  What is found is kept in
``analysis/values/choices.json``, from which ``docs/choices.md`` is made.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from analysis.reproduce.definitions import FigureDefinition, all_claims, all_figures
from analysis.reproduce.needs import work_of
from analysis.reproduce.record import rounded
from analysis.reproduce.run import planned, reproduce
from analysis.reproduce.values import Constant, PaperValues, all_values, cells_of_part, source_of
from emulator.campaign.plan import Variant
from emulator.display.console import results_console
from emulator.errors import ConfigError, NatjamError
from emulator.experiment.model import Experiment
from emulator.files.strict import Strict

KEPT = Path(__file__).resolve().parents[1] / "values/choices.json"
HALVED, DOUBLED = 0.5, 2.0
EACH = "N"
"""In a setting: each entry of a list, as in ``workload.jobs.N.key_s``; ``low-N``: each whose name begins so."""
LARGE_REAL_S = 300.0
"""Work from which on the form of the live runs is tried instead, if the figure has one."""


class Moved(Strict):
    """One cell that a constant feeds: as it is, and with the constant halved and doubled; null: no result."""

    paper: str
    constant: str
    figure: str
    fed: str
    """The cell."""
    base: float | None
    halved: float | None
    doubled: float | None
    as_live: bool = False
    """Whether it was tried in the form of the figure's live runs."""

    @property
    def most(self) -> float:
        """How far it moves at most, as a share of what it is."""
        moved = [abs(other - (self.base or 0.0)) for other in (self.halved, self.doubled) if other is not None]
        return max(moved, default=0.0) / (abs(self.base or 0.0) or 1.0)


class Choices(Strict):
    """The file of them."""

    moved: tuple[Moved, ...]


def read_choices() -> tuple[Moved, ...]:
    """What is kept."""
    return Choices.model_validate_json(KEPT.read_bytes(), strict=False).moved if KEPT.exists() else ()


def moves_of(moved: Sequence[Moved], paper: str, constant: Constant) -> list[Moved]:
    """Those of one constant."""
    return [one for one in moved if (one.paper, one.constant) == (paper, constant.name)]


def fed_cells(paper: PaperValues, constant: Constant) -> dict[str, list[str]]:
    """The cells that a constant feeds, by figure: of claims, of values, of values whose names begin so."""
    claims, figures = all_claims(), all_figures()
    found: dict[str, dict[str, None]] = {}
    for id in constant.feeds:
        for value in paper.printed:
            if value.id == id or value.id.startswith(f"{id}."):
                for source in source_of(value, claims, figures):
                    found.setdefault(source.figure, {})[source.cell] = None
        for figure in figures.values():
            if id in figure.claims:
                parts = figure.orders.get(id) or {cell.part: "" for cell in figure.cells.values() if cell.claim == id}
                cells = [cell for part in parts for cell in cells_of_part(figure, id, part)]
                found.setdefault(figure.id, {}).update(dict.fromkeys(cells))
    return {figure: list(cells) for figure, cells in found.items() if "sim" in figures[figure].engines}


def scaled(experiment: Experiment, setting: str, factor: float) -> Experiment:
    """The experiment with a setting multiplied.  Raises ConfigError if it is no number there."""
    whole = experiment.model_dump()
    if not _multiply(whole, setting.split("."), factor):
        raise ConfigError(f"{setting}: is no number in {experiment.name}")
    return Experiment.model_validate(whole)


def _multiply(whole: Any, path: Sequence[str], factor: float) -> bool:
    """Multiply what stands at a path, in place; whether there was a number."""
    key, *rest = path
    if isinstance(whole, list | tuple):
        chosen = [place for place, entry in enumerate(whole) if _is_meant(key, place, entry)]
        return bool(rest) and sum(_multiply(whole[place], rest, factor) for place in chosen) > 0
    if not isinstance(whole, dict) or key not in whole:
        return False
    value = whole[key]
    if rest:
        return _multiply(value, rest, factor)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    whole[key] = max(1, round(value * factor)) if isinstance(value, int) else value * factor
    return True


def _is_meant(key: str, place: int, entry: Any) -> bool:
    """Whether a part of a path means this entry of a list."""
    if key == str(place) or key == EACH:
        return True
    name = entry.get("name") if isinstance(entry, dict) else None
    return isinstance(name, str) and key.endswith(f"-{EACH}") and name.startswith(key.removesuffix(EACH))


def try_constant(paper: PaperValues, constant: Constant, out: Path) -> Iterator[Moved]:
    """Run the smallest figure that a constant feeds as it is, halved and doubled.  Raises ConfigError if it cannot."""
    fed = fed_cells(paper, constant)
    if not fed or constant.setting is None:
        raise ConfigError("no simulated figure measures what it feeds" if not fed else "is no setting")
    figures = [all_figures()[id] for id in fed]
    planned_of = planned(figures, "sim", None, quick=True)
    figure = min(figures, key=lambda figure: _size(figure.id, planned_of[figure.id]))
    variants = planned_of[figure.id]
    as_live = figure.live is not None and (work_of({figure.id: variants}).real_s or LARGE_REAL_S) >= LARGE_REAL_S
    if as_live:
        figure = figure.by("live")
        variants = planned([figure], "sim", None, quick=True)[figure.id]
    measured: dict[float, Mapping[str, float | None]] = {}
    for factor in (1.0, HALVED, DOUBLED):
        try:
            changed = [replace(one, experiment=scaled(one.experiment, constant.setting, factor)) for one in variants]
        except ValidationError:  # no such value: a share above 1
            measured[factor] = {}
            continue
        measured[factor] = _measured(figure, changed, out / f"{figure.id.replace('/', '-')}-{constant.name}-{factor:g}")
    for cell in fed[figure.id]:
        base, halved, doubled = (measured[factor].get(cell) for factor in (1.0, HALVED, DOUBLED))
        yield Moved(
            paper=paper.paper,
            constant=constant.name,
            figure=figure.id,
            fed=cell,
            base=base,
            halved=halved,
            doubled=doubled,
            as_live=as_live,
        )


def _size(figure: str, variants: Sequence[Variant]) -> tuple[bool, float, int]:
    """Sort key: known times first, then the time, then the number of runs."""
    work = work_of({figure: variants})
    return work.real_s is None, work.real_s or 0.0, work.runs


def _measured(figure: FigureDefinition, variants: Sequence[Variant], path: Path) -> Mapping[str, float | None]:
    """The means of all cells."""
    made = reproduce([figure], {figure.id: variants}, "sim", path, lambda status: None)
    return {name: rounded(cell.mean) for name, cell in made.figures[0].cells.items()}


def main() -> None:
    """Try the constants of a paper, and keep what is found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paper", choices=sorted(all_values()))
    parser.add_argument("--only", help="the name of one constant")
    given = parser.parse_args()
    paper, console = all_values()[given.paper], results_console()
    for constant in paper.constants:
        if given.only not in (None, constant.name):
            continue
        try:
            with tempfile.TemporaryDirectory() as folder:
                moved = list(try_constant(paper, constant, Path(folder)))
        except (NatjamError, ValueError) as error:
            console.print(f"{constant.name}: not tried: {str(error).splitlines()[0]}", markup=False)
            continue
        kept = [one for one in read_choices() if (one.paper, one.constant) != (paper.paper, constant.name)]
        KEPT.write_text(Choices(moved=(*kept, *moved)).model_dump_json(indent=1) + "\n")
        for one in moved:
            console.print(
                f"{constant.name}: {one.figure}, {one.fed}: {one.base}, {one.halved}, {one.doubled}", markup=False
            )


if __name__ == "__main__":
    main()

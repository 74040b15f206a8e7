"""How far claims and values move when a constant that a paper leaves open is halved and doubled.

    python docs/choices.py natjam                    # all constants of a paper that are numbers
    python docs/choices.py natjam --only heartbeats  # some of them, by name

Each constant is tried in the smallest figure that measures something it feeds, simulated, on quick seeds; where that
takes minutes and the figure has a small form, or a form of its live runs, in that form, simulated.  Only the variants
are run that the cells need.  What is found is kept in ``analysis/values/choices.json``, from which ``docs/choices.md``
is made.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from msgspec.structs import replace
from pydantic import ValidationError

from analysis.reproduce.cells import Ratio
from analysis.reproduce.claims import all_claims
from analysis.reproduce.definitions import FigureDefinition, OtherForm, all_figures
from analysis.reproduce.needs import work_of
from analysis.reproduce.record import rounded
from analysis.reproduce.run import at_most_seeds, planned, reproduce
from analysis.reproduce.values import Constant, PaperValues, all_values, cells_of_part, source_of
from emulator.campaign.directory import CampaignDirectory, Variant
from emulator.display.console import results_console
from emulator.errors import ConfigError, NatjamError
from emulator.experiment.model import Experiment
from emulator.files.strict import Strict

KEPT = Path(__file__).resolve().parents[1] / "analysis/values/choices.json"
HALVED, DOUBLED = 0.5, 2.0
EACH = "N"
"""In a setting: each entry of a list, as in ``workload.jobs.N.key_s``; ``low-N``: each whose name begins so."""
LARGE_REAL_S = 100.0
"""Work from which on another form is tried instead, if the figure has one."""
FormName = Literal["small", "live"]


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
    form: FormName | None = None
    """The form of the figure in which it was tried; null: as it is."""
    seeds: int | None = None
    """With how many seeds, if with fewer than a quick reproduction has."""

    @property
    def most(self) -> float:
        """How far it moves at most, as a share of what it is."""
        moved = [abs(other - (self.base or 0.0)) for other in (self.halved, self.doubled) if other is not None]
        return max(moved, default=0.0) / (abs(self.base or 0.0) or 1.0)


class Refused(Strict):
    """A constant that cannot be halved and doubled."""

    paper: str
    constant: str
    why: str


class Choices(Strict):
    """The file of them."""

    moved: tuple[Moved, ...]
    refused: tuple[Refused, ...] = ()

    def without(self, paper: str, constant: str) -> Choices:
        """All but what is kept of one constant."""
        moved = tuple(one for one in self.moved if (one.paper, one.constant) != (paper, constant))
        return Choices(
            moved=moved, refused=tuple(one for one in self.refused if (one.paper, one.constant) != (paper, constant))
        )


def read_choices() -> Choices:
    """What is kept."""
    return Choices.model_validate_json(KEPT.read_bytes(), strict=False) if KEPT.exists() else Choices(moved=())


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
    """The experiment with a setting multiplied, or several with commas between them.

    Raises ConfigError if one is no number there, nor a list or group of numbers.
    """
    whole = experiment.model_dump()
    for one in setting.split(", "):
        whole = _multiplied(whole, one.split("."), factor)
        if whole is None:
            raise ConfigError(f"{one}: is no number in {experiment.name}")
    return Experiment.model_validate(whole)


def all_scaled(variants: Sequence[Variant], setting: str, factor: float) -> list[Variant]:
    """The variants with a setting multiplied; those that do not have it (as FIFO has no cycle) stay as they are.

    Raises ConfigError if none has it.
    """
    found, lack = [], []
    for one in variants:
        try:
            found.append(replace(one, experiment=scaled(one.experiment, setting, factor)))
        except ConfigError as error:
            found.append(one)
            lack.append(error)
    if len(lack) == len(variants):
        raise lack[0]
    return found


def _multiplied(whole: Any, path: Sequence[str], factor: float) -> Any:
    """The same with what stands at a path multiplied; None if there is no number."""
    if not path:
        return _times(whole, factor)
    key, *rest = path
    if isinstance(whole, list | tuple):
        meant = {place for place, entry in enumerate(whole) if _is_meant(key, place, entry)}
        changed = {place: _multiplied(whole[place], rest, factor) for place in meant}
        if all(value is None for value in changed.values()):
            return None
        return type(whole)(entry if changed.get(place) is None else changed[place] for place, entry in enumerate(whole))
    inner = _multiplied(whole[key], rest, factor) if isinstance(whole, dict) and key in whole else None
    return None if inner is None else whole | {key: inner}


def _times(value: Any, factor: float) -> Any:
    """A number, or every number of a list or group, multiplied; None if something in it is no number."""
    if isinstance(value, list | tuple | dict):
        times = [_times(one, factor) for one in (value.values() if isinstance(value, dict) else value)]
        if not times or None in times:
            return None
        return dict(zip(value, times, strict=True)) if isinstance(value, dict) else type(value)(times)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return max(1, round(value * factor)) if isinstance(value, int) else value * factor


def _is_meant(key: str, place: int, entry: Any) -> bool:
    """Whether a part of a path means this entry of a list."""
    if key == str(place) or key == EACH:
        return True
    name = entry.get("name") if isinstance(entry, dict) else None
    return isinstance(name, str) and key.endswith(f"-{EACH}") and name.startswith(key.removesuffix(EACH))


@dataclass(frozen=True, slots=True)
class Trial:
    """The smallest figure that a constant feeds, and its variants with the constant as it is, halved and doubled."""

    figure: FigureDefinition
    cells: Sequence[str]
    variants: Mapping[float, Sequence[Variant]]
    """By factor; none where there is no such value, as a share above 1 or half of one container."""
    form: FormName | None


def trial_of(paper: PaperValues, constant: Constant) -> Trial:
    """How to try a constant.  Raises ConfigError if it cannot be."""
    fed = fed_cells(paper, constant)
    if not fed or constant.setting is None:
        raise ConfigError("no simulated figure measures what it feeds" if not fed else "is no setting")
    chosen = min((_smallest_form(all_figures()[id], cells) for id, cells in fed.items()), key=_size)
    by_factor: dict[float, Sequence[Variant]] = {1.0: chosen.variants}
    for factor in (HALVED, DOUBLED):
        with contextlib.suppress(ValidationError):
            found = all_scaled(chosen.variants, constant.setting, factor)
            if found != chosen.variants:
                by_factor[factor] = found
    cells = [cell for cell in fed[chosen.figure.id] if cell in chosen.figure.cells]
    return Trial(chosen.figure, cells, by_factor, chosen.form)


class _Form(NamedTuple):
    """A figure as it would be run, or another form of it, with the variants that some of its cells need."""

    figure: FigureDefinition
    variants: Sequence[Variant]
    form: FormName | None = None


def _smallest_form(figure: FigureDefinition, cells: Sequence[str]) -> _Form:
    whole = _Form(figure, _variants(figure, cells))
    untimed, is_large, *_ = _size(whole)
    others: Sequence[tuple[FormName, OtherForm | None]] = [("small", figure.small), ("live", figure.live)]
    for name, other in others:
        if other is not None and (untimed or is_large):
            found = figure.in_form(other)
            return _Form(found, _variants(found, cells), name)
    return whole


def _variants(figure: FigureDefinition, cells: Sequence[str]) -> list[Variant]:
    """The variants that some cells are of."""
    needed = {f"{figure.id.replace('/', '-')}-{name}" for name in needed_variants(figure, cells)}
    return [one for one in planned([figure], "sim", None, quick=True)[figure.id] if one.name in needed]


def needed_variants(figure: FigureDefinition, cells: Collection[str]) -> set[str]:
    """The variants whose runs some cells of a figure are measured in."""
    found: set[str] = set()
    for cell in (figure.cells[name] for name in cells if name in figure.cells):
        if cell.own:
            return set(figure.settings)
        found |= needed_variants(figure, [name for name in (cell.cell, cell.less, cell.over) if name is not None])
        found |= {name for name in (cell.variant, cell.difference.against if cell.difference else None) if name}
        for over in filter(None, (cell.ratio, cell.level)):
            names = (over.of, over.over, *over.against) if isinstance(over, Ratio) else (over.of, over.less)
            found |= {figure.at(name, point) for name in names if name for point in over.at}
    return found


def tried(paper: PaperValues, constant: Constant, trial: Trial, out: Path, seeds: int | None) -> Iterator[Moved]:
    """Make the runs of a trial, with the first ``seeds`` of its seeds or all; those with ours serve all constants."""
    form = out / f"{trial.figure.id.replace('/', '-')}-{trial.form}"
    changed = form / str(paper.constants.index(constant))
    measured = {
        factor: _measured(
            trial.figure,
            at_most_seeds({trial.figure.id: variants}, seeds),
            form / "ours" if factor == 1.0 else changed / f"{factor:g}",
        )
        for factor, variants in trial.variants.items()
    }
    for cell in trial.cells:
        base, halved, doubled = (measured.get(factor, {}).get(cell) for factor in (1.0, HALVED, DOUBLED))
        yield Moved(
            paper=paper.paper,
            constant=constant.name,
            figure=trial.figure.id,
            fed=cell,
            base=base,
            halved=halved,
            doubled=doubled,
            form=trial.form,
            seeds=seeds,
        )


def _size(one: _Form) -> tuple[bool, bool, float, int]:
    """Sort key: other forms, and known times, before what takes minutes; then the time and the number."""
    work, is_whole = work_of({one.figure.id: one.variants}), one.form is None
    return is_whole and work.untimed > 0, is_whole and work.real_s >= LARGE_REAL_S, work.real_s, work.runs


def _measured(
    figure: FigureDefinition, variants: Mapping[str, Sequence[Variant]], path: Path
) -> Mapping[str, float | None]:
    """The means of all cells."""
    with CampaignDirectory(path).held() as directory:
        made = reproduce([figure], variants, "sim", directory, lambda status: None)
    return {name: rounded(cell.mean) for name, cell in made.figures[0].cells.items()}


def main() -> None:
    """Try the constants of a paper, and keep what is found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paper", choices=sorted(all_values()))
    parser.add_argument("--only", nargs="+", help="the names of some constants")
    parser.add_argument("--seeds", type=int, help="fewer than the five of a quick reproduction")
    given = parser.parse_args()
    paper, console = all_values()[given.paper], results_console()
    chosen = [constant for constant in paper.constants if given.only is None or constant.name in given.only]
    with tempfile.TemporaryDirectory() as folder:
        for constant in chosen:
            for line in _try(paper, constant, Path(folder), given.seeds):
                console.print(f"{constant.name}: {line}", markup=False)


def _try(paper: PaperValues, constant: Constant, out: Path, seeds: int | None) -> Iterator[str]:
    """Try one constant, keep what is found, and say it."""
    try:
        trial = trial_of(paper, constant)
    except ConfigError as error:
        _keep(paper, constant, refused=[Refused(paper=paper.paper, constant=constant.name, why=error.message)])
        yield f"not tried: {error.message}"
        return
    try:
        moved = list(tried(paper, constant, trial, out, seeds))
    except (NatjamError, ValueError) as error:
        yield f"failed: {str(error).splitlines()[0]}"
        return
    _keep(paper, constant, moved)
    yield from (f"{one.figure}, {one.fed}: {one.base}, {one.halved}, {one.doubled}" for one in moved)


def _keep(paper: PaperValues, constant: Constant, moved: Sequence[Moved] = (), refused: Sequence[Refused] = ()) -> None:
    others = read_choices().without(paper.paper, constant.name)
    kept = Choices(moved=(*others.moved, *moved), refused=(*others.refused, *refused))
    KEPT.write_text(kept.model_dump_json(indent=1) + "\n")


if __name__ == "__main__":
    main()

"""A reproduction as tables; their rows are shown on the terminal and on the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from rich.table import Table
from rich.text import Text

from analysis.reproduce.claims import all_claims
from analysis.reproduce.definitions import FigureDefinition, all_figures
from analysis.reproduce.measure import Measured
from analysis.reproduce.needs import cost_of
from analysis.reproduce.record import ClaimResult
from analysis.reproduce.reproduced import FOUND, FOUND_IN_FULL, Reproduced, Reproduction
from analysis.reproduce.values import fitted_claims
from analysis.reproduce.verdict import MAX_SEEDS, NUMBERS_WITHIN, WORDS, Finding, Verdict, finding
from emulator.display.tables import ALWAYS, names, new_table, numbers, words
from emulator.vocabulary import counted

SIMULATED = FOUND["sim"]
_UNIT = "unit"
_BEFORE, _AFTER = ("cell", _UNIT, "published"), ("95% interval", "seeds", "error", "accepted", "verdict")
_SIMULATED_PLACE = len(_BEFORE) + 1
_COLUMNS = {
    "cell": words("cell"),
    _UNIT: words(_UNIT, importance=ALWAYS),
    "published": numbers("published", importance=ALWAYS),
    "95% interval": words("95% interval", importance=2),
    "seeds": words("seeds", importance=1),
    "error": numbers("error", importance=4),
    "accepted": words("accepted", importance=5),
    "verdict": names("verdict"),
}
"""On a terminal."""


_STYLES = {"": "", "held": "green", "failed": "red", "undecided": "yellow"}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a figure's table."""

    texts: tuple[str, ...]
    """In the order of ``columns``."""
    verdict: str
    """held, failed or undecided; empty if nothing is claimed."""


def columns(figure: Reproduced) -> tuple[str, ...]:
    """The columns of a figure's table; after what was found, for live runs, what simulations of them found."""
    more = (SIMULATED,) if figure.simulated else ()
    return (*_BEFORE, figure.source, *more, *_AFTER)


def rows(figure: Reproduced) -> list[Row]:
    """One row for every cell, then one for every order."""
    held = {verdict.claim.id: verdict for verdict in figure.verdicts}
    disturbed = Counter(variant for variant, _ in figure.disturbed)
    found = [
        _cell_row(
            name,
            figure.definition.unit(name),
            cell,
            held.get(cell.cell.claim or ""),
            disturbed[cell.cell.variant or ""],
        )
        for name, cell in figure.cells.items()
    ]
    found += [_order_row(held[claim]) for claim in figure.definition.orders if claim in held]
    if not figure.simulated:
        return found
    return [_with_simulated(row, figure.simulated.get(row.texts[0])) for row in found]


def _with_simulated(row: Row, simulated: Measured | None) -> Row:
    text = "" if simulated is None else number(simulated.mean)
    return Row((*row.texts[:_SIMULATED_PLACE], text, *row.texts[_SIMULATED_PLACE:]), row.verdict)


def _cell_row(name: str, unit: str, cell: Measured, verdict: Verdict | None, disturbed: int) -> Row:
    word = "" if verdict is None else WORDS[finding(verdict.claim, cell.cell.part, cell.spread).ok]
    error = "" if cell.error is None else f"{cell.error:+.1%}"
    limits = "" if verdict is None else accepted(verdict.claim.accept, cell.cell.part)
    texts = (
        name,
        unit,
        number(cell.published),
        number(cell.mean),
        interval(cell.interval),
        f"{cell.n}, {disturbed} disturbed" if disturbed else str(cell.n or ""),
        error,
        limits,
        word,
    )
    return Row(texts, word)


def _order_row(verdict: Verdict) -> Row:
    order = verdict.claim.accept["order"]
    values = verdict.measured if isinstance(verdict.measured, dict) else {}
    measured = ", ".join(number(values.get(name)) or "-" for name in order)
    name = ".".join(verdict.claim.id.split(".")[2:]).replace("_", " ")
    near = f", each within {NUMBERS_WITHIN:.0%}" if isinstance(verdict.claim.published, dict) else ""
    word = WORDS[verdict.ok]
    return Row((name, "", "", measured, "", "", "", " < ".join(order) + near, word), word)


def accepted(accept: dict[str, Any], part: str | None) -> str:
    """What is accepted of a part of a claim, as text."""
    words = []
    for kind, limit in accept.items():
        name, _, side = kind.rpartition("_")
        if kind == "within_absolute":
            words.append(f"within {limit:g}")
        elif not name or name == part:
            words.append(
                f"within {limit:.0%}" if side == "within" else f"{'at least' if side == 'min' else 'at most'} {limit:g}"
            )
    return ", ".join(words)


def number(value: float | None) -> str:
    """A figure as text."""
    if value is None:
        return ""
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 0.1 or not value else f"{value:.4f}"


def interval(ends: tuple[float, float] | None) -> str:
    """Both ends of an interval as text."""
    return "" if ends is None else " to ".join(map(number, ends))


def figure_table(figure: Reproduced) -> Table:
    """A figure's table for the terminal."""
    definition = figure.definition
    heads = {SIMULATED: numbers(SIMULATED, importance=3), **_COLUMNS, figure.source: words(figure.source)}
    found = [column for head in columns(figure) for column in heads[head]]
    title = f"{definition.id}: {definition.title} ({definition.source})"
    table = new_table(title, found, also_in="claims.json")
    for row in rows(figure):
        table.add_row(*row.texts[:-1], Text(row.texts[-1], _STYLES[row.verdict]))
    return table


def closing_lines(reproduction: Reproduction) -> Iterator[str]:
    """The verdicts, counted; how far the cells are from the published figures; and the claims that do not hold."""
    verdicts = reproduction.verdicts
    yield f"{FOUND_IN_FULL[reproduction.engine]}: {counts({verdict.claim.id: verdict.ok for verdict in verdicts})}"
    yield from _distances(reproduction)
    for figure in reproduction.figures:
        fidelity = figure.fidelity
        if fidelity.errors:
            yield (
                f"{figure.definition.id}: {len(fidelity.errors)} completion times of jobs are"
                f" {fidelity.mean_abs_error:.1%} from simulations with the same seeds on average,"
                f" {fidelity.worst_abs_error:.1%} at worst"
            )
    for name, (over, n, mean_s) in reproduction.overruns.items():
        if over:
            yield (
                f"{name}: {over} of {n} took longer than the published time, {mean_s:.2f} s on average: the machine was"
                " busy, or is too slow for this --time-scale"
            )
    for figure in reproduction.figures:
        for (variant, seed), why in figure.disturbed.items():
            path = reproduction.run_path(figure.runs[variant][seed])
            yield f"disturbed: {why}; to make the run again, remove {path}"
    for verdict in sorted(verdicts, key=lambda verdict: verdict.ok is None):
        if not verdict.ok:
            why = reason(verdict.found, verdict.figure, reproduction.engine)
            yield f"{WORDS[verdict.ok]}: {verdict.claim.id}: {why}"


def _distances(reproduction: Reproduction) -> Iterator[str]:
    """The mean distance from the published figures, of which cells, and the largest."""
    claimed = [error for figure in reproduction.figures for error in figure.errors]
    every = [error for figure in reproduction.figures for error in figure.all_errors]
    if not every:
        return
    texts = [(claimed, "cells of claims on a distance"), (every, "all cells with a published figure")]
    means = [f"{fmean(errors):.1%} over {which} ({len(errors)})" for errors, which in texts if errors]
    shown = means[-1:] if len(every) == len(claimed) else means
    yield f"mean distance from the published figures: {', '.join(shown)}; the largest is {max(every):.1%}"


def reason(found: Finding | ClaimResult, figure: str, engine: str) -> str:
    """Why a claim does not hold; of an undecided one, also what the seeds that would decide it take."""
    if found.ok is not None:
        return found.why
    seeds = found.deciding_seeds
    if seeds is None:
        return f"{found.why}. Not even {MAX_SEEDS:,} seeds would decide it"
    return f"{found.why}. {seeds:,} seeds would decide it: {cost_of(all_figures()[figure], seeds, engine)}"


def counts(claims: Mapping[str, bool | None]) -> str:
    """How many claims held, failed and are undecided, those on fitted values apart."""
    texts = []
    for is_fitted in (False, True):
        ok = [holds for claim, holds in claims.items() if (claim in fitted_claims()) == is_fitted]
        if ok or not is_fitted:
            of_each = [f"{ok.count(verdict)} {word}" for verdict, word in WORDS.items() if verdict or verdict in ok]
            what = f"{len(ok)} more on fitted values" if is_fitted else counted(len(ok), "claim")
            texts.append(f"{what}: {', '.join(of_each)}")
    return "; ".join(texts)


def list_table(figures: list[FigureDefinition], runs: dict[str, dict[str, int]]) -> Table:
    """What can be reproduced; ``runs`` by engine and figure."""
    heads = [*names("id"), *words("what it shows"), *words("source", importance=1), *words("engines", importance=3)]
    table = new_table("natjam reproduce ID", [*heads, *numbers("claims", "runs sim", "live")])
    for figure in figures:
        counts = [str(count[figure.id]) if engine in figure.engines else "" for engine, count in runs.items()]
        row = (figure.id, figure.title, figure.source, ", ".join(figure.engines), str(len(figure.claims)), *counts)
        table.add_row(*row)
    return table


def claims_without_figure(figures: list[FigureDefinition]) -> str:
    """How many claims of each part of a paper have no figure yet."""
    measured = {claim for figure in figures for claim in figure.claims}
    left = Counter(".".join(claim.split(".")[:2]) for claim in all_claims() if claim not in measured)
    return ", ".join(f"{part} ({count})" if count > 1 else part for part, count in left.items())

"""The output of advice: a table, a picture of the trade-off, and ``advise.json``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import msgspec
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from analysis.advise.candidates import WAIT, Question, spelled_out
from analysis.advise.outcomes import CandidateResults
from analysis.advise.results import CandidateResult, CellColumn, column, results_table
from analysis.advise.verdict import Ratio, Rival, Verdict, advice, called, ratio_of
from analysis.figures import style
from emulator.display.tables import ALWAYS, Column, Kind, new_table, number, numbers, words
from emulator.vocabulary import counted

_ON_TOP = 10
"""Above all other points, which may be at the same place."""
_AMOUNTS = {"swap_gb": "swap GB", "checkpoint_gb": "saved GB", "storage_gb": "storage GB", "energy_mj": "energy MJ"}


def advice_table(question: Question, found: CandidateResults, verdict: Verdict | None) -> Table:
    """One row for each candidate; the chosen one is marked."""
    preferred = verdict.chosen if verdict is not None and verdict.is_preferred else None
    columns = [
        (Column("", Kind.NAME, ALWAYS), lambda row: ">" if row is preferred else ""),
        column("mechanism", Kind.NAME, ALWAYS, "mechanism"),
        (Column("policies", Kind.NAME, 5), lambda row: "\n".join(spelled_out(row.candidate.policies))),
        _measure("production\np50 s", 4, "production_p50_s"),
        _measure("production\np95 s", 2, "production_p95_s"),
        *([_measure("others'\nslowdown", 4, "other_slowdown")] if len(question.queues) > 1 else []),
        *([(Column("deadlines\nmissed", Kind.NUMBER, 4), _missed)] if _have_deadlines(found.rows) else []),
        _measure("work\nlost s", 2, "lost_s"),
        column("work\nlost %", Kind.NUMBER, 3, "lost_share", ".1%"),
    ]
    shown = [key for key in _AMOUNTS if any(row.number(key) for row in found.rows)]
    columns += [_measure(_AMOUNTS[key].replace(" ", "\n"), 1, key) for key in shown]
    runs = max((int(row.number("runs")) for row in found.rows), default=0)
    title = f"what each does to the jobs: means over {counted(runs, 'seed')}"
    table = results_table(title, columns, found.rows, preferred)
    table.caption = "\n".join(f"not compared: {name}: {why}" for name, why in question.left_out.items()) or None
    return table


def _measure(head: str, importance: int, key: str) -> CellColumn:
    return Column(head, Kind.NUMBER, importance), lambda row: number(row.value(key), decimals=(0, 1, 2))


def _have_deadlines(rows: Iterable[CandidateResult]) -> bool:
    return any(row.number("deadlines") for row in rows)


def _missed(row: CandidateResult) -> str:
    return f"{row.number('missed')} of {row.number('deadlines')}"


def decision_table(verdict: Verdict) -> Table:
    """The numbers that the rule decides by: one row for the best candidate of every mechanism, the best first."""
    rows = (verdict.itself, *verdict.rivals)
    has_deadlines = _have_deadlines(one.outcome for one in rows)
    title = "what the rule decides by: differences paired by seed, with 95% intervals"
    columns = [*words("the best of each\nmechanism")]
    columns += numbers("production\nvs wait", "others\nvs wait", "cost vs\nthe first", importance=4)
    columns += numbers("deadlines\nmissed", importance=3) if has_deadlines else []
    table = new_table(title, [*columns, *numbers("work\nlost %")], also_in="advise.json")
    for one in rows:
        cells = [_change(ratio) for ratio in (one.production_to_wait, one.others_to_wait)]
        cells += ["0" if one is verdict.itself else _change(one.cost)]
        cells += [_missed(one.outcome)] if has_deadlines else []
        is_chosen = verdict.is_preferred and one is verdict.itself
        style_ = "bold green" if is_chosen else ""
        table.add_row(called(one.outcome), *cells, one.outcome.text("lost_share", ".1%"), style=style_)
    return table


def _change(ratio: Ratio | None) -> str:
    """A difference in percent, its interval on the next line."""
    if ratio is None:
        return "-"
    if not ratio.interval or ratio.low is None or ratio.high is None:
        return f"{ratio.mean - 1:+.1%}"
    digits = 0 if ratio.high - ratio.low > 0.03 else 1
    return f"{ratio.mean - 1:+.1%}\n{ratio.low - 1:+.{digits}%} to {ratio.high - 1:+.{digits}%}"


def advice_json(
    question: Question, found: CandidateResults, verdict: Verdict | None, assumed: Sequence[str]
) -> dict[str, Any]:
    """The contents of ``advise.json``; ratios are of a candidate to the one that the rule takes, or to waiting."""
    return {
        "name": question.experiment.name,
        "production": question.production,
        "queues": list(question.queues),
        "basis": msgspec.to_builtins(question.experiment.basis),
        "assumed": list(assumed),
        "left_out": dict(question.left_out),
        "candidates": [{"name": row.candidate.name, **row.to_json()} for row in found.rows],
        "chosen": verdict.chosen.candidate.name if verdict is not None and verdict.is_preferred else None,
        "taken_by_rule": None if verdict is None else verdict.chosen.candidate.name,
        "itself": None if verdict is None else _rival_json(verdict.itself),
        "rivals": [] if verdict is None else [_rival_json(rival) for rival in verdict.rivals],
        "policies": [] if verdict is None else [_rival_json(rival) for rival in verdict.policies],
        "text": [] if verdict is None else [line.strip() for line in advice(found, verdict)],
    }


def _rival_json(rival: Rival) -> dict[str, Any]:
    found: dict[str, Any] = {**asdict(rival), "sure": rival.is_sure}
    del found["outcome"], found["is_sure"]
    return {"name": rival.outcome.candidate.name, **found}


def advice_figure(found: CandidateResults, verdict: Verdict) -> Figure:
    """The trade-off: how much longer other jobs take, against how much shorter production jobs take, than with *wait*.

    One point for the best candidate of each mechanism, with its name; small ones for the other policies.  Bars are 95%
    intervals over the seeds.  The good corner is named, and the preferred one, if any, has a ring.
    """
    figure, (panel,) = style.new_figure(width=7, height=4.4)
    sound = [row for row in found.rows if not row.number("failed")]
    base = WAIT if any(row.candidate.mechanism == WAIT for row in sound) else sound[0].candidate.name
    mechanisms = list(dict.fromkeys(row.candidate.mechanism for row in sound))
    best = {one.outcome.candidate.name: one for one in (verdict.itself, *verdict.rivals)}
    labels: list[tuple[float, float, str, str]] = []
    for row in sound:
        one = best.get(row.candidate.name)
        sides = [ratio_of(found.log_ratios(row.candidate.name, base, which)) for which in (True, False)]
        if one is not None and base == WAIT:
            sides = [one.production_to_wait, one.others_to_wait]
        (x, x_bars), (y, y_bars) = map(_point, sides)
        colour = style.LINES[mechanisms.index(row.candidate.mechanism) % len(style.LINES)]["color"]
        if one is None:
            panel.plot([x], [y], "o", color=colour, markersize=3, alpha=0.6)
            continue
        panel.errorbar([x], [y], xerr=x_bars, yerr=y_bars, fmt="none", ecolor=colour, elinewidth=0.8, alpha=0.5)
        is_chosen = row is verdict.chosen and verdict.is_preferred
        look: dict[str, Any] = {"zorder": _ON_TOP, "markeredgecolor": "white"} if is_chosen else {}
        panel.plot([x], [y], "o", color=colour, markersize=7, **look)
        if is_chosen:
            panel.plot([x], [y], "o", markersize=15, fillstyle="none", color=style.BLACK, zorder=_ON_TOP)
        labels.append((x, y, called(row) + "\npreferred" * is_chosen, colour))
    panel.axhline(0, color=style.GREY, linewidth=0.8)
    panel.axvline(0, color=style.GREY, linewidth=0.8)
    panel.margins(0.15)
    x_label, y_label = (f"completion of {which} jobs against {base}, %" for which in ("production", "other"))
    title = "the best of each mechanism; small: its other policies" + ("; ring: preferred" * verdict.is_preferred)
    style.finish(panel, x_label, y_label, title, legend=False)
    _name_points(panel, labels)
    panel.annotate(
        "better: both sooner",
        (0.01, 0.01),
        xycoords="axes fraction",
        xytext=(0.08, 0.08),
        textcoords="axes fraction",
        fontsize=style.FONT_POINTS - 1,
        color=style.GREY,
        arrowprops={"arrowstyle": "->", "color": style.GREY},
    )
    return figure


def _name_points(panel: Axes, labels: Sequence[tuple[float, float, str, str]]) -> None:
    """Names beside the plot in the order of the points' heights, each with a line to its point: points may coincide."""
    ordered = sorted(labels, key=lambda label: label[1])
    for place, (x, y, name, colour) in enumerate(ordered):
        panel.annotate(
            name,
            (x, y),
            xytext=(1.03, (place + 0.5) / len(ordered)),
            textcoords="axes fraction",
            va="center",
            fontsize=style.FONT_POINTS - 1,
            color=colour,
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.6, "alpha": 0.6, "shrinkB": 4},
        )


def _point(ratio: Ratio | None) -> tuple[float, list[list[float]] | None]:
    """A ratio in percent, with the lengths of its error bars."""
    if ratio is None:
        return 0.0, None
    at = 100 * (ratio.mean - 1)
    if ratio.low is None or ratio.high is None:
        return at, None
    return at, [[100 * (ratio.mean - ratio.low)], [100 * (ratio.high - ratio.mean)]]
